// Headings, paragraphs, formulas and pictures, one under the other. Text is data: textContent only.

import { el } from "../shared/dom.js";
import { drawBands } from "./bands.js";
import { drawBars, redraw } from "./bars.js";

const TAGS = { strong: ["strong"], token: ["code"], name: ["code"], target: ["span", "chip target"], draft: ["span", "chip draft"] };
const PATIENCE = 3000; // milliseconds after which the server is right, whatever was drawn ahead of it
const panels = new WeakMap();

const DRAW = {
  heading({ text, token, state, glyph }) {
    const made = el("h5", "", {}, text);
    if (token) made.append(" · ", el("code", "", {}, token));
    if (state) made.append(el("span", `badge ${state}`, {}, `${glyph} ${state}`));
    return made;
  },
  prose({ parts, small }) {
    const draw = ([kind, text]) => (TAGS[kind] ? el(TAGS[kind][0], TAGS[kind][1], {}, text) : text);
    return el("p", small ? "small" : "", {}, ...parts.map(draw));
  },
  formula: ({ lines }) => el("pre", "", {}, lines.join("\n")),
  bars: drawBars,
  bands: drawBands,
};

export default function ({ data, parentElement }) {
  let panel = panels.get(parentElement);
  if (!panel) panels.set(parentElement, (panel = new Panel(parentElement)));
  panel.update(data);
  return () => {
    panels.delete(parentElement);
    panel.destroy();
  };
}

class Panel {
  constructor(parent) {
    this.root = el("div", "blocks");
    parent.append(this.root);
    this.room = { width: 0, unit: 1 };
    this.measure();
    this.shown = ""; // what is drawn, as JSON
    this.ahead = null; // the place that was drawn before the server spoke of it
    this.stage = ""; // of the playback; what it does not show yet, the style sheet hides
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.root);
    this.onSelect = (/** @type {any} */ { detail }) => this.follow(detail);
    document.addEventListener("specviz:select", this.onSelect);
  }

  destroy() {
    this.resized.disconnect();
    document.removeEventListener("specviz:select", this.onSelect);
    clearTimeout(this.waiting);
    this.root.remove();
  }

  /** Draws what the server says, unless it speaks of a place that was left meanwhile and more is to come. */
  update(data) {
    this.data = data;
    clearTimeout(this.waiting);
    const left = this.ahead !== null && this.ahead.run === data.run && this.ahead.place !== data.place;
    if (!left) this.settle();
    else if (!this.stage) this.waiting = setTimeout(() => this.settle(), PATIENCE); // a playback says when it ends
  }

  settle() {
    this.ahead = null;
    this.draw(this.data.blocks);
  }

  /** Draws a place that the timeline has selected or plays, if the browser was told about it. */
  follow({ run, place, stage }) {
    if (!run || run !== this.data.run) return;
    clearTimeout(this.waiting);
    this.ahead = null;
    this.root.dataset.stage = this.stage = stage;
    if (place === this.data.place) return this.settle(); // the server has nothing new to say
    const known = globalThis.specvizAhead, content = known?.run === run ? known.places[place]?.[this.data.key] : undefined;
    if (!content) return;
    this.ahead = { run, place };
    this.draw(content);
  }

  draw(blocks) {
    const now = JSON.stringify(blocks);
    if (now === this.shown) return;
    this.shown = now;
    this.root.replaceChildren(...blocks.map((each) => DRAW[each.block](each, this.room)));
  }

  /** Takes the room there is, and the size of letters, on which a picture depends; whether one has changed. */
  measure() {
    const { width, unit } = this.room;
    this.room.width = this.root.clientWidth;
    this.room.unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;
    this.room.font = getComputedStyle(this.root).getPropertyValue("--st-font") || "sans-serif";
    return width !== this.room.width || unit !== this.room.unit;
  }

  resize() {
    if (!this.measure()) return;
    for (const each of this.root.querySelectorAll(".bars")) redraw(each);
  }
}
