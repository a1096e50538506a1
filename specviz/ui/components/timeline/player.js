// The playback's clock, and moving through its stages by hand.

import { SECONDS } from "./playback.js";

export class Player {
  /** @param {any} timeline whose `seek` shows a stage, and whose `step` and `now` say which one is shown */
  constructor(timeline) {
    this.timeline = timeline;
    this.playing = false;
    this.timer = 0;
    this.speed = 1;
  }

  stop() {
    clearTimeout(this.timer);
    this.playing = false;
  }

  toggle() {
    const { timeline } = this;
    if (!timeline.model.rounds.length) return;
    if (this.playing) {
      this.stop();
      timeline.tellSelection(0);
    } else {
      this.playing = true;
      if (timeline.step === null) timeline.seek(this.start());
      this.schedule();
    }
    timeline.paintHead();
  }

  schedule() {
    const { timeline } = this, { round, stage } = timeline.now;
    this.timer = setTimeout(() => {
      const waits = stage.kind === "pass" && timeline.isCovered(round); // until somebody has decided
      if (waits) this.stop();
      else timeline.seek(timeline.step + 1);
      if (this.playing) this.schedule();
      timeline.paintHead();
    }, (1000 * SECONDS[stage.kind]) / this.speed);
  }

  /** The first stage of the round that is looked at. */
  start() {
    const { selected, find } = this.timeline, round = selected && find(selected);
    return round ? round.stages : 0;
  }

  move(by) {
    const { timeline } = this;
    if (!timeline.model.rounds.length) return;
    this.stop();
    if (timeline.step !== null) timeline.seek(timeline.step + by);
    else timeline.seek(by > 0 ? this.start() : timeline.model.stages - 1);
  }

  /** During playback the stage, otherwise the token; from the last one on to the first. */
  nextRejection() {
    const { timeline } = this, rejections = timeline.openRejections();
    const stageAt = (round) => round.stages + round.k + 1 + round.accepted;
    if (!rejections.length) return;
    if (timeline.step !== null) {
      this.stop();
      timeline.seek(stageAt(rejections.find((round) => stageAt(round) > timeline.step) || rejections[0]));
      return;
    }
    const [number, position] = timeline.selected || [-1, 0];
    const next = rejections.find((round) => round.number > number || (round.number === number && round.accepted >= position)) || rejections[0];
    timeline.select([next.number, next.accepted + 1], { jump: true, focus: true });
  }
}
