// The timeline component. State is small: the pinned token, the stage of the playback (null: everything is
// shown) and the revealed rounds. Every paint is a function of these, so going back is as easy as going on.

const NEAR = "700px 0px"; // rows this close to the visible ones are drawn
const FIRST = 12; // rows drawn at once
const SPEEDS = [0.5, 1, 2, 4];
const KEYS = [
  ["Space", "play, pause"],
  ["← →", "step through the playback; without one, go from token to token"],
  ["↑ ↓", "the round before, the round after"],
  ["Home End", "first or last stage; without playback, first or last token"],
  ["R", "next rejection"],
  ["Enter", "pin the focused token"],
  ["Esc", "leave the playback, then let go of the pinned token"],
  ["?", "these keys"],
];

const instances = new WeakMap();
let lastUsed = null; // of several timelines on a page, the one that gets the keys when nothing has the focus

export default function ({ data, parentElement, setStateValue }) {
  let timeline = instances.get(parentElement);
  if (!timeline) instances.set(parentElement, (timeline = new Timeline(parentElement)));
  timeline.send = setStateValue;
  timeline.update(data);
  return () => {
    instances.delete(parentElement);
    timeline.destroy();
  };
}

class Timeline {
  constructor(parent) {
    this.rows = []; // one per round: { el, i, signature, cells }, cells null while it is far away
    this.marked = []; // elements that show the selection
    this.hot = []; // elements that show what the pointer is on
    this.selected = null; // [round number, position]
    this.step = null;
    this.now = null; // where `step` lies
    this.timer = 0;
    this.speed = 1;
    this.revealed = new Set();
    this.isCovered = (round) => Boolean(this.data.covered) && !this.revealed.has(round.number);
    this.build(parent);
    this.near = new IntersectionObserver((entries) => this.drawNear(entries), { root: this.scroller, rootMargin: NEAR });
    this.onKey = (event) => this.key(event);
    window.addEventListener("keydown", this.onKey, true); // before Streamlit's own shortcuts: R reruns the app
    lastUsed = this;
  }

  destroy() {
    this.stop();
    clearTimeout(this.sending);
    clearTimeout(this.scrolled);
    this.near.disconnect();
    window.removeEventListener("keydown", this.onKey, true);
    if (lastUsed === this) lastUsed = null;
    this.root.remove();
  }

  // --- The frame ----------------------------------------------------------------------------------------

  build(parent) {
    this.text = new CommittedText();
    this.title = el("h2");
    this.live = el("span", "live", {}, "running");
    this.where = el("span", "where");
    this.said = el("div", "said");
    this.unpin = button("let go", "Esc", () => this.letGo());
    this.heads = el("div", "heads", { role: "row", "aria-rowindex": "1" });
    this.scroller = el("div", "scroller", { role: "grid", "aria-label": "Rounds" }, this.heads);
    this.error = el("p", "error", { role: "alert" });
    this.reading = el("p", "reading");
    this.tip = el("div", "tip", { popover: "manual", role: "tooltip" });
    this.help = this.buildHelp();
    this.root = el("div", "timeline", {},
      el("section", "card", {}, el("h2", "", {}, "Committed text"), this.text.el),
      el("section", "card", {},
        el("header", "", {}, this.title, this.live, this.buildLegend()),
        this.buildControls(),
        el("div", "stage", {}, this.where, this.said, this.unpin),
        this.scroller, this.error, this.reading),
      this.tip, this.help);
    this.root.onclick = (event) => this.click(event);
    this.root.onpointerover = (event) => event.pointerType !== "touch" && this.hover(event.target);
    this.root.onpointerleave = () => this.hover(null);
    this.scroller.onscroll = () => {
      this.hover(null);
      clearTimeout(this.scrolled);
      this.scrolled = setTimeout(() => this.tellView(), 250);
    };
    this.root.onpointerdown = this.root.onfocusin = () => (lastUsed = this);
    parent.append(this.root);
  }

  buildControls() {
    this.back = button("|◀︎", "One stage back (←)", () => this.move(-1), "One stage back");
    this.play = button("", "Space", () => this.toggle());
    this.play.className = "primary";
    this.forward = button("▶︎|", "One stage on (→)", () => this.move(1), "One stage on");
    const speed = el("select", "", { "aria-label": "Speed of the playback" }, ...SPEEDS.map((x) => el("option", "", { value: x }, `${x}×`)));
    speed.value = "1";
    speed.onchange = () => (this.speed = Number(speed.value));
    this.next = button("next rejection", "R", () => this.nextRejection());
    this.all = button("show all", "Leave the playback (Esc)", () => this.seek(null));
    const keys = button("?", "Keys (?)", () => this.help.showModal(), "Keys");
    return el("div", "controls", { role: "group", "aria-label": "Playback" }, this.back, this.play, this.forward, speed, this.next, this.all, keys);
  }

  buildLegend() {
    const names = ["accepted", "rejected", "corrected", "bonus", "discarded"];
    return el("div", "legend", {}, ...names.map((name) => el("span", name, {}, `${STATES[name][0]} ${name}`)));
  }

  /** How to read a cell, beside a small one. */
  drawReading() {
    const [P, Q] = this.model.letters;
    const bar = el("span", "bar accepted", { "aria-hidden": "true", style: "--a: 0.7; --u: 0.35" }, el("i"), el("b"));
    this.reading.replaceChildren(bar, `bar and number: accept probability min(1, ${P}/${Q}) · mark: the random number u · a proposal is accepted when the mark lies on the bar · share: of the residual · ${P}: the target's probability`);
  }

  buildHelp() {
    const list = KEYS.flatMap(([keys, what]) => [el("dt", "", {}, ...keys.split(" ").map((key) => el("kbd", "", {}, key))), el("dd", "", {}, what)]);
    const dialog = el("dialog", "help", { "aria-label": "Keys of the timeline" }, el("h2", "", {}, "Keys"), el("dl", "", {}, ...list));
    dialog.append(button("close", "Esc", () => dialog.close()));
    dialog.onclick = (event) => event.target === dialog && dialog.close(); // the backdrop
    return dialog;
  }

  // --- From data to DOM ---------------------------------------------------------------------------------

  update(data) {
    const follow = data.live && !this.selected && this.step === null;
    const followRows = follow && atEnd(this.scroller), followText = follow && atEnd(this.text.el);
    const pushed = this.version !== data.push.version; // else the selection is newer here than there
    const anew = !this.data || this.data.covered !== data.covered || this.data.notation !== data.notation || (data.covered && pushed);
    const changed = anew || this.data.trace !== data.trace;
    if (changed) this.columns = JSON.parse(data.trace);
    if (this.data?.run !== data.run) this.viewed = undefined;
    this.data = data;
    this.version = data.push.version;
    if (pushed) this.revealed = new Set(data.push.revealed);
    this.root.classList.toggle("dark", isDark(this.root));
    this.live.hidden = !data.live;
    this.error.hidden = !this.columns.error;
    this.error.textContent = `The run broke off: ${this.columns.error}`;
    if (changed) {
      const kept = this.updateRows(anew);
      this.text.update(this.model, this.isCovered, kept);
    }
    if (pushed) this.select(data.push.selected, { quiet: true, jump: true });
    else if (this.selected && !this.find(this.selected)) this.select(null, { quiet: true });
    this.paint();
    if (followRows) this.scroller.scrollTop = this.scroller.scrollHeight;
    if (followText) this.text.el.scrollTop = this.text.el.scrollHeight;
  }

  /** Brings the rows up to date and leaves alone those that say the same as before; returns their number. */
  updateRows(anew) {
    const before = this.model && this.model.columns;
    this.model = unpack(this.columns, this.isCovered, this.data.notation);
    this.index = new Map(this.model.rounds.map((round) => [round.number, round.i]));
    const signatures = this.model.rounds.map((round) => signature(this.model, round));
    let kept = 0;
    if (!anew && before === this.model.columns) {
      while (kept < this.rows.length && this.rows[kept].signature === signatures[kept]) kept++;
    }
    for (const row of this.rows.splice(kept)) {
      this.near.unobserve(row.el);
      row.el.remove();
    }
    if (!kept) {
      this.stop();
      this.step = this.now = null;
      this.drawHeads();
    }
    const fresh = kept && this.data.live ? "row fresh" : "row";
    for (const round of this.model.rounds.slice(kept)) {
      const row = { el: el("div", fresh), i: round.i, signature: signatures[round.i], cells: null };
      row.el.row = row;
      this.rows.push(row);
      this.near.observe(row.el);
    }
    this.scroller.append(...this.rows.slice(kept).map((row) => row.el));
    this.scroller.setAttribute("aria-rowcount", this.rows.length + 1);
    for (const row of this.rows.slice(kept, kept + FIRST)) this.drawRow(row);
    return kept;
  }

  drawHeads() {
    const { columns, letters } = this.model;
    this.drawReading();
    this.scroller.style.setProperty("--k", columns);
    this.scroller.classList.toggle("many", columns > 5);
    this.scroller.setAttribute("aria-colcount", columns + 3);
    const names = ["round", ...[...Array(columns).keys()].map((i) => `draft ${i + 1}`), columns ? "corrected or bonus" : `from ${letters[0]}`, "result"];
    this.heads.replaceChildren(...names.map((name) => el("span", "", { role: "columnheader" }, name)));
  }

  /** Rows are drawn when they come near and emptied when they are far, but for those that hold the focus. */
  drawNear(entries) {
    const active = this.scroller.getRootNode().activeElement;
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.drawRow(target.row);
      else if (target.row.i && !this.marked.includes(target) && !target.contains(active)) {
        target.replaceChildren();
        for (const name of ["role", "aria-rowindex"]) target.removeAttribute(name); // a row without cells is none
        target.row.cells = null;
      }
    }
  }

  drawRow(row) {
    if (row.cells) return;
    const round = this.model.rounds[row.i];
    row.el.setAttribute("role", "row");
    row.el.setAttribute("aria-rowindex", row.i + 2);
    row.cells = [...Array(round.k + 1).keys()].map((i) => this.drawCell(round, i));
    row.result = el("div", "result", { role: "gridcell" });
    const box = el("div", "box", { "aria-hidden": "true" }, el("span", "", {}, `verified in one pass${round.verifyMs ? ` · ${ms(round.verifyMs)}` : ""}`));
    box.style.gridColumn = `2 / span ${Math.max(1, round.k)}`;
    const none = round.k ? [] : [el("span", "none", { role: "gridcell" }, "nothing drafted")];
    row.el.replaceChildren(el("span", "number", { role: "rowheader" }, String(round.number)), ...none, ...row.cells.map((cell) => cell.el), row.result, box);
    this.paintRow(row);
    if (!row.i || (this.selected && this.selected[0] === round.number)) this.mark();
  }

  drawCell(round, i) {
    const { positions, tokens, columns } = this.model, isOutcome = i === round.k, j = round.from + i;
    const [name, glyph, word, figure] = ["name", "glyph", "word", "figure"].map((name) => el("span", name));
    const silent = { "aria-hidden": "true" }; // the name says it all, in words
    const pieces = tokens[isOutcome ? round.token : positions.token[j]], token = drawPieces(pieces, false);
    const brief = pieces.length === 2 && pieces[1].length === 1 ? " brief" : ""; // a struck full stop reads as a dash
    const column = isOutcome ? columns + 2 : i + 2;
    const node = el("div", "cell", { role: "gridcell", tabindex: "-1", "aria-colindex": column, style: `grid-column: ${column}` },
      name, el("div", "state", silent, glyph, word, figure), el("div", `token${brief}`, { dir: "auto", ...silent }, token));
    if (!isOutcome) {
      const bar = el("div", "bar", silent, el("i"));
      bar.style.setProperty("--a", acceptProbability(positions.p[j], positions.q[j]));
      bar.style.setProperty("--u", positions.u[j]);
      if (positions.u[j] !== null) bar.append(el("b"));
      node.append(bar);
    }
    node.place = [round.number, i + 1];
    return { el: node, name, glyph, word, figure, view: "", classes: [] };
  }

  // --- Painting: what the present stage shows -------------------------------------------------------------

  stageIn(i) {
    return this.now && this.now.round.i === i ? this.now.stage : null;
  }

  paint() {
    const before = this.now;
    this.now = this.step === null ? null : locate(this.model, this.step);
    for (const place of [before, this.now]) {
      const row = place && this.rows[place.round.i];
      if (!row) continue;
      row.el.classList.toggle("now", Boolean(this.now) && this.now.round.i === row.i);
      if (place === this.now) this.drawRow(row);
      if (row.cells) this.paintRow(row);
    }
    this.paintHead();
    this.say();
    if (!this.now) return this.text.cutTo(null);
    const { round, stage } = this.now, row = this.rows[round.i].el;
    reveal(this.scroller, row, this.heads.offsetHeight);
    if (!before || before.round.i !== round.i) row.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.text.cutTo(round.text + committedAt(round, stage));
  }

  paintHead() {
    const { rounds, mean } = this.model, none = !rounds.length;
    const known = mean !== null && !rounds.some(this.isCovered);
    this.title.textContent = `Timeline · ${count(rounds.length, "round")}${known ? ` · mean acceptance length ${mean.toFixed(2)}` : ""}`;
    this.play.textContent = this.timer ? "❚❚ Pause" : "▶︎ Play";
    this.play.disabled = this.forward.disabled = none;
    this.back.disabled = none || this.step === 0;
    this.next.disabled = !rounds.some((round) => this.isOpenRejection(round));
    this.all.disabled = this.step === null;
    this.unpin.hidden = this.step !== null || !this.selected;
  }

  paintRow(row) {
    const round = this.model.rounds[row.i], stage = this.stageIn(row.i), kind = stage && stage.kind;
    const covered = this.isCovered(round), views = cellViews(round, stage, covered);
    row.el.classList.toggle("pass", kind === "pass");
    row.cells.forEach((cell, i) => {
      this.paintCell(round, i, cell, views[i]);
      cell.el.classList.toggle("judging", kind === "verdict" ? stage.at === i : kind === "outcome" && i === round.k);
    });
    const early = stage && kind !== "caches";
    row.result.replaceChildren(...(early ? [] : covered ? [this.revealButton(round)] : this.resultOf(round)));
  }

  paintCell(round, i, cell, view) {
    if (cell.view === view) return;
    cell.view = view;
    const [glyph, word] = STATES[view] || ["", ""];
    const cut = isFinal(view) && isCut(round, i);
    cell.el.classList.remove(...cell.classes);
    cell.el.classList.add(...(cell.classes = [view, ...(cut ? ["cut"] : [])]));
    cell.name.textContent = cellName(this.model, round, i, view);
    cell.glyph.textContent = glyph;
    cell.word.textContent = cut ? `${word}, cut` : word;
    cell.figure.textContent = cornerOf(this.model, round, i, view);
  }

  resultOf(round) {
    const lost = round.accepted + 1 - round.committed;
    const times = [round.draftMs && `draft ${ms(round.draftMs)}`, round.verifyMs && `verify ${ms(round.verifyMs)}`];
    const notes = [round.finish && `ends: ${ENDS[round.finish]}`, lost > 0 && `${lost} cut`, round.verifier !== "exact" && `rule: ${round.verifier}`];
    const line = (className, parts) => {
      const text = parts.filter(Boolean).join(" · ");
      return text ? [el("div", className, { title: text }, text)] : [];
    };
    const first = el("div", "", {}, el("strong", "", {}, round.k ? `${round.accepted} of ${round.k}` : "no draft"), ` → ${count(round.committed, "token")}`);
    return [first, ...line("ms", times), ...line("note", notes)];
  }

  revealButton(round) {
    return button(`reveal round ${round.number}`, "Show the verdicts of this round", () => {
      this.stop();
      this.revealed.add(round.number);
      this.send("revealed", [...this.revealed]);
      this.model = unpack(this.columns, this.isCovered, this.data.notation);
      if (this.now) this.step = this.model.rounds[this.now.round.i].stages + this.now.n;
      this.paintRow(this.rows[round.i]);
      this.text.update(this.model, this.isCovered, 0);
      this.paint();
    });
  }

  // --- Selection ------------------------------------------------------------------------------------------

  /** The round that a place [number, position] lies in, or undefined. */
  find([number, position]) {
    const round = this.model.rounds[this.index.get(number)];
    return round && position >= 1 && position <= round.k + 1 ? round : undefined;
  }

  /**
   * Pins a token, or lets go with null.
   * quiet: the server knows already; jump: bring it into view; focus: the keyboard goes there; later: more may come.
   */
  select(place, { quiet = false, jump = false, focus = false, later = false } = {}) {
    const round = place && this.find(place);
    this.selected = round ? place : null;
    if (round) this.drawRow(this.rows[round.i]);
    this.mark();
    this.paintHead();
    this.say();
    if (round && jump) this.jumpTo(round, place[1]);
    if (round && focus) {
      const { el: cell } = this.rows[round.i].cells[place[1] - 1];
      cell.focus({ preventScroll: true });
      cell.scrollIntoView({ block: "nearest", inline: "nearest" }); // the page, too, if it has to
    }
    clearTimeout(this.sending);
    if (quiet) return;
    // What the page knows beforehand about a place need not wait for the server.
    document.dispatchEvent(new CustomEvent("specviz:select", { detail: { run: this.data.run, place: String(this.selected) } }));
    this.sending = setTimeout(() => this.send("selected", this.selected), later ? 150 : 0);
  }

  /** Lets the server know which rounds are looked at, so that it can tell the page about them beforehand. */
  tellView() {
    if (this.data.live || this.data.covered || this.step !== null) return;
    const { scrollTop, clientHeight, scrollHeight } = this.scroller, { rounds } = this.model;
    const round = rounds[Math.floor(((scrollTop + clientHeight / 2) / scrollHeight) * rounds.length)];
    if (!round || Math.abs(round.number - (this.viewed ?? 1)) < 4) return;
    this.viewed = round.number;
    this.send("view", round.number);
  }

  jumpTo(round, position) {
    const span = this.text.spanAt(round, position);
    reveal(this.scroller, this.rows[round.i].cells[position - 1].el, this.heads.offsetHeight);
    if (span) reveal(this.text.el, span.el);
  }

  /** Marks what is selected, and the one cell that the Tab key reaches. */
  mark() {
    for (const node of this.marked) node.classList.remove("pinned", "chosen");
    if (this.stop1) this.stop1.setAttribute("tabindex", "-1"), this.stop1.removeAttribute("aria-selected");
    const round = this.selected && this.find(this.selected), row = round && this.rows[round.i];
    const cell = row && row.cells && row.cells[this.selected[1] - 1].el;
    const span = round && this.text.spanAt(round, this.selected[1]);
    this.marked = [row && row.el, cell, span && span.el].filter(Boolean);
    for (const node of this.marked) node.classList.add(node.row ? "chosen" : "pinned");
    if (cell) cell.setAttribute("aria-selected", "true");
    this.stop1 = cell || (this.rows[0] && this.rows[0].cells && this.rows[0].cells[0].el);
    if (this.stop1) this.stop1.setAttribute("tabindex", "0");
  }

  /** The place of a cell, or of a span of the text. A character of several tokens gives them in turn. */
  placeOf(target) {
    const cell = target.closest(".cell"), text = target.closest(".t");
    if (cell) return cell.place;
    if (!text) return null;
    const places = this.text.placesOf(text.span);
    const at = places.findIndex((place) => String(place) === String(this.selected));
    return places[(at + 1) % places.length];
  }

  click(event) {
    const place = this.placeOf(event.target), cell = event.target.closest(".cell");
    if (!place) return;
    this.select(place, { jump: true, focus: Boolean(cell) });
    this.hover(null);
  }

  // --- Hover ----------------------------------------------------------------------------------------------

  hover(target) {
    const place = target && this.placeOf(target);
    const name = place ? String(place) : "";
    if (name && name === this.hovered) return;
    this.hovered = name;
    for (const node of this.hot) node.classList.remove("hot");
    this.hot = [];
    if (!place || name === String(this.selected)) return this.tip.togglePopover && this.tip.togglePopover(false); // what is pinned is said above
    const round = this.find(place), { cells } = this.rows[round.i], span = this.text.spanAt(round, place[1]);
    this.hot = [cells && cells[place[1] - 1].el, span && span.el].filter(Boolean);
    for (const node of this.hot) node.classList.add("hot");
    this.fillTip(round, place[1] - 1);
    this.placeTip(target.closest(".cell, .t"));
  }

  fillTip(round, i) {
    const view = cellViews(round, this.stageIn(round.i), this.isCovered(round))[i];
    const said = isFinal(view) ? verdict(this.model, round, i) : [view === "covered" ? "Covered: reveal the round to see it." : "A proposal, not judged yet."];
    const figures = figuresOf(this.model, round, i, view).map(([kind, name, value]) => [el("dt", kind, {}, name), el("dd", kind, {}, number(value))]);
    this.tip.replaceChildren(
      el("div", "head", {}, `round ${round.number} · position ${i + 1}`),
      el("p", "", {}, ...said.map((part) => this.drawPart(part))),
      el("dl", "", {}, ...figures.flat()));
  }

  placeTip(anchor) {
    if (!this.tip.togglePopover) return; // an old browser: the line above the rounds says the same on a click
    this.tip.togglePopover(true);
    const box = anchor.getBoundingClientRect(), { offsetWidth: width, offsetHeight: height } = this.tip;
    const below = box.bottom + 8 + height < window.innerHeight;
    this.tip.style.left = `${Math.max(8, Math.min(box.left, window.innerWidth - width - 8))}px`;
    this.tip.style.top = `${below ? box.bottom + 8 : Math.max(8, box.top - height - 8)}px`;
  }

  // --- The line that says what happens ----------------------------------------------------------------------

  drawPart(part) {
    if (typeof part === "string") return part;
    if ("token" in part) return el("bdi", "token", { dir: "auto" }, drawPieces(this.model.tokens[part.token], false));
    if ("key" in part) return el("kbd", "", {}, part.key);
    const [P, Q] = this.model.letters;
    if ("target" in part) return el("span", "target", {}, part.bare ? part.target : `${P} = ${part.target}`);
    if ("draft" in part) return el("span", "draft", {}, part.bare ? part.draft : `${Q} = ${part.draft}`);
    return el("strong", part.state || "", {}, part.strong);
  }

  saying() {
    const { model } = this;
    if (this.now) {
      const { round, n, stage } = this.now;
      return [`Round ${round.number} · step ${n + 1} of ${round.count}`, narrate(model, round, stage, this.isCovered(round))];
    }
    if (this.selected) {
      const round = this.find(this.selected), position = this.selected[1];
      return [`Round ${round.number} · position ${position}`, (this.isCovered(round) ? question : verdict)(model, round, position - 1)];
    }
    if (model.rounds.length) return ["", ["Play shows how a round happens. Click a token to pin it. ", { key: "?" }, " lists the keys."]];
    return ["", [this.data.live ? "Waiting for the first round." : "No rounds yet."]];
  }

  say() {
    const [where, parts] = this.saying(), now = where + JSON.stringify(parts);
    if (now === this.last) return; // a live region must not repeat itself
    this.last = now;
    this.said.setAttribute("aria-live", this.now ? "polite" : "off"); // a focused token has a name of its own
    this.where.textContent = where;
    this.said.replaceChildren(...parts.map((part) => this.drawPart(part)));
  }

  // --- Playback -----------------------------------------------------------------------------------------------

  /** Shows stage `step` of the run; null, or a step behind the last, shows everything. */
  seek(step) {
    const over = step === null || step >= this.model.stages;
    if (over) this.stop();
    this.step = over ? null : Math.max(0, step);
    this.hover(null);
    this.paint();
  }

  /** The first stage of the round that is looked at. */
  startOf() {
    const round = this.selected && this.find(this.selected);
    return round ? round.stages : 0;
  }

  move(by) {
    if (!this.model.rounds.length) return;
    this.stop();
    if (this.step !== null) this.seek(this.step + by);
    else this.seek(by > 0 ? this.startOf() : this.model.stages - 1);
  }

  toggle() {
    if (!this.model.rounds.length) return;
    if (this.timer) this.stop();
    else {
      if (this.step === null) this.seek(this.startOf());
      this.schedule();
    }
    this.paintHead();
  }

  schedule() {
    const { round, stage } = this.now;
    this.timer = setTimeout(() => {
      this.timer = 0;
      const waits = stage.kind === "pass" && this.isCovered(round); // until somebody has decided
      if (!waits) this.seek(this.step + 1);
      if (!waits && this.step !== null) this.schedule();
      this.paintHead();
    }, (1000 * SECONDS[stage.kind]) / this.speed);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
  }

  isOpenRejection(round) {
    return round.rejected && !this.isCovered(round);
  }

  /** During playback the stage, otherwise the token; from the last one on to the first. */
  nextRejection() {
    const rejections = this.model.rounds.filter((round) => this.isOpenRejection(round));
    const stageAt = (round) => round.stages + round.k + 1 + round.accepted;
    if (!rejections.length) return;
    if (this.step !== null) {
      this.stop();
      return this.seek(stageAt(rejections.find((round) => stageAt(round) > this.step) || rejections[0]));
    }
    const [number, position] = this.selected || [-1, 0];
    const next = rejections.find((round) => round.number > number || (round.number === number && round.accepted >= position)) || rejections[0];
    this.select([next.number, next.accepted + 1], { jump: true, focus: true });
  }

  // --- Keys -----------------------------------------------------------------------------------------------------

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.listens(event)) return;
    const target = event.composedPath()[0], name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (this.help.open && name !== "?") return; // the dialog has its own keys
    if (target.closest && target.closest("button") && (name === " " || name === "Enter")) return;
    if (name === "Escape" && this.step === null && !this.selected) return this.hover(null);
    const action = {
      " ": () => this.toggle(),
      ArrowLeft: () => this.arrow(-1),
      ArrowRight: () => this.arrow(1),
      ArrowUp: () => this.arrowRound(-1),
      ArrowDown: () => this.arrowRound(1),
      Home: () => this.edge(false),
      End: () => this.edge(true),
      r: () => this.nextRejection(),
      Enter: target.place && (() => this.select(target.place)),
      Escape: () => this.letGo(),
      "?": () => (this.help.open ? this.help.close() : this.help.showModal()),
    }[name];
    if (!action) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (!event.repeat || name.startsWith("Arrow")) action();
  }

  /** Keys are ours with the focus inside, or when only what is around us has it; never while somebody types. */
  listens(event) {
    const path = event.composedPath(), active = document.activeElement;
    if (path[0].matches && path[0].matches("input, textarea, select, [contenteditable]")) return false;
    if (path.includes(this.root)) return true;
    if (event.key === "ArrowUp" || event.key === "ArrowDown") return false; // the page scrolls with these
    return lastUsed === this && (!active || active.contains(this.root.getRootNode().host || this.root));
  }

  arrow(by) {
    if (this.step !== null) return this.move(by);
    const { rounds } = this.model, round = this.selected && this.find(this.selected);
    if (!round) return this.edge(by < 0);
    const i = this.selected[1] - 1 + by;
    if (i >= 0 && i <= round.k) this.goTo(round, i);
    else this.goTo(rounds[round.i + by], by > 0 ? 0 : Infinity);
  }

  /** To another round, in the same column. */
  arrowRound(by) {
    const { rounds } = this.model, round = this.step !== null ? this.now.round : this.selected && this.find(this.selected);
    if (!round) return this.edge(by < 0);
    const next = rounds[round.i + by];
    if (this.step === null) this.goTo(next, this.selected[1] > round.k ? Infinity : this.selected[1] - 1);
    else if (next) {
      this.stop();
      this.seek(next.stages);
    }
  }

  edge(last) {
    const { rounds } = this.model;
    if (this.step === null) return this.goTo(rounds[last ? rounds.length - 1 : 0], last ? Infinity : 0);
    this.stop();
    this.seek(last ? null : 0);
  }

  goTo(round, i) {
    if (round) this.select([round.number, Math.min(i, round.k) + 1], { jump: true, focus: true, later: true });
  }

  letGo() {
    this.hover(null);
    if (this.step !== null) this.seek(null);
    else this.select(null);
  }
}
