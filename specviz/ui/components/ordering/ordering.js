// Lines to put in order: by dragging the handle (mouse, pen or finger), by Alt and the arrow keys, or by
// buttons. Lines below the border are left out. Elements are kept and moved, never made anew, so that the
// focus stays where it is; a moved element is given the focus again, since moving takes it away.

import { el } from "../shared/dom.js";

const instances = new WeakMap();

export default function ({ data, parentElement, setStateValue }) {
  let ordering = instances.get(parentElement);
  if (!ordering) instances.set(parentElement, (ordering = new Ordering(parentElement)));
  ordering.send = setStateValue;
  ordering.update(data);
  return () => {
    instances.delete(parentElement);
    ordering.root.remove();
  };
}

class Ordering {
  constructor(parent) {
    /** @type {(name: string, value: any) => void} */
    this.send = () => {};
    this.lines = new Map(); // key -> element
    this.version = null;
    this.kept = el("ol", "kept", { "aria-label": "Your order" });
    this.out = el("ol", "out", { "aria-label": "Left out" });
    this.bin = el("p", "bin", {}, "Below this border: does not belong");
    this.said = el("div", "said", { "aria-live": "assertive" });
    this.how = el("p", "how", {}, "Drag ⠿, or focus a line and press Alt with ↑ or ↓, or use the buttons.");
    this.root = el("div", "ordering", {}, this.how, this.kept, this.bin, this.out, this.said);
    this.root.onkeydown = (event) => this.key(event);
    parent.append(this.root);
  }

  update({ lines, order, out, version, bin, marks, locked }) {
    this.root.classList.toggle("locked", locked);
    this.locked = locked;
    this.bin.hidden = this.out.hidden = !bin;
    if (version !== this.version) {
      this.version = version;
      for (const node of this.lines.values()) node.remove();
      this.lines = new Map(lines.map(({ key, text }) => [key, this.build(key, text)]));
      for (const key of order) this.kept.append(this.lines.get(key));
      for (const key of out) this.out.append(this.lines.get(key));
      this.said.textContent = "";
    }
    for (const [key, node] of this.lines) {
      const mark = marks?.[key];
      node.classList.toggle("wrong", Boolean(mark));
      node.classList.toggle("right", mark === "");
      node.mark.textContent = mark || "";
      node.mark.hidden = !mark;
    }
    this.number();
  }

  build(key, text) {
    const handle = el("button", "handle", { type: "button" }, "⠿");
    const place = el("span", "place", { "aria-hidden": "true" });
    const mark = el("span", "mark", { hidden: "" });
    const words = el("div", "words", {}, text, mark);
    const up = el("button", "up", { type: "button" }, "↑");
    const down = el("button", "down", { type: "button" }, "↓");
    const node = el("li", "line", { "data-key": key }, handle, place, words, el("div", "buttons", {}, up, down));
    Object.assign(node, { text, mark, place, handle, up, down });
    up.onclick = () => this.move(node, -1, up);
    down.onclick = () => this.move(node, 1, down);
    handle.onpointerdown = (event) => this.grab(event, node);
    return node;
  }

  all() {
    return [...this.kept.children, ...this.out.children];
  }

  number() {
    const nodes = this.all();
    const last = this.out.hidden ? nodes.length - 1 : -1;
    nodes.forEach((node, i) => {
      const kept = node.parentElement === this.kept;
      const where = kept ? `position ${i + 1} of ${this.kept.children.length}` : "left out";
      node.place.textContent = kept ? `${i + 1}` : "–";
      node.handle.setAttribute("aria-label", `${node.text}, ${where}. Alt and arrow keys move it`);
      node.up.setAttribute("aria-label", `Move up: ${node.text}`);
      node.down.setAttribute("aria-label", `Move down: ${node.text}`);
      node.up.setAttribute("aria-disabled", String(this.locked || (kept && i === 0)));
      node.down.setAttribute("aria-disabled", String(this.locked || i === last || node === this.out.lastElementChild));
    });
  }

  /** One step up or down; the border between the lists is one step too. */
  move(node, step, focus) {
    if (this.locked) return;
    const list = node.parentElement;
    const beside = step < 0 ? node.previousElementSibling : node.nextElementSibling;
    if (beside) step < 0 ? beside.before(node) : beside.after(node);
    else if (step > 0 && list === this.kept && !this.out.hidden) this.out.prepend(node);
    else if (step < 0 && list === this.out) this.kept.append(node);
    else return this.say(`${node.text}: already ${step < 0 ? "first" : "last"}`);
    focus.focus();
    this.moved(node);
  }

  moved(node) {
    this.number();
    const kept = node.parentElement === this.kept;
    const place = [...this.kept.children].indexOf(node) + 1;
    this.say(kept ? `${node.text}: moved to position ${place} of ${this.kept.children.length}` : `${node.text}: left out`);
    const keys = (list) => [...list.children].map((child) => child.dataset.key);
    this.send("order", { version: this.version, kept: keys(this.kept), out: keys(this.out) });
  }

  say(text) {
    this.said.textContent = text === this.said.textContent ? `${text}\u00a0` : text;
  }

  key(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const node = event.target.closest?.(".line");
    if (!step || !node) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.altKey) return this.move(node, step, event.target);
    const nodes = this.all();
    nodes[nodes.indexOf(node) + step]?.handle.focus();
  }

  /** Dragging: the line follows the pointer through the lists and stays where it is let go. */
  grab(event, node) {
    if (this.locked || event.button > 0) return;
    const before = this.all();
    const list = node.parentElement;
    node.classList.add("dragged");
    const follow = ({ clientY }) => {
      const target = this.out.hidden || clientY < this.bin.getBoundingClientRect().top ? this.kept : this.out;
      const others = [...target.children].filter((other) => other !== node);
      const below = others.find((other) => {
        const { top, height } = other.getBoundingClientRect();
        return clientY < top + height / 2;
      });
      const there = node.parentElement === target && (node.nextElementSibling ?? undefined) === below;
      if (!there) target.insertBefore(node, below ?? null);
    };
    const stop = (cancelled) => {
      window.removeEventListener("pointermove", follow);
      window.removeEventListener("pointerup", drop);
      window.removeEventListener("pointercancel", cancel);
      window.removeEventListener("keydown", escape, true);
      node.classList.remove("dragged");
      if (cancelled) this.restore(before, list, node);
      node.handle.focus();
      const same = this.all().every((other, i) => other === before[i]) && node.parentElement === list;
      if (!same) this.moved(node);
    };
    const drop = () => stop(false);
    const cancel = () => stop(true);
    const escape = (pressed) => {
      if (pressed.key !== "Escape") return;
      pressed.stopPropagation();
      stop(true);
    };
    window.addEventListener("pointermove", follow);
    window.addEventListener("pointerup", drop);
    window.addEventListener("pointercancel", cancel);
    window.addEventListener("keydown", escape, true);
  }

  restore(before, list, node) {
    const place = before.indexOf(node);
    const after = before.slice(place + 1).find((other) => other.parentElement === list);
    list.insertBefore(node, after ?? null);
  }
}
