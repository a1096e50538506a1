// Paired bars with their overlap, and bars aligned under them, as one SVG. Text is data: textContent only.

import { button, el } from "../shared/dom.js";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 40, LEGEND = 28, UPPER = 150, NAMES = 48, TITLE = 26, LOWER = 56; // pixels at a root font of 16
const MARKED = new Set(["accepted", "rejected", "discarded", "corrected", "bonus"]);
const CHOICE = "specviz.scale"; // of this tab, for all pictures
const ruler = document.createElement("canvas").getContext("2d");

function shape(tag, name, attributes, text = "") {
  const made = document.createElementNS(SVG, tag);
  if (name) made.setAttribute("class", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text) made.textContent = text;
  return made;
}

const rect = (name, x, y, width, height) => shape("rect", name, { x, y, width, height });
const line = (x1, x2, y) => shape("line", "grid", { x1, x2, y1: y, y2: y });
const words = (name, x, y, text, anchor = "middle") => shape("text", name, { x, y, "text-anchor": anchor }, text);

/** Width of a text. Measured beside the page, which would have to be laid out for it. */
function widthOf(text, size, font) {
  ruler.font = `${size}px ${font}`;
  return ruler.measureText(text).width;
}

/** Text no wider than `room`. */
function fitting(name, x, y, text, room, size, font) {
  const made = words(name, x, y, text);
  if (widthOf(text, size, font) > room) {
    made.setAttribute("textLength", room);
    made.setAttribute("lengthAdjust", "spacingAndGlyphs");
  }
  return made;
}

/** Where a value lies on a scale, 0 … 1. */
function share(value, { low, top }) {
  if (!(value > 0)) return 0;
  return Math.min(1, Math.max(0, low ? Math.log(value / low) / Math.log(top / low) : value / top));
}

/** A bar, with its number in it where it leaves the scale. */
function bar(name, x, bottom, width, height, over) {
  const out = [rect(name, x, bottom - height, width, height)];
  if (!over) return out;
  return [...out, ...["⇡", over].map((text, i) => words(`over in-${name}`, x + width / 2, bottom - height + 12 + 13 * i, text))];
}

function drawColumn(data, scale, column, x, width, lower, font) {
  const bottom = LEGEND + UPPER, last = bottom + NAMES + (data.residual_top === null ? 0 : TITLE + LOWER);
  const half = 0.41 * width, middle = x + width / 2, high = (value) => UPPER * share(value, scale);
  const over = (text, value) => (value > scale.top ? text : "");
  const group = shape("g", `column ${column.kind ?? ""}`, {});
  group.append(rect("area", x, LEGEND, width, last - LEGEND));
  if (column.q === null) {
    group.append(...bar("target", middle - 0.3 * width, bottom, 0.6 * width, high(column.p), over(column.p_over, column.p)));
  } else {
    const both = high(column.overlap);
    group.append(...bar("target", middle - half, bottom, half, high(column.p), over(column.p_over, column.p)));
    group.append(...bar("draft", middle + 1, bottom, half, high(column.q), over(column.q_over, column.q)));
    if (both > 0) group.append(rect("overlap", middle - half, bottom - both, 2 * half + 1, both));
  }
  group.append(fitting("name", middle, bottom + 16, column.name, width - 3, 12, font));
  const room = MARKED.has(column.kind) ? 1.8 * width : width - 3;
  if (column.note) group.append(fitting("note", middle, bottom + (lower ? 44 : 30), column.note, room, 12, font));
  if (data.residual_top !== null) {
    const tall = (LOWER - 14) * Math.min(1, column.residual / data.residual_top);
    group.append(...bar("residual", middle - 0.3 * width, last, 0.6 * width, tall, column.residual_over));
    if (column.residual_text) group.append(words("number", middle, last - tall - 4, column.residual_text));
  }
  return group;
}

function picture(data, scale, width, font, hover) {
  const bottom = LEGEND + UPPER, each = (width - LEFT) / data.columns.length;
  const height = bottom + NAMES + (data.residual_top === null ? 0 : TITLE + LOWER + 2);
  const svg = shape("svg", "", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": data.alt });
  let x = 2;
  for (const [kind, name] of data.legend) {
    svg.append(rect(kind, x, 4, 12, 11), words("", x + 17, 14, name, "start"));
    x += 33 + widthOf(name, 13, font);
  }
  for (const [value, label] of scale.ticks) {
    const y = bottom - UPPER * share(value, scale);
    svg.append(line(LEFT, width, y), words("number", LEFT - 6, y + 4, label, "end"));
  }
  let lower = false, marked = false, noted = false; // the note of the column before
  data.columns.forEach((column, i) => {
    // A mark is wider than its column: a note beside one goes a line lower.
    const mark = MARKED.has(column.kind), note = Boolean(column.note);
    lower = note && noted && (mark || marked) && !lower;
    [marked, noted] = [mark, note];
    const group = drawColumn(data, scale, column, LEFT + i * each, each, lower, font);
    group.onpointerenter = () => hover(group, column.hint);
    group.onpointerleave = () => hover(null);
    svg.append(group);
  });
  if (data.residual_top !== null) svg.append(line(LEFT, width, height - 2), words("", 2, bottom + NAMES + 17, data.residual_title, "start"));
  return svg;
}

function chosenScale(scales) {
  let name = "";
  try {
    name = sessionStorage.getItem(CHOICE);
  } catch {
    // storage can be forbidden
  }
  return scales.find((each) => each.name === name) ?? scales[0];
}

/** @type {WeakMap<Element, () => void>} */
const pictures = new WeakMap();

/** Draws a picture again for the room there is now. */
export const redraw = (root) => pictures.get(root)();

/** @param {{ width: number, unit: number, font: string }} room pixels across, root font size / 16, font family */
export function drawBars(data, room) {
  const root = el("div", "bars"), hint = el("div", "hint", { "aria-hidden": "true", hidden: "" });
  let scale = chosenScale(data.scales);
  const tools = el("div", "tools");
  root.append(tools, hint);
  pictures.set(root, () => {
    const svg = picture(data, scale, Math.max(240, room.width / room.unit), room.font, (group, lines) => point(root, hint, group, lines));
    root.querySelector("svg")?.remove();
    root.prepend(svg);
  });
  const log = button("Log scale", "Logarithmic scale for the upper bars", () => {
    scale = data.scales.find((each) => each !== scale);
    try {
      sessionStorage.setItem(CHOICE, scale.name);
    } catch {
      // then it is forgotten
    }
    log.setAttribute("aria-pressed", scale.name === "log");
    redraw(root);
  });
  log.setAttribute("aria-pressed", scale.name === "log");
  tools.append(log, button("PNG", "Save this picture as a PNG", () => savePicture(root, data.file), "Save the bars as a PNG"));
  redraw(root);
  return root;
}

function point(root, hint, group, lines) {
  hint.hidden = !group;
  if (!group) return;
  hint.replaceChildren(...lines.map((text) => el("div", "", {}, text)));
  const outer = root.getBoundingClientRect(), inner = group.getBoundingClientRect();
  const left = inner.left + inner.width / 2 - outer.left - hint.offsetWidth / 2;
  hint.style.left = `${Math.max(0, Math.min(left, outer.width - hint.offsetWidth))}px`;
  hint.style.top = `${inner.top - outer.top - hint.offsetHeight - 4}px`;
}

/** Saves the picture as it looks, at twice its size. */
async function savePicture(root, name) {
  const svg = root.querySelector("svg"), copy = svg.cloneNode(true), margin = 12;
  const from = svg.querySelectorAll("*"), to = copy.querySelectorAll("*");
  from.forEach((each, i) => {
    const style = getComputedStyle(each);
    for (const property of ["fill", "stroke", "stroke-width", "font", "unicode-bidi"]) to[i].style.setProperty(property, style.getPropertyValue(property));
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const text = new XMLSerializer().serializeToString(copy).replace(/[\uFFFE\uFFFF]/g, "\uFFFD"); // no XML has these
  const source = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const image = Object.assign(new Image(), { src: source });
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * (width + 2 * margin), height: 2 * (height + 2 * margin) });
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(root).getPropertyValue("--st-background-color") || "#ffffff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 2 * margin, 2 * margin, 2 * width, 2 * height);
  URL.revokeObjectURL(source);
  canvas.toBlob((blob) => {
    const link = el("a", "", { href: URL.createObjectURL(blob), download: `${name}.png` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
