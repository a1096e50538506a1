// What is said about a token and about a stage. Sentences are lists of parts: strings, and objects that name
// a token, a probability under the target or the draft, or a word to stress. Whoever draws them decides how.
// p and q below are target and draft; what the reader sees are the letters of the chosen notation.

import { apart, count, ms, number, short } from "../shared/numbers.js";
import { spoken } from "../shared/tokens.js";
import { BY_LETTER, STATES, isCut, isFinal, threshold } from "./playback.js";

export const ENDS = { eos: "end of text", stop: "stop string", length: "length limit", context: "context full" };

// --- Tokens -------------------------------------------------------------------------------------------

/** Why the token at index i of a finished round is what it is. */
export function verdict(model, round, i) {
  const why = i === round.k ? outcomeSaid(model, round) : draftSaid(model, round, i);
  return isCut(round, i) ? [...why, ` It is verified, but not emitted: the text ended before it (${ENDS[round.finish] || "cut"}).`] : why;
}

function draftSaid(model, round, i) {
  const { token, p, q, u } = model.positions, j = round.from + i, [P, Q] = model.letters;
  const state = BY_LETTER[round.states[i]], target = { target: number(p[j]) }, draft = { draft: number(q[j]) };
  const said = [{ token: token[j] }, " is ", { strong: state, state }];
  if (round.verifier === "block") return [...said, ...blockSaid(model, round, i)];
  if (round.nodes) return [...said, ...treeSaid(model, round, i)];
  if (state === "discarded") return [...said, " unjudged: ", { token: token[round.from + round.accepted] }, " before it was rejected."];
  const ratio = threshold(model.positions, j);
  if (round.verifier !== "exact") return [...said, ` by the rule “${round.verifier}”: ${P}/${Q} = ${number(ratio)}, u = ${number(u[j])}.`];
  if (u[j] === null) return [...said, `: it is kept with probability ${number(ratio)}. The random number was not recorded.`];
  if (p[j] === 0) return [...said, ": ", target, ", the target never says it here."];
  if (state === "accepted" && ratio === 1) return [...said, ": the target likes it at least as much as the draft (", target, ", ", draft, "), so it is kept whatever u is."];
  const [coin, bar] = apart(u[j], ratio);
  const fraction = [{ target: target.target, bare: true }, " / ", { draft: draft.draft, bare: true }];
  return [...said, `: u = ${coin} is ${state === "accepted" ? "below" : "not below"} ${P}/${Q} = `, ...fraction, ` = ${bar}.`];
}

/** A tree: what became of the candidates at this place, the one on the line and those beside it. */
function treeSaid(model, round, i) {
  const { u, h, beside } = model.positions, j = round.from + i, [P, Q] = model.letters, state = BY_LETTER[round.states[i]];
  if (state === "discarded") return [": it stands behind a candidate that was refused."];
  const of = (wanted) => beside[j].filter(([, letter]) => letter === wanted).flatMap(([token], n) => [n ? ", " : "", { token }]);
  const refused = of("r"), unseen = of("u"), [coin, bar] = u[j] === null ? [] : apart(u[j], h[j]);
  return [`, ${count(beside[j].length + 1, "candidate")} here`,
    coin ? `: u = ${coin} is ${state === "accepted" ? "below" : "not below"} ${P}′/${Q}′ = ${bar}` : "",
    ...(refused.length ? [state === "accepted" ? "; refused before it: " : "; refused as well: ", ...refused] : []),
    ...(unseen.length ? ["; not looked at any more: ", ...unseen] : []), "."];
}

/** Block verification: why the beginning of the block that ends at index i passes or not, and which is kept. */
function blockSaid(model, round, i) {
  const { u, h } = model.positions, j = round.from + i, kept = round.accepted;
  const beginning = i + 1 === round.k ? `the whole block of ${round.k}` : `the beginning of ${count(i + 1, "token")}`;
  const longest = kept ? `the longest that passes has ${kept} of ${round.k}` : "none passes";
  if (u[j] === null) return [`: ${beginning} passes with probability ${number(h[j])}; ${longest}.`];
  const [coin, bar] = apart(u[j], h[j]);
  return [`: ${beginning} ${u[j] < h[j] ? "passes" : "does not pass"}, u = ${coin} is ${u[j] < h[j] ? "below" : "not below"} h = ${bar}; ${longest}.`];
}

function outcomeSaid(model, round) {
  const [P, Q] = model.letters, token = { token: round.token }, target = { target: number(round.p) };
  if (round.k === 0) return ["Nothing was drafted, so the pass gives one token, ", token, `, drawn from ${P} (`, target, ")."];
  if (round.outcome === "bonus" && round.nodes) return [`A path of ${count(round.k, "candidate")} is kept to its end, so the same pass gives one more token, the `, { strong: "bonus", state: "bonus" }, " ", token, `, drawn from ${P} (`, target, ")."];
  if (round.outcome === "bonus") return [`All ${round.k} are accepted, so the same pass gives one more token, the `, { strong: "bonus", state: "bonus" }, " ", token, `, drawn from ${P} (`, target, ")."];
  if (round.nodes) return ["All candidates here are refused. The ", { strong: "correction", state: "corrected" }, " ", token, ` is drawn from what they left of ${P}: its share there is `, { strong: number(round.share) }, "."];
  const start = ["The ", { strong: "correction", state: "corrected" }, " ", token];
  if (round.verifier === "block" && !round.fromP) return [...start, ` is drawn from the residual max(0, r·${P} − ${Q}) with the weight r = `, { strong: number(round.weight) }, " of the kept beginning: its share there is ", { strong: number(round.share) }, "."];
  if (round.verifier !== "exact" && round.verifier !== "block") return [...start, ` is drawn by the rule “${round.verifier}”.`];
  if (round.fromP) return [...start, ` is drawn from ${P} (`, target, "), for rounding left no residual."];
  return [...start, ` is drawn from the residual max(0, ${P} − ${Q}), normalised: its share there is `, { strong: number(round.share) }, " (", target, ", ", { draft: number(round.q) }, ")."];
}

/** What can be said about a token of a covered round. */
export function question(model, round, i) {
  if (i === round.k) return ["Which token stands here, and where does it come from? Decide, then reveal the round."];
  const { token, p, q } = model.positions, j = round.from + i;
  return [{ token: token[j] }, " has ", { target: number(p[j]) }, " and ", { draft: number(q[j]) }, ". Is it kept? Decide, then reveal the round."];
}

// --- Stages -------------------------------------------------------------------------------------------

export function narrate(model, round, stage, covered) {
  if (stage.kind === "draft") return proposed(model, round, stage.at);
  if (stage.kind === "pass") return scored(model, round, covered);
  if (stage.kind === "outcome") return outcomeSaid(model, round);
  if (stage.kind === "caches") return cachesSaid(round);
  const rest = round.k - stage.at - 1, said = draftSaid(model, round, stage.at);
  if (stage.at !== round.accepted || !rest) return said;
  return [...said, rest === 1 ? " The one after it is discarded." : ` The ${rest} after it are discarded.`];
}

function proposed(model, round, i) {
  const token = { token: model.positions.token[round.from + i] }, draft = { draft: number(model.positions.q[round.from + i]) };
  return round.chosen ? ["The drafter proposes ", token, ", looked up and not drawn, so ", draft, "."]
    : ["The draft proposes ", token, `, drawn from ${model.letters[1]} (`, draft, ")."];
}

function scored(model, round, covered) {
  const [P, Q] = model.letters, time = round.verifyMs ? ` (${ms(round.verifyMs)})` : "", pass = { strong: "One pass" };
  if (!round.k) return ["Nothing was drafted. ", pass, ` of the target${time} gives ${P} for the next token.`];
  const where = round.nodes ? `all ${round.nodes} candidates` : round.k === 1 ? "the proposal" : `all ${round.k} proposals`;
  return [pass, ` of the target${time} gives ${P} at ${where} and one place beyond. `,
    covered ? "Which will it keep? Decide, then reveal the round." : `The bar is min(1, ${P}/${Q}).`];
}

function cachesSaid(round) {
  const caches = [["target", round.target], ["draft", round.draft]].filter(([, cache]) => cache);
  const cut = caches.some(([, [before, fed, kept]]) => before + fed > kept);
  const moves = caches.map(([name, [before, fed, kept]]) => `${name} ${before + fed} → ${kept}`).join(", ");
  const lost = round.accepted + 1 - round.committed;
  return [{ strong: cut ? "Caches cut" : "Nothing to cut from the caches" }, `: ${moves} positions. The round adds `, { strong: count(round.committed, "token") },
    lost > 0 ? `; ${count(lost, "verified token")} behind the end of the text ${lost === 1 ? "is" : "are"} not emitted.` : ".",
    round.finish ? ` The run ends: ${ENDS[round.finish]}.` : ""];
}

// --- Names and numbers on and around a cell -------------------------------------------------------------

/** “round 1, position 3, ‘which’, rejected: p 0.07, q 0.41, u 0.62”, as far as it is known in this view. */
export function cellName(model, round, i, view) {
  const start = `round ${round.number}, position ${i + 1}, `;
  if (view === "covered") return start + "covered";
  if (view === "hidden") return start + "not there yet";
  const token = i === round.k ? round.token : model.positions.token[round.from + i];
  const figures = figuresOf(model, round, i, view).filter(([kind]) => kind !== "bar");
  const cut = isFinal(view) && isCut(round, i) ? ", not emitted" : "";
  return `${start}‘${spoken(model.tokens[token])}’, ${STATES[view][1]}${cut}: ${figures.map(([, name, x]) => `${name} ${number(x)}`).join(", ")}`;
}

/** The number in the corner of a cell. */
export function cornerOf(model, round, i, view) {
  const [P, Q] = model.letters, { q } = model.positions, j = round.from + i;
  if (view === "covered") return "";
  if (i === round.k) return round.outcome === "bonus" || round.fromP ? `${P} ${short(round.p)}` : `share ${short(round.share)}`;
  if (view === "discarded") return ""; // never judged: a chance to be kept would read as a verdict
  return view === "proposed" ? `${Q} ${short(q[j])}` : short(threshold(model.positions, j));
}

/** Kind, name and value of the numbers that are known about a token in this view. */
export function figuresOf(model, round, i, view) {
  const [P, Q] = model.letters, { p, q, u } = model.positions, j = round.from + i;
  if (view === "covered" || view === "hidden") return [];
  const all = i === round.k
    ? [["target", P, round.p], ["draft", Q, round.q], ["share", "share of the residual", round.share]]
    : [["target", P, p[j]], ["draft", Q, q[j]], ["bar", round.verifier === "block" ? "h" : round.nodes ? `min(1, ${P}′/${Q}′)` : `min(1, ${P}/${Q})`, threshold(model.positions, j)], ["coin", round.states[i] === "d" && round.verifier !== "block" ? "unused u" : "u", u[j]]];
  return all.filter(([kind, , value]) => value !== null && (view !== "proposed" || kind === "draft") && (kind !== "coin" || isFinal(view)));
}
