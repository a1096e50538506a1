// What a token says when the pointer is on it.

import { el } from "../shared/dom.js";
import { number } from "../shared/numbers.js";
import { drawPart } from "./saying.js";
import { isFinal } from "./playback.js";
import { figuresOf, verdict } from "./words.js";

export class Tip {
  constructor() {
    this.el = el("div", "tip", { popover: "manual", role: "tooltip" });
  }

  hide() {
    // A timeline that has left the page hears of the pointer once more.
    if (this.el.togglePopover && this.el.isConnected) this.el.togglePopover(false);
  }

  /** Beside `anchor`: the token at index i of a round, as far as it is known in this view. */
  show(anchor, model, round, i, view) {
    if (!this.el.togglePopover || !this.el.isConnected) return; // an old browser: the line above the rounds says the same on a click
    const said = isFinal(view) ? verdict(model, round, i) : [view === "covered" ? "Covered: reveal the round to see it." : "A proposal, not judged yet."];
    const figures = figuresOf(model, round, i, view).map(([kind, name, value]) => [el("dt", kind, {}, name), el("dd", kind, {}, number(value))]);
    this.el.replaceChildren(
      el("div", "head", {}, `round ${round.number} · position ${i + 1}`),
      el("p", "", {}, ...said.map((part) => drawPart(part, model))),
      el("dl", "", {}, ...figures.flat()));
    this.el.togglePopover(true);
    const box = anchor.getBoundingClientRect(), { offsetWidth: width, offsetHeight: height } = this.el;
    const below = box.bottom + 8 + height < window.innerHeight;
    this.el.style.left = `${Math.max(8, Math.min(box.left, window.innerWidth - width - 8))}px`;
    this.el.style.top = `${below ? box.bottom + 8 : Math.max(8, box.top - height - 8)}px`;
  }
}
