// Rows of boxes on a common scale, with marks, ticks and a legend. Text is data: textContent only.

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

function placed(name, x, span, text) {
  const made = element("span", name, text);
  made.style.left = `${(100 * x) / span}%`;
  return made;
}

function row(data, span) {
  const band = element("div", "band");
  if (data.title) band.append(element("div", "title", data.title));
  const track = element("div", "track");
  for (const [kind, start, width, text, hint] of data.boxes) {
    const box = placed(`box ${kind}`, start, span, text);
    box.style.width = `${(100 * width) / span}%`;
    box.title = hint;
    track.append(box);
  }
  for (const [x, text] of data.marks) {
    const mark = placed("mark", x, span);
    const label = element("span", "label", text);
    // A label stays inside the picture: it leaves its mark as the mark nears an end.
    label.style.transform = `translateX(-${Math.min(100, Math.max(0, (100 * x) / span))}%)`;
    mark.append(label);
    track.append(mark);
  }
  for (const [x, text] of data.ticks) {
    const tick = placed("tick", x, span, text);
    tick.style.transform = `translateX(-${(100 * x) / span}%)`;
    track.append(tick);
  }
  band.classList.toggle("marked", data.marks.length > 0);
  band.classList.toggle("ticked", data.ticks.length > 0);
  band.append(track);
  return band;
}

export default function ({ data, parentElement }) {
  let root = parentElement.querySelector(".bands");
  if (!root) {
    root = element("div", "bands");
    root.setAttribute("role", "img");
    parentElement.append(root);
  }
  root.setAttribute("aria-label", data.alt);
  root.replaceChildren(...data.rows.map((each) => row(each, data.span)));
  if (data.legend.length) {
    const legend = element("div", "legend");
    for (const [kind, name] of data.legend) {
      const entry = element("span", "entry");
      entry.append(element("span", `swatch box ${kind}`), element("span", "", name));
      legend.append(entry);
    }
    root.append(legend);
  }
}
