// The rounds as rows of cells. Rows are drawn when they come near the visible ones and emptied when they are
// far, so that ten thousand tokens open at once; what they show is painted from a stage of the playback.

import { button, el, reveal } from "../shared/dom.js";
import { count, ms } from "../shared/numbers.js";
import { drawPieces } from "../shared/tokens.js";
import { STATES, cellViews, isCut, isFinal, signature, threshold } from "./playback.js";
import { ENDS, cellName, cornerOf } from "./words.js";

const NEAR = "700px 0px"; // rows this close to the visible ones are drawn
const FIRST = 12; // rows drawn at once

/**
 * @typedef {{ el: HTMLElement, name: HTMLElement, glyph: HTMLElement, word: HTMLElement, figure: HTMLElement,
 *   view: string, classes: string[] }} Cell
 * @typedef {{ el: HTMLElement, i: number, signature: string, cells: Cell[] | null, result?: HTMLElement,
 *   twigs?: HTMLElement[] }} Row
 */

/** The place [round number, position] that an element of the grid stands for. */
export const placeOfCell = (cell) => cell.dataset.place.split(",").map(Number);

export class Grid {
  /**
   * @param {(round: any) => boolean} isCovered
   * @param {(round: any) => void} onReveal
   */
  constructor(isCovered, onReveal) {
    this.isCovered = isCovered;
    this.onReveal = onReveal;
    /** @type {Row[]} */
    this.rows = [];
    /** @type {WeakMap<Element, Row>} */
    this.rowOf = new WeakMap();
    this.pinned = null; // the place that is marked
    this.marked = []; // elements that show it
    this.heads = el("div", "heads", { role: "row", "aria-rowindex": "1" });
    this.el = el("div", "scroller", { role: "grid", "aria-label": "Rounds" }, this.heads);
    this.near = new IntersectionObserver((entries) => this.drawNear(entries), { root: this.el, rootMargin: NEAR });
  }

  destroy() {
    this.near.disconnect();
  }

  // --- From data to DOM ---------------------------------------------------------------------------------

  /** Brings the rows up to date and leaves alone those that say the same as before; returns their number. */
  update(model, { anew, live }) {
    const before = this.model && this.model.columns;
    this.model = model;
    const signatures = model.rounds.map((round) => signature(model, round));
    let kept = 0;
    if (!anew && before === model.columns) {
      while (kept < this.rows.length && this.rows[kept].signature === signatures[kept]) kept++;
    }
    for (const row of this.rows.splice(kept)) {
      this.near.unobserve(row.el);
      row.el.remove();
    }
    if (!kept) this.drawHeads();
    const fresh = kept && live ? "row fresh" : "row";
    for (const round of model.rounds.slice(kept)) {
      const row = { el: el("div", fresh), i: round.i, signature: signatures[round.i], cells: null };
      this.rowOf.set(row.el, row);
      this.rows.push(row);
      this.near.observe(row.el);
    }
    this.el.append(...this.rows.slice(kept).map((row) => row.el));
    this.el.setAttribute("aria-rowcount", String(this.rows.length + 1));
    for (const row of this.rows.slice(kept, kept + FIRST)) this.draw(row);
    return kept;
  }

  drawHeads() {
    const { columns, letters } = this.model;
    this.el.style.setProperty("--k", columns);
    this.el.classList.toggle("many", columns > 5);
    this.el.setAttribute("aria-colcount", columns + 3);
    const outcome = columns ? "corrected or bonus" : `from ${letters[0]}`;
    const names = ["round", ...[...Array(columns).keys()].map((i) => `draft ${i + 1}`), outcome, "result"];
    this.heads.replaceChildren(...names.map((name) => el("span", name === outcome ? "outcome" : "", { role: "columnheader" }, name)));
  }

  /** Rows are drawn when they come near and emptied when they are far, but for those that hold the focus. */
  drawNear(entries) {
    const active = /** @type {ShadowRoot} */ (this.el.getRootNode()).activeElement;
    for (const { target, isIntersecting } of entries) {
      const row = this.rowOf.get(target);
      if (isIntersecting) this.draw(row);
      else if (row.i && !this.marked.includes(target) && !target.contains(active)) {
        target.replaceChildren();
        for (const name of ["role", "aria-rowindex"]) target.removeAttribute(name); // a row without cells is none
        row.cells = null;
      }
    }
  }

  /** @param {Row} row */
  draw(row) {
    if (row.cells) return;
    const round = this.model.rounds[row.i];
    row.el.setAttribute("role", "row");
    row.el.setAttribute("aria-rowindex", String(row.i + 2));
    row.cells = [...Array(round.k + 1).keys()].map((i) => this.drawCell(round, i));
    row.result = el("div", "result", { role: "gridcell" });
    const box = el("div", "box", { "aria-hidden": "true" }, el("span", "", {}, `verified in one pass${round.verifyMs ? ` · ${ms(round.verifyMs)}` : ""}`));
    box.style.gridColumn = `2 / span ${Math.max(1, round.k)}`;
    const none = round.k ? [] : [el("span", "none", { role: "gridcell" }, "nothing drafted")];
    row.el.classList.toggle("tree", round.nodes > 0);
    row.twigs = round.nodes ? this.drawTwigs(round) : [];
    row.el.replaceChildren(el("span", "number", { role: "rowheader" }, String(round.number)), ...none, ...row.cells.map((cell) => cell.el), row.result, ...row.twigs, box);
    this.paint(row, this.stage && this.stage.i === row.i ? this.stage.stage : null);
    if (!row.i || (this.pinned && this.pinned[0] === round.number)) this.mark(this.pinned);
  }

  /** Under each cell the other candidates at its place: those refused, and those that were not looked at. */
  drawTwigs(round) {
    const { positions, tokens } = this.model;
    return [...Array(round.k).keys()].map((i) => el("div", "twigs", { "aria-hidden": "true", style: `grid-column: ${i + 2}` },
      ...positions.beside[round.from + i].map(([token, state]) => el("span", `twig ${state === "r" ? "rejected" : "discarded"}`, { dir: "auto" },
        el("b", "", {}, STATES[state === "r" ? "rejected" : "discarded"][0]), drawPieces(tokens[token], false)))));
  }

  drawCell(round, i) {
    const { positions, tokens, columns } = this.model, isOutcome = i === round.k, j = round.from + i;
    const [name, glyph, word, figure] = ["name", "glyph", "word", "figure"].map((part) => el("span", part));
    const silent = { "aria-hidden": "true" }; // the name says it all, in words
    const pieces = tokens[isOutcome ? round.token : positions.token[j]], token = drawPieces(pieces, false);
    const brief = pieces.length === 2 && pieces[1].length === 1 ? " brief" : ""; // a struck full stop reads as a dash
    const column = isOutcome ? columns + 2 : i + 2;
    const node = el("div", isOutcome ? "cell outcome" : "cell", { role: "gridcell", tabindex: "-1", "aria-colindex": column, "data-place": `${round.number},${i + 1}`, style: `grid-column: ${column}` },
      name, el("div", "state", silent, glyph, word, figure), el("div", `token${brief}`, { dir: "auto", ...silent }, token));
    if (!isOutcome) {
      const bar = el("div", "bar", silent, el("i"));
      bar.style.setProperty("--a", String(threshold(positions, j)));
      bar.style.setProperty("--u", positions.u[j]);
      if (positions.u[j] !== null) bar.append(el("b"));
      node.append(bar);
    }
    return { el: node, name, glyph, word, figure, view: "", classes: [] };
  }

  // --- What a stage shows ---------------------------------------------------------------------------------

  /** The element of a place if its row is drawn. */
  cellAt(round, position) {
    const row = this.rows[round.i];
    return row && row.cells && row.cells[position - 1].el;
  }

  /** Shows the rounds as they are at a place of the playback, null for the end; `before` is the place left. */
  show(now, before) {
    this.stage = now && { i: now.round.i, stage: now.stage };
    for (const place of [before, now]) {
      const row = place && this.rows[place.round.i];
      if (!row) continue;
      row.el.classList.toggle("now", Boolean(now) && now.round.i === row.i);
      if (place === now) this.draw(row);
      if (row.cells) this.paint(row, now && now.round.i === row.i ? now.stage : null);
    }
    if (!now) return;
    const row = this.rows[now.round.i].el;
    reveal(this.el, row, this.heads.offsetHeight);
    if (!before || before.round.i !== now.round.i) row.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  paint(row, stage) {
    const round = this.model.rounds[row.i], kind = stage && stage.kind;
    const covered = this.isCovered(round), views = cellViews(round, stage, covered);
    row.el.classList.toggle("pass", kind === "pass");
    row.cells.forEach((cell, i) => {
      this.paintCell(round, i, cell, views[i]);
      cell.el.classList.toggle("judging", kind === "verdict" ? stage.at === i : kind === "outcome" && i === round.k);
    });
    row.twigs.forEach((twigs, i) => twigs.classList.toggle("hidden", covered || !isFinal(views[i])));
    const early = stage && kind !== "caches";
    row.result.replaceChildren(...(early ? [] : covered ? [this.revealButton(round)] : resultOf(round)));
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

  revealButton(round) {
    return button(`reveal round ${round.number}`, "Show the verdicts of this round", () => this.onReveal(round));
  }

  /** Marks a place [number, position], or none, and the one cell that the Tab key reaches. */
  mark(place) {
    this.pinned = place;
    for (const node of this.marked) node.classList.remove("pinned", "chosen");
    if (this.entry) {
      this.entry.setAttribute("tabindex", "-1");
      this.entry.removeAttribute("aria-selected");
    }
    const round = place && this.model.rounds.find((each) => each.number === place[0]), row = round && this.rows[round.i];
    const cell = row && this.cellAt(round, place[1]);
    this.marked = [row && row.el, cell].filter(Boolean);
    if (row) row.el.classList.add("chosen");
    if (cell) {
      cell.classList.add("pinned");
      cell.setAttribute("aria-selected", "true");
    }
    this.entry = cell || (this.rows[0] && this.rows[0].cells && this.rows[0].cells[0].el);
    if (this.entry) this.entry.setAttribute("tabindex", "0");
  }

  /** The round in the middle of what is seen. */
  middle() {
    const { scrollTop, clientHeight, scrollHeight } = this.el, { rounds } = this.model;
    return rounds[Math.floor(((scrollTop + clientHeight / 2) / scrollHeight) * rounds.length)];
  }
}

function resultOf(round) {
  const lost = round.accepted + 1 - round.committed;
  const times = [round.draftMs && `draft ${ms(round.draftMs)}`, round.verifyMs && `verify ${ms(round.verifyMs)}`];
  const notes = [round.finish && `ends: ${ENDS[round.finish]}`, lost > 0 && `${lost} cut`, round.nodes > 0 && `tree of ${round.nodes}`, !["exact", "tree"].includes(round.verifier) && `rule: ${round.verifier}`];
  const line = (className, parts) => {
    const text = parts.filter(Boolean).join(" · ");
    return text ? [el("div", className, { title: text }, text)] : [];
  };
  const first = el("div", "", {}, el("strong", "", {}, round.k ? `${round.accepted} of ${round.k}` : "no draft"), ` → ${count(round.committed, "token")}`);
  return [first, ...line("ms", times), ...line("note", notes)];
}
