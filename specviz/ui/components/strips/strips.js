// Lines of tokens, under each token a cell a drafter with its β. Text is data: textContent only.

const LABEL = 108, LEAST = 34, CHARACTER = 7.4, PADDING = 10;
const PAUSE = 250; // milliseconds: keys that are held down choose the token that they stop at
const CLEAR = 100; // thousandths of β from which on a difference has a colour

function el(tag, name = "", text = "", ...children) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text) node.textContent = text;
  node.append(...children);
  return node;
}

const short = (text) => ([...text].length > 14 ? [...text].slice(0, 13).join("") + "…" : text);
const width = (text) => Math.max(LEAST, [...short(text)].length * CHARACTER + PADDING);
/** Two digits; never rounded to 1 if it is not. */
function digits(beta) {
  if (beta === null) return "–";
  return beta === 1000 ? "1" : `.${String(Math.min(99, Math.round(beta / 10))).padStart(2, "0")}`;
}

/** A difference of two β, with its sign. */
function signed(change) {
  if (change === null) return "–";
  return `${change < 0 ? "−" : "+"}${digits(Math.abs(change))}`;
}

/** Start and end of each line of tokens that fits into `room` pixels. */
function breakLines(tokens, room) {
  const lines = [];
  let start = 0, used = 0;
  tokens.forEach((token, i) => {
    if (i > start && used + width(token) > room) {
      lines.push([start, i]);
      start = i;
      used = 0;
    }
    used += width(token);
  });
  return [...lines, [start, tokens.length]];
}

class Strips {
  constructor(host) {
    this.root = el("div", "strips");
    this.lines = el("div", "lines");
    this.lines.tabIndex = 0;
    this.lines.setAttribute("role", "group");
    this.lines.setAttribute("aria-label", "β of each drafter at each token; arrow keys move from token to token");
    this.detail = el("div", "detail");
    this.detail.setAttribute("aria-live", "polite");
    this.root.append(this.lines, this.detail);
    host.append(this.root);
    this.pinned = 0;
    this.given = null; // the token that the page chose last
    /** @type {((chosen: object) => void) | null} */
    this.choose = null; // tells the page
    this.lines.onmouseover = (event) => this.show(this.at(event) ?? this.pinned);
    this.lines.onmouseleave = () => this.show(this.pinned);
    this.lines.onclick = (event) => this.pin(this.at(event));
    this.lines.onkeydown = (event) => this.key(event);
    this.watch = new ResizeObserver(() => this.fit());
    this.watch.observe(this.root);
  }

  at(event) {
    const cell = event.target.closest("[data-i]");
    return cell ? Number(cell.dataset.i) : undefined;
  }

  pin(i) {
    if (i === undefined) return;
    this.pinned = i;
    this.show(i);
    clearTimeout(this.sending);
    if (this.choose) this.sending = setTimeout(() => this.choose({ token: i, after: this.given }), PAUSE);
  }

  key(event) {
    const last = this.data.tokens.length - 1;
    const moved = { ArrowRight: this.pinned + 1, ArrowLeft: this.pinned - 1, Home: 0, End: last }[event.key];
    if (moved === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.pin(Math.min(last, Math.max(0, moved)));
    this.lines.querySelector(".now")?.scrollIntoView({ block: "nearest" });
  }

  /** What the page chose: null while it has what was chosen here. */
  take(chosen) {
    if (typeof chosen === "number" && chosen !== this.given) {
      this.pinned = chosen;
      this.show(chosen);
    }
    this.given = chosen;
  }

  update(text) {
    if (text === this.text) return;
    const grown = this.data && JSON.parse(text).tokens.length >= this.data.tokens.length;
    this.text = text;
    this.data = JSON.parse(text);
    if (!grown) this.pinned = 0;
    this.room = 0;
    this.fit();
  }

  fit() {
    const unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;
    const room = Math.floor(this.root.clientWidth / unit);
    if (!this.data || !room || room === this.room) return;
    this.room = room;
    this.lines.replaceChildren(...breakLines(this.data.tokens, room - LABEL - 8).map((line) => this.line(...line)));
    this.show(this.pinned);
  }

  line(start, end) {
    const table = el("table");
    const head = el("tr", "", "", el("td", "label"));
    for (let i = start; i < end; i++) {
      const cell = el("th", "token", short(this.data.tokens[i]));
      cell.scope = "col";
      cell.dataset.i = i;
      cell.style.width = `${width(this.data.tokens[i]) / 16}rem`; // as large as the page's letters
      head.append(cell);
    }
    table.append(head);
    for (const row of this.data.rows) {
      const label = el("th", "label", row.name);
      label.scope = "row";
      const line = el("tr", "", "", label);
      for (let i = start; i < end; i++) line.append(row.change ? this.change(row, i) : this.cell(row, i));
      table.append(line);
    }
    return table;
  }

  change(row, i) {
    const change = row.change[i];
    const cell = el("td", "cell change", "", el("span", "", signed(change)));
    cell.dataset.i = i;
    if (Math.abs(change) >= CLEAR) cell.classList.add(change > 0 ? "better" : "worse");
    return cell;
  }

  cell(row, i) {
    const beta = row.beta[i];
    const cell = el("td", beta === null ? "cell none" : "cell", "", el("span", "", digits(beta)));
    cell.dataset.i = i;
    if (beta !== null) {
      cell.style.setProperty("--beta", beta / 1000);
      cell.append(el("i"));
    }
    cell.title = beta === null ? `${row.name}: proposes nothing here` : `${row.name}: β = ${(beta / 1000).toFixed(3)}`;
    return cell;
  }

  show(i) {
    if (!this.data || !this.data.tokens.length) return;
    i = Math.min(i, this.data.tokens.length - 1);
    for (const node of this.lines.querySelectorAll(".now")) node.classList.remove("now");
    for (const node of this.lines.querySelectorAll(`[data-i="${i}"]`)) node.classList.add("now");
    const place = el("div", "place", "", el("span", "", `Token ${i + 1} of ${this.data.tokens.length} `), el("b", "", this.data.tokens[i]));
    this.detail.classList.toggle("short", !this.data.p);
    if (!this.data.p) {
      const said = this.data.rows.map((row) => el("span", "words", `${row.name} ${row.change ? signed(row.change[i]) : digits(row.beta[i])}`));
      return this.detail.replaceChildren(el("div", "place", "", ...place.childNodes, ...said));
    }
    const [p, q] = this.data.letters;
    const table = el("table");
    table.append(this.law("target", `${p}`, this.data.p[i], "", "p"));
    for (const row of this.data.rows) {
      const beta = row.beta[i];
      const words = beta === null ? "" : `β ${(beta / 1000).toFixed(3)}`;
      const outside = row.outside[i] && `${p} outside its vocabulary ${row.outside[i]}`;
      table.append(this.law(row.name, words, row.q[i], outside, "q"));
    }
    const note = el("div", "note", `Leading tokens of ${p} (target) and of each drafter's ${q}.`);
    this.detail.replaceChildren(place, table, note);
  }

  law(name, words, leading, outside, kind) {
    const head = el("th", "label", name);
    head.scope = "row";
    const cells = el("td", "leading");
    if (!leading.length) cells.append(el("span", "faint", "proposes nothing here"));
    for (const [token, mass] of leading) cells.append(el("span", `lead ${kind}`, "", el("bdi", "", short(token)), el("span", "mass", mass)));
    if (outside) cells.append(el("span", "faint", outside));
    return el("tr", "", "", head, el("td", "words", words), cells);
  }
}

export default function ({ data, parentElement, setStateValue }) {
  const strips = (parentElement.strips ??= new Strips(parentElement));
  strips.choose = data.chosen === undefined ? null : (chosen) => setStateValue("chosen", chosen);
  strips.update(data.strips);
  strips.take(data.chosen);
  return () => {
    clearTimeout(parentElement.strips?.sending);
    parentElement.strips?.watch.disconnect();
    parentElement.strips?.root.remove();
    delete parentElement.strips;
  };
}
