// Small helpers for the DOM. Token text reaches the page through textContent and attributes only.

export function el(tag, className = "", attributes = {}, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function button(label, title, action, name = "") {
  const node = el("button", "", { type: "button", title, ...(name && { "aria-label": name }) }, label);
  node.onclick = action;
  return node;
}

/** Brings `node` into view inside `box`, below what sticks to its top. The page itself does not move. */
export function reveal(box, node, sticky = 0) {
  const outer = box.getBoundingClientRect(), inner = node.getBoundingClientRect();
  const above = inner.top - outer.top - sticky - 6, below = inner.bottom - outer.top - box.clientHeight + 6;
  if (above < 0) box.scrollTop += above;
  else if (below > 0) box.scrollTop += below;
  const left = inner.left - outer.left - 40, right = inner.right - outer.left - box.clientWidth + 8;
  if (left < 0) box.scrollLeft += left;
  else if (right > 0) box.scrollLeft += right;
}

export const atEnd = (box) => box.scrollTop + box.clientHeight >= box.scrollHeight - 12;

/** Whether the theme's background is dark. */
export function isDark(host) {
  const probe = el("i");
  probe.style.color = getComputedStyle(host).getPropertyValue("--st-background-color") || "white";
  host.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
}
