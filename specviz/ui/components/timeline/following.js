// While a run goes on, what is newest stays in view, until somebody looks elsewhere; and the list of rounds
// is as high as the window has room for, so that its end is on the screen.

import { atEnd } from "../shared/dom.js";

export class Following {
  /** @param {HTMLElement[]} boxes that scroll, each followed by itself */
  constructor(boxes) {
    this.boxes = boxes;
    this.on = new Set(boxes);
  }

  start() {
    this.boxes.forEach((box) => this.on.add(box));
  }

  stop() {
    this.on.clear();
  }

  /** To be called when a box was scrolled: away from its end stops following it, back there starts again. */
  scrolled(box) {
    if (atEnd(box)) this.on.add(box);
    else this.on.delete(box);
  }

  follow() {
    for (const box of this.on) box.scrollTop = box.scrollHeight;
  }
}

const COMFORT = 0.42; // of the window's height: what rounds and the line under them should have
const LEAST = 130; // pixels: a round and the names of its columns
const ELSEWHERE = 0.6; // of the window's height, for rounds that begin below the first screen, as on a phone

/** Gives `box` the height that the window leaves it, with what stands `under` it where that fits too; whether it changed. */
export function fit(box, under) {
  const page = scrollingParent(box);
  if (!page || page.scrollTop > 0) return false; // where it stands is known only from the top
  const high = page.clientHeight, room = high - 12 - (box.getBoundingClientRect().top - page.getBoundingClientRect().top);
  const height = room - under >= COMFORT * high ? room - under - 16 : room >= LEAST ? room : ELSEWHERE * high;
  const before = box.style.maxHeight;
  box.style.maxHeight = `${Math.round(height)}px`;
  return box.style.maxHeight !== before;
}

function scrollingParent(box) {
  let node = box.getRootNode().host ?? box.parentElement;
  while (node && !/auto|scroll/.test(getComputedStyle(node).overflowY)) node = node.parentElement;
  return node;
}
