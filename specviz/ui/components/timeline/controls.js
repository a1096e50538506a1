// What stands around the rounds: buttons of the playback, the names of the states, how to read a cell.

import { button, el } from "../shared/dom.js";
import { STATES } from "./playback.js";

const SPEEDS = [0.5, 1, 2, 4];

/** The buttons of the playback, painted from the timeline's state. */
export class Controls {
  constructor(timeline) {
    this.back = button("|◀︎", "One stage back (←)", () => timeline.player.move(-1), "One stage back");
    this.play = button("", "Space", () => timeline.player.toggle());
    this.play.className = "primary";
    this.forward = button("▶︎|", "One stage on (→)", () => timeline.player.move(1), "One stage on");
    const speed = /** @type {HTMLSelectElement} */ (el("select", "", { "aria-label": "Speed of the playback" }, ...SPEEDS.map((x) => el("option", "", { value: x }, `${x}×`))));
    speed.value = "1";
    speed.onchange = () => (timeline.player.speed = Number(speed.value));
    this.next = button("next rejection", "R", () => timeline.player.nextRejection());
    this.all = button("show all", "Leave the playback (Esc)", () => timeline.seek(null));
    const keys = button("?", "Keys (?)", () => timeline.help.showModal(), "Keys");
    this.el = el("div", "controls", { role: "group", "aria-label": "Playback" }, this.back, this.play, this.forward, speed, this.next, this.all, keys);
  }

  paint({ model, step, player }, hasRejection) {
    const none = !model.rounds.length;
    this.play.textContent = player.playing ? "❚❚ Pause" : "▶︎ Play";
    this.play.disabled = this.forward.disabled = none;
    this.back.disabled = none || step === 0;
    this.next.disabled = !hasRejection;
    this.all.disabled = step === null;
  }
}

export function legend() {
  const names = ["accepted", "rejected", "corrected", "bonus", "discarded"];
  return el("div", "legend", {}, ...names.map((name) => el("span", name, {}, `${STATES[name][0]} ${name}`)));
}

/** How to read a cell, beside a small one. */
export function reading([P, Q], blocks) {
  const bar = el("span", "bar accepted", { "aria-hidden": "true", style: "--a: 0.7; --u: 0.35" }, el("i"), el("b"));
  if (blocks) return [bar, `bar and number: h, what u is compared with for the beginning of the block up to there · mark: the random number u · the longest beginning whose mark lies on its bar is kept · share: of the residual · ${P}: the target's probability`];
  return [bar, `bar and number: accept probability min(1, ${P}/${Q}) · mark: the random number u · a proposal is accepted when the mark lies on the bar · share: of the residual · ${P}: the target's probability`];
}
