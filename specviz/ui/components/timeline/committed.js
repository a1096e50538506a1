// The committed text, coloured by origin. A span is a group of tokens that only together are whole
// characters; most groups are one token.

import { el, reveal } from "../shared/dom.js";
import { drawPieces } from "../shared/tokens.js";

export class CommittedText {
  constructor() {
    this.el = el("div", "text", { tabindex: "0", role: "group", "aria-label": "Committed text, coloured by origin" });
    this.caret = el("span", "caret", { "aria-hidden": "true" });
    /** @type {WeakMap<Element, any>} */
    this.spanOfElement = new WeakMap();
    this.spans = []; // { el, start, size, ends }: `size` tokens from `start` on; whether a line ends there
  }

  /** Draws what changed: nothing before the `kept` first rounds did. */
  update(model, isCovered, kept) {
    this.model = model;
    this.owner = []; // of each token behind the prompt: its round and its index there
    for (const round of model.rounds) {
      for (let n = 0; n < round.committed; n++) this.owner[round.text + n] = [round, n < round.accepted ? n : round.k];
    }
    this.cutTo(null);
    for (const span of this.spans.splice(this.unchanged(kept))) this.removeSpan(span);
    while (this.spans.length < model.groups.length) this.addSpan(isCovered);
    this.spanOf = [];
    for (const span of this.spans) for (let n = 0; n < span.size; n++) this.spanOf.push(span);
  }

  /** Leading spans that stay. A new token can still complete or extend the two groups before it. */
  unchanged(kept) {
    if (!kept) return 0;
    const next = this.model.rounds[kept];
    if (!next) return this.spans.length;
    const touched = this.spans.findIndex((span) => span.start + span.size > next.text - 1);
    return Math.max(0, (touched < 0 ? this.spans.length : touched) - 2);
  }

  removeSpan({ el: node }) {
    const line = node.parentNode;
    node.remove();
    if (!line.hasChildNodes()) line.remove();
  }

  addSpan(isCovered) {
    const last = this.spans[this.spans.length - 1];
    const span = this.drawSpan(this.spans.length, last ? last.start + last.size : 0, isCovered);
    if (!last || last.ends) this.el.append(el("div", "line"));
    this.el.lastChild.append(span.el);
    this.spans.push(span);
  }

  drawSpan(g, start, isCovered) {
    const { model } = this, size = model.groups[g];
    const owners = this.owner.slice(start, start + size).filter(Boolean);
    const span = { start, size, ends: false };
    const covered = owners.find(([round]) => isCovered(round));
    // One veil a round, whatever is under it: even the number of tokens would be an answer.
    if (covered) span.el = start <= covered[0].text ? el("span", "veil", { role: "img", "aria-label": `round ${covered[0].number}, covered` }, "▒▒▒") : el("span");
    else {
      const pieces = size > 1 ? model.merged[g] : model.tokens[owners.length ? this.tokenOf(owners[0]) : model.prompt[start]];
      span.ends = pieces[pieces.length - 2] === "newline";
      span.el = el("span", "", {}, drawPieces(pieces, true));
      if (owners.length) this.colour(span.el, owners.map(([round, i]) => (i < round.k ? "accepted" : round.outcome)));
    }
    this.spanOfElement.set(span.el, span);
    return span;
  }

  tokenOf([round, i]) {
    return i < round.k ? this.model.positions.token[round.from + i] : round.token;
  }

  /** A character made by tokens of several origins carries all their colours, in order. */
  colour(node, origins) {
    node.classList.add("t", origins[0]);
    if (new Set(origins).size === 1) return;
    const share = 100 / origins.length;
    const stops = origins.map((origin, i) => `var(--${origin}) ${i * share}% ${(i + 1) * share}%`);
    node.style.setProperty("--line", `linear-gradient(90deg, ${stops.join(", ")})`);
  }

  /** Ends the text behind `length` tokens, with a caret; null shows all of it. */
  cutTo(length) {
    if (this.caret.parentNode) this.caret.parentNode.classList.remove("end");
    if (length === null || !this.spans.length) return this.caret.remove();
    const span = this.spanOf[length];
    if (span) span.el.before(this.caret);
    else this.el.lastChild.append(this.caret);
    this.caret.parentNode.classList.add("end");
    reveal(this.el, this.caret);
  }

  /** The span of a position of a round; undefined if it is not in the text. */
  spanAt(round, position) {
    const isOutcome = position > round.k, n = isOutcome ? round.accepted : position - 1;
    return n < round.committed && (isOutcome || n < round.accepted) ? this.spanOf[round.text + n] : undefined;
  }

  /** Marks a span, or none. */
  mark(span) {
    if (this.pinned) this.pinned.classList.remove("pinned");
    this.pinned = span && span.el;
    if (this.pinned) this.pinned.classList.add("pinned");
  }

  /** The places [round number, position] of the tokens that made the span of an element. */
  placesOf(element) {
    const { start, size } = this.spanOfElement.get(element);
    return this.owner.slice(start, start + size).filter(Boolean).map(([round, i]) => [round.number, i + 1]);
  }
}
