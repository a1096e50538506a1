// The line above the rounds that says what happens, or why the pinned token is what it is.

import { button, el } from "../shared/dom.js";
import { drawPieces } from "../shared/tokens.js";
import { narrate, question, verdict } from "./words.js";

/** A part of a sentence as an element; see words.js. */
export function drawPart(part, model) {
  if (typeof part === "string") return part;
  if ("token" in part) return el("bdi", "token", { dir: "auto" }, drawPieces(model.tokens[part.token], false));
  if ("key" in part) return el("kbd", "", {}, part.key);
  const [P, Q] = model.letters;
  if ("target" in part) return el("span", "target", {}, part.bare ? part.target : `${P} = ${part.target}`);
  if ("draft" in part) return el("span", "draft", {}, part.bare ? part.draft : `${Q} = ${part.draft}`);
  return el("strong", part.state || "", {}, part.strong);
}

export class Saying {
  constructor(onLetGo) {
    this.where = el("span", "where");
    this.said = el("div", "said");
    this.unpin = button("unpin", "Esc", onLetGo, "Unpin the token");
    this.el = el("div", "stage", {}, this.where, this.said, this.unpin);
    this.last = "";
  }

  /** @param {any} timeline whose stage, or else pinned token, or else invitation is said */
  say({ model, now, selected, find, data, isCovered }) {
    const [where, parts] = words(model, now, selected && find(selected), selected, data, isCovered);
    const present = where + JSON.stringify(parts);
    if (present === this.last) return; // a live region must not repeat itself
    this.last = present;
    this.said.setAttribute("aria-live", now ? "polite" : "off"); // a focused token has a name of its own
    this.where.textContent = where;
    this.said.replaceChildren(...parts.map((part) => drawPart(part, model)));
  }
}

/** @returns {[string, any[]]} where we are, and the sentence in parts */
function words(model, now, round, selected, data, isCovered) {
  if (now) {
    return [`Round ${now.round.number} · step ${now.n + 1} of ${now.round.count}`, narrate(model, now.round, now.stage, isCovered(now.round))];
  }
  if (round) {
    return [`Round ${round.number} · position ${selected[1]}`, (isCovered(round) ? question : verdict)(model, round, selected[1] - 1)];
  }
  if (model.rounds.length) return ["", ["Play shows how a round happens. Click a token to pin it. ", { key: "?" }, " lists the keys."]];
  return ["", [data.live ? "Waiting for the first round." : "No rounds yet."]];
}
