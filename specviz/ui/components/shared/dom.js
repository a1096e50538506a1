// Small helpers for the DOM. Token text reaches the page through textContent and attributes only.

function el(tag, className = "", attributes = {}, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function button(label, title, action, name = "") {
  const node = el("button", "", { type: "button", title, ...(name && { "aria-label": name }) }, label);
  node.onclick = action;
  return node;
}

/** Brings `node` into view inside `box`, below what sticks to its top. The page itself does not move. */
function reveal(box, node, sticky = 0) {
  const outer = box.getBoundingClientRect(), inner = node.getBoundingClientRect();
  const above = inner.top - outer.top - sticky - 6, below = inner.bottom - outer.top - box.clientHeight + 6;
  if (above < 0) box.scrollTop += above;
  else if (below > 0) box.scrollTop += below;
  const left = inner.left - outer.left - 40, right = inner.right - outer.left - box.clientWidth + 8;
  if (left < 0) box.scrollLeft += left;
  else if (right > 0) box.scrollLeft += right;
}

const atEnd = (box) => box.scrollTop + box.clientHeight >= box.scrollHeight - 12;

/** Whether the theme's background is dark. */
function isDark(host) {
  const probe = el("i");
  probe.style.color = getComputedStyle(host).getPropertyValue("--st-background-color") || "white";
  host.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
}

/**
 * The pieces of a token, given flat as kind, text, kind, text, … Running text keeps the characters
 * themselves, so that lines break and copying works; elsewhere everything is made visible.
 */
function drawPieces(pieces, running) {
  const out = document.createDocumentFragment();
  if (!pieces.length && !running) out.append(el("span", "chip", {}, "empty"));
  for (let i = 0; i < pieces.length; i += 2) out.append(...drawPiece(pieces[i], pieces[i + 1], running));
  return out;
}

function drawPiece(kind, text, running) {
  if (kind === "text") return [!running && /^\p{M}/u.test(text) ? "◌" + text : text];
  if (kind === "space" || kind === "newline" || kind === "tab") return drawMarks(kind, text, running);
  if (kind !== "invisible") return [el("span", `chip ${kind}`, {}, text)];
  if (running) return [text];
  return [el("span", "chip", {}, [...text].map(codePoint).join(" "))];
}

/** White space: the style sheet draws the mark. Running text keeps the character; elsewhere long runs are counted. */
function drawMarks(kind, text, running) {
  const counted = !running && text.length > 3, keep = running || kind === "space";
  const marks = [...(counted ? text[0] : text)].map((ch) => el("span", `mark ${kind}`, {}, keep ? ch : ""));
  return counted ? [...marks, el("span", "times", {}, `×${text.length}`)] : marks;
}
