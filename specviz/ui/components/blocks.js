// Headings, paragraphs, formulas and pictures, one under the other. Text is data: textContent only.

const TAGS = { strong: ["strong"], token: ["code"], name: ["code"], target: ["span", "chip target"], draft: ["span", "chip draft"] };
const PATIENCE = 3000; // milliseconds that what was drawn ahead waits for the server to say the same
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
    this.root.width = this.root.clientWidth;
    this.shown = ""; // what is drawn, as JSON
    this.ahead = null; // the place that was drawn before the server spoke of it
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.root);
    this.onSelect = ({ detail }) => this.follow(detail);
    document.addEventListener("specviz:select", this.onSelect);
  }

  destroy() {
    this.resized.disconnect();
    document.removeEventListener("specviz:select", this.onSelect);
    clearTimeout(this.waiting);
    this.root.remove();
  }

  /** Draws what the server says, unless it speaks of a place that was left meanwhile. */
  update(data) {
    this.data = data;
    if (this.ahead !== null && this.ahead !== data.place) return;
    this.settle();
  }

  settle() {
    clearTimeout(this.waiting);
    this.ahead = null;
    this.draw(this.data.blocks);
  }

  /** Draws a place that the timeline has selected, if the browser was told about it. */
  follow({ run, place }) {
    const known = globalThis.specvizAhead;
    const content = known?.run === run && run && this.data.key ? known.places[place]?.[this.data.key] : undefined;
    if (!content) return;
    this.ahead = place;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.settle(), PATIENCE);
    this.draw(content);
  }

  draw(blocks) {
    const now = JSON.stringify(blocks);
    if (now === this.shown) return;
    this.shown = now;
    this.root.replaceChildren(...blocks.map((each) => DRAW[each.block](each, this.root)));
  }

  resize() {
    if (this.root.clientWidth === this.root.width) return;
    this.root.width = this.root.clientWidth;
    for (const each of this.root.querySelectorAll(".bars")) each.redraw();
  }
}
