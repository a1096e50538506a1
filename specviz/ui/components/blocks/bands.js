// Rows of boxes on a common scale, with marks, ticks and a legend. Text is data: textContent only.

import { el } from "../shared/dom.js";

function placed(name, x, span, text = "") {
  const made = el("span", name, {}, text);
  made.style.left = `${(100 * x) / span}%`;
  return made;
}

function drawBand(data, span) {
  const track = el("div", "track");
  for (const [kind, start, width, text, hint] of data.boxes) {
    const box = placed(`box ${kind}`, start, span, text);
    box.style.width = `${(100 * width) / span}%`;
    box.title = hint;
    track.append(box);
  }
  for (const [x, text] of data.marks ?? []) {
    const mark = placed("mark", x, span), label = el("span", "label", {}, text);
    // A label stays inside the picture: it leaves its mark as the mark nears an end.
    label.style.transform = `translateX(-${Math.min(100, Math.max(0, (100 * x) / span))}%)`;
    mark.append(label);
    track.append(mark);
  }
  for (const [x, text] of data.ticks ?? []) {
    const tick = placed("tick", x, span, text);
    tick.style.transform = `translateX(-${(100 * x) / span}%)`;
    track.append(tick);
  }
  const band = el("div", "band", {}, track);
  if (data.title) band.prepend(el("div", "title", {}, data.title));
  band.classList.toggle("marked", Boolean(data.marks));
  band.classList.toggle("ticked", Boolean(data.ticks));
  return band;
}

export function drawBands(data) {
  const rows = data.rows.map((each) => drawBand(each, data.span));
  const entry = ([kind, name]) => el("span", "entry", {}, el("span", `swatch box ${kind}`), el("span", "", {}, name));
  if (data.legend) rows.push(el("div", "legend", {}, ...data.legend.map(entry)));
  return el("div", "bands", { role: "img", "aria-label": data.alt }, ...rows);
}
