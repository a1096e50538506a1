// The timeline component. State is small: the pinned token, the stage of the playback (null: everything is
// shown) and the revealed rounds. Every paint is a function of these, so going back is as easy as going on.

import { el, isDark, reveal } from "../shared/dom.js";
import { count } from "../shared/numbers.js";
import { CommittedText } from "./committed.js";
import { Controls, legend, reading } from "./controls.js";
import { Following, fit } from "./following.js";
import { Grid, placeOfCell } from "./grid.js";
import { helpDialog, onKey } from "./keys.js";
import { cellViews, committedAt, locate, placeAt, unpack } from "./playback.js";
import { Player } from "./player.js";
import { Saying } from "./saying.js";
import { Tip } from "./tip.js";

/** @typedef {[number, number]} Place round number and position, from 1; the last is the corrected or bonus token */

const instances = new WeakMap();
let lastUsed = null; // of several timelines on a page, the one that gets the keys when nothing has the focus

export default function ({ data, parentElement, setStateValue }) {
  let timeline = instances.get(parentElement);
  if (!timeline) instances.set(parentElement, (timeline = new Timeline(parentElement)));
  // A value that the page has had before is no news to Streamlit. After a push it can be: say which it follows.
  timeline.send = (name, value) => setStateValue(name, { value, push: data.push.version });
  timeline.update(data);
  return () => {
    instances.delete(parentElement);
    timeline.destroy();
  };
}

class Timeline {
  constructor(parent) {
    /** @type {(name: string, value: any) => void} */
    this.send = () => {};
    this.selected = /** @type {Place | null} */ (null);
    this.step = /** @type {number | null} */ (null);
    this.now = null; // where `step` lies
    this.player = new Player(this);
    this.revealed = new Set();
    this.hot = []; // elements that show what the pointer is on
    this.find = this.find.bind(this);
    this.isCovered = (round) => Boolean(this.data.covered) && !this.revealed.has(round.number);
    this.build(parent);
    this.following = new Following([this.grid.el, this.text.el]);
    this.onKey = (event) => onKey(this, event);
    this.fit = () => fit(this.grid.el, this.reading.offsetHeight) && this.keepInView();
    this.sizes = new ResizeObserver(this.fit);
    this.sizes.observe(this.root);
    window.addEventListener("resize", this.fit);
    window.addEventListener("keydown", this.onKey, true); // before Streamlit's own shortcuts: R reruns the app
    lastUsed = this;
  }

  destroy() {
    this.player.stop();
    clearTimeout(this.sending);
    clearTimeout(this.scrolled);
    this.grid.destroy();
    this.sizes.disconnect();
    window.removeEventListener("resize", this.fit);
    window.removeEventListener("keydown", this.onKey, true);
    if (lastUsed === this) lastUsed = null;
    this.root.remove();
  }

  isLastUsed() {
    return lastUsed === this;
  }

  build(parent) {
    this.text = new CommittedText();
    this.grid = new Grid(this.isCovered, (round) => this.reveal(round));
    this.saying = new Saying(() => this.letGo());
    this.controls = new Controls(this);
    this.tip = new Tip();
    this.help = helpDialog();
    this.title = el("h2");
    this.live = el("span", "live", {}, "running");
    this.error = el("p", "error", { role: "alert" });
    this.reading = el("p", "reading");
    this.root = el("div", "timeline", {},
      el("section", "card", {}, el("h2", "", {}, "Committed text"), this.text.el),
      el("section", "card", {},
        el("header", "", {}, this.title, this.live, legend()),
        this.controls.el, this.saying.el, this.grid.el, this.error, this.reading),
      this.tip.el, this.help);
    this.root.onclick = (event) => this.click(event);
    this.root.onpointerover = (event) => event.pointerType !== "touch" && this.hover(event.target);
    this.root.onpointerleave = () => this.hover(null);
    this.grid.el.onscroll = () => {
      this.hover(null);
      this.following.scrolled(this.grid.el);
      clearTimeout(this.scrolled);
      this.scrolled = setTimeout(() => this.step === null && this.tellView(this.grid.middle()), 250);
    };
    this.text.el.onscroll = () => this.following.scrolled(this.text.el);
    this.root.onpointerdown = this.root.onfocusin = () => (lastUsed = this);
    parent.append(this.root);
  }

  // --- From data to DOM ---------------------------------------------------------------------------------

  update(data) {
    const before = this.data, pushed = this.version !== data.push.version; // else the selection is newer here than there
    const anew = !before || before.covered !== data.covered || before.notation !== data.notation || (data.covered && pushed);
    const changed = anew || before.trace !== data.trace;
    if (changed) this.columns = JSON.parse(data.trace);
    if (before?.run !== data.run) this.viewed = undefined;
    this.data = data;
    this.version = data.push.version;
    if (pushed) this.revealed = new Set(data.push.revealed);
    this.root.classList.toggle("dark", isDark(this.root));
    this.live.hidden = !data.live;
    this.error.hidden = !this.columns.error;
    this.error.textContent = `The run broke off: ${this.columns.error}`;
    const other = changed && !this.takeRounds(anew);
    const followed = data.live || Boolean(before?.live);
    if (other || (data.live && !before?.live)) this.following.start();
    if (pushed) this.select(data.push.selected, { quiet: true, jump: !followed });
    else if (this.selected && !this.find(this.selected)) this.select(null, { quiet: true });
    this.paint();
    this.fit();
    if (followed && this.step === null) this.following.follow();
  }

  /** Takes the rounds of the columns; returns how many of those drawn before stay. */
  takeRounds(anew) {
    this.model = unpack(this.columns, this.isCovered, this.data.notation);
    this.index = new Map(this.model.rounds.map((round) => [round.number, round.i]));
    const kept = this.grid.update(this.model, { anew, live: this.data.live });
    if (!kept) {
      this.player.stop();
      this.step = this.now = null;
      this.reading.replaceChildren(...reading(this.model.letters, this.model.rounds.some((round) => round.verifier === "block")));
    }
    this.text.update(this.model, this.isCovered, kept);
    return kept;
  }

  paint() {
    const before = this.now;
    this.now = this.step === null ? null : locate(this.model, this.step);
    this.grid.show(this.now, before);
    this.paintHead();
    this.text.cutTo(this.now && this.now.round.text + committedAt(this.now.round, this.now.stage));
  }

  paintHead() {
    const { rounds, mean } = this.model, known = mean !== null && !rounds.some(this.isCovered);
    this.title.textContent = `Timeline · ${count(rounds.length, "round")}${known ? ` · mean acceptance length ${mean.toFixed(2)}` : ""}`;
    this.controls.paint(this, this.openRejections().length > 0);
    this.saying.unpin.hidden = this.step !== null || !this.selected;
    this.saying.say(this);
  }

  reveal(round) {
    this.player.stop();
    this.revealed.add(round.number);
    this.send("revealed", [...this.revealed]);
    this.model = this.grid.model = unpack(this.columns, this.isCovered, this.data.notation);
    if (this.now) this.step = this.model.rounds[this.now.round.i].stages + this.now.n;
    this.grid.paint(this.grid.rows[round.i], null);
    this.text.update(this.model, this.isCovered, 0);
    this.paint();
  }

  // --- Selection ------------------------------------------------------------------------------------------

  /** The round that a place lies in, or undefined. */
  find([number, position]) {
    const round = this.model.rounds[this.index.get(number)];
    return round && position >= 1 && position <= round.k + 1 ? round : undefined;
  }

  /**
   * Pins a token, or none with null.
   * quiet: the server knows already; jump: bring it into view; focus: the keyboard goes there; later: more may come.
   * @param {Place | null} place
   */
  select(place, { quiet = false, jump = false, focus = false, later = false } = {}) {
    const round = place && this.find(place);
    this.mark(round ? place : null);
    this.paintHead();
    if (round && jump) this.jumpTo(round, place[1]);
    if (round && focus) {
      const cell = this.grid.cellAt(round, place[1]);
      cell.focus({ preventScroll: true });
      cell.scrollIntoView({ block: "nearest", inline: "nearest" }); // the page, too, if it has to
    }
    clearTimeout(this.sending);
    if (quiet) return;
    if (place) this.following.stop();
    else this.following.start();
    this.announce();
    this.tellSelection(later ? 150 : 0);
  }

  mark(place) {
    this.selected = place;
    const round = place && this.find(place);
    if (round) this.grid.draw(this.grid.rows[round.i]);
    this.grid.mark(place);
    this.text.mark(round ? this.text.spanAt(round, place[1]) : undefined);
  }

  /** What the page knows beforehand about a place need not wait for the server. */
  announce() {
    const detail = { run: this.data.run, place: String(this.selected), stage: this.now ? this.now.stage.kind : "" };
    document.dispatchEvent(new CustomEvent("specviz:select", { detail }));
  }

  tellSelection(delay) {
    clearTimeout(this.sending);
    this.sending = setTimeout(() => this.send("selected", this.selected), delay);
  }

  /** Lets the server know which rounds are looked at, so that it can tell the page about them beforehand. */
  tellView(round) {
    if (this.data.live || this.data.covered || !round || Math.abs(round.number - (this.viewed ?? 1)) < 4) return;
    this.viewed = round.number;
    this.send("view", round.number);
  }

  /** In a list of another height what is pinned, or newest, is still to be seen. */
  keepInView() {
    if (this.data?.live) this.following.follow();
    else if (this.step === null && this.selected) this.jumpTo(this.find(this.selected), this.selected[1]);
  }

  jumpTo(round, position) {
    const span = this.text.spanAt(round, position);
    reveal(this.grid.el, this.grid.cellAt(round, position), this.grid.heads.offsetHeight);
    if (span) reveal(this.text.el, span.el);
  }

  /** The place of a cell, or of a span of the text. A character of several tokens gives them in turn. */
  placeOf(target) {
    const cell = target.closest(".cell"), text = target.closest(".t");
    if (cell) return placeOfCell(cell);
    if (!text) return null;
    const places = this.text.placesOf(text);
    const at = places.findIndex((place) => String(place) === String(this.selected));
    return places[(at + 1) % places.length];
  }

  click(event) {
    const place = this.placeOf(event.target), cell = event.target.closest(".cell");
    if (!place) return;
    this.select(place, { jump: true, focus: Boolean(cell) });
    this.hover(null);
  }

  hover(target) {
    const place = target && this.placeOf(target), name = place ? String(place) : "";
    if (name && name === this.hovered) return;
    this.hovered = name;
    for (const node of this.hot) node.classList.remove("hot");
    this.hot = [];
    if (!place || name === String(this.selected)) return this.tip.hide(); // what is pinned is said above
    const round = this.find(place), span = this.text.spanAt(round, place[1]);
    this.hot = [this.grid.cellAt(round, place[1]), span && span.el].filter(Boolean);
    for (const node of this.hot) node.classList.add("hot");
    const stage = this.now && this.now.round === round ? this.now.stage : null;
    const view = cellViews(round, stage, this.isCovered(round))[place[1] - 1];
    this.tip.show(target.closest(".cell, .t"), this.model, round, place[1] - 1, view);
  }

  // --- Playback -----------------------------------------------------------------------------------------------

  /** Shows stage `step` of the run; null, or a step behind the last, shows everything. The selection goes along. */
  seek(step) {
    const over = step === null || step >= this.model.stages;
    if (over) this.player.stop();
    this.step = over ? null : Math.max(0, step);
    this.hover(null);
    this.paint();
    if (this.now) {
      this.mark(placeAt(this.now.round, this.now.stage));
      this.tellView(this.now.round);
    }
    this.announce();
    if (!this.player.playing) this.tellSelection(300);
  }

  openRejections() {
    return this.model.rounds.filter((round) => round.rejected && !this.isCovered(round));
  }

  letGo() {
    this.hover(null);
    if (this.step !== null) this.seek(null);
    else this.select(null);
  }
}
