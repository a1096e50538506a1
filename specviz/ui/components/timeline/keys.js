// The keys of the timeline, what they do, and when they are ours.

import { button, el } from "../shared/dom.js";
import { placeOfCell } from "./grid.js";

const KEYS = [
  ["Space", "play, pause"],
  ["← →", "step through the playback; without one, go from token to token"],
  ["↑ ↓", "the round before, the round after"],
  ["Home End", "first or last stage; without playback, first or last token"],
  ["R", "next rejection"],
  ["Enter", "pin the focused token"],
  ["Esc", "leave the playback, then unpin the token"],
  ["?", "these keys"],
];

/** The dialog that lists the keys. */
export function helpDialog() {
  const list = KEYS.flatMap(([keys, what]) => [el("dt", "", {}, ...keys.split(" ").map((key) => el("kbd", "", {}, key))), el("dd", "", {}, what)]);
  const dialog = /** @type {HTMLDialogElement} */ (el("dialog", "help", { "aria-label": "Keys of the timeline" }, el("h2", "", {}, "Keys"), el("dl", "", {}, ...list)));
  dialog.append(button("close", "Esc", () => dialog.close()));
  dialog.onclick = (event) => event.target === dialog && dialog.close(); // the backdrop
  return dialog;
}

/** Keys are ours with the focus inside, or when only what is around us has it; never while somebody types. */
function listens(timeline, event) {
  const path = event.composedPath(), active = document.activeElement;
  if (path[0].matches && path[0].matches("input, textarea, select, [contenteditable]")) return false;
  if (path.includes(timeline.root)) return true;
  if (document.querySelector("[data-testid=stDialog]")) return false; // the keys are its own
  if (event.key === "ArrowUp" || event.key === "ArrowDown") return false; // the page scrolls with these
  return timeline.isLastUsed() && (!active || active.contains(timeline.root.getRootNode().host || timeline.root));
}

/** @param {any} timeline
 * @param {KeyboardEvent} event */
export function onKey(timeline, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !listens(timeline, event)) return;
  const target = /** @type {HTMLElement} */ (event.composedPath()[0]);
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (timeline.help.open && name !== "?") return; // the dialog has its own keys
  if (target.closest && target.closest("button") && (name === " " || name === "Enter")) return;
  if (name === "Escape" && timeline.step === null && !timeline.selected) return timeline.hover(null);
  const action = {
    " ": () => timeline.player.toggle(),
    ArrowLeft: () => arrow(timeline, -1),
    ArrowRight: () => arrow(timeline, 1),
    ArrowUp: () => arrowRound(timeline, -1),
    ArrowDown: () => arrowRound(timeline, 1),
    Home: () => edge(timeline, false),
    End: () => edge(timeline, true),
    r: () => timeline.player.nextRejection(),
    Enter: target.dataset && target.dataset.place && (() => timeline.select(placeOfCell(target))),
    Escape: () => timeline.letGo(),
    "?": () => (timeline.help.open ? timeline.help.close() : timeline.help.showModal()),
  }[name];
  if (!action) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (!event.repeat || name.startsWith("Arrow")) action();
}

function arrow(timeline, by) {
  if (timeline.step !== null) return timeline.player.move(by);
  const { rounds } = timeline.model, round = timeline.selected && timeline.find(timeline.selected);
  if (!round) return edge(timeline, by < 0);
  const i = timeline.selected[1] - 1 + by;
  if (i >= 0 && i <= round.k) goTo(timeline, round, i);
  else goTo(timeline, rounds[round.i + by], by > 0 ? 0 : Infinity);
}

/** To another round, in the same column. */
function arrowRound(timeline, by) {
  const { rounds } = timeline.model, playing = timeline.step !== null;
  const round = playing ? timeline.now.round : timeline.selected && timeline.find(timeline.selected);
  if (!round) return edge(timeline, by < 0);
  const next = rounds[round.i + by];
  if (!playing) goTo(timeline, next, timeline.selected[1] > round.k ? Infinity : timeline.selected[1] - 1);
  else if (next) {
    timeline.player.stop();
    timeline.seek(next.stages);
  }
}

function edge(timeline, last) {
  const { rounds } = timeline.model;
  if (timeline.step === null) return goTo(timeline, rounds[last ? rounds.length - 1 : 0], last ? Infinity : 0);
  timeline.player.stop();
  timeline.seek(last ? null : 0);
}

function goTo(timeline, round, i) {
  if (round) timeline.select([round.number, Math.min(i, round.k) + 1], { jump: true, focus: true, later: true });
}
