// What a round looks like at every stage of its playback. Pure functions of the payload: no DOM, nothing
// remembered, so that a stage can be reached from either side.

export const STATES = {
  proposed: ["…", "proposed"],
  scored: ["…", "proposed"],
  accepted: ["✓", "accepted"],
  rejected: ["✗", "rejected"],
  discarded: ["┄", "discarded"],
  corrected: ["↻", "corrected"],
  bonus: ["+", "bonus"],
  covered: ["?", "covered"],
};
export const BY_LETTER = { a: "accepted", r: "rejected", d: "discarded" };

/**
 * Columns to rounds. Of a round, `from` is its first row in `positions`, `text` its first token in the text,
 * `stages` its first stage and `count` the number of its stages.
 */
export function unpack(data, isCovered, notation) {
  const { prompt, rounds: columns } = data, rounds = [];
  const letters = notation === "chen" ? ["q", "p"] : ["p", "q"];
  let from = 0, text = prompt.length, stages = 0;
  for (let i = 0; i < (columns.number || []).length; i++) {
    const round = { i, from, text, stages };
    for (const name in columns) round[name] = columns[name][i];
    round.k = round.states.length;
    round.rejected = round.accepted < round.k;
    round.count = stageCount(round, isCovered(round));
    from += round.k;
    text += round.committed;
    stages += round.count;
    rounds.push(round);
  }
  return { ...data, letters, rounds, columns: Math.max(0, ...new Set(rounds.map((round) => round.k))), stages };
}

/** Two rounds with the same signature look the same. */
export function signature(model, round) {
  const { token, p, q, u, beside } = model.positions;
  const rows = [];
  for (let j = round.from; j < round.from + round.k; j++) rows.push(model.tokens[token[j]], p[j], q[j], u[j], ...beside[j].flatMap(([other, state]) => [model.tokens[other], state]));
  const { number, states, outcome, share, committed, finish, verifyMs } = round;
  return JSON.stringify([number, states, outcome, model.tokens[round.token], share, committed, finish, verifyMs, model.letters, rows]);
}

// --- Stages: every draft, one pass, every verdict, the correction or bonus, the caches ---------------

const judged = (round) => (round.rejected ? round.accepted + 1 : round.k);
const stageCount = (round, covered) => round.k + 1 + (covered ? 0 : judged(round) + 2);

function stageOf(round, n) {
  if (n < round.k) return { kind: "draft", at: n };
  n -= round.k;
  if (n === 0) return { kind: "pass" };
  n -= 1;
  if (n < judged(round)) return { kind: "verdict", at: n };
  return { kind: n === judged(round) ? "outcome" : "caches" };
}

/** Where the n-th stage of the whole run lies. */
export function locate(model, n) {
  let low = 0, high = model.rounds.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (model.rounds[middle].stages <= n) low = middle;
    else high = middle - 1;
  }
  const round = model.rounds[low];
  return { round, n: n - round.stages, stage: stageOf(round, n - round.stages) };
}

/** The place [round number, position] that a stage is about. */
export function placeAt(round, stage) {
  if (stage.kind === "draft" || stage.kind === "verdict") return [round.number, stage.at + 1];
  return [round.number, stage.kind === "pass" ? 1 : round.k + 1];
}

export const SECONDS = { draft: 0.55, pass: 1.4, verdict: 0.9, outcome: 1.5, caches: 1.6 };

/**
 * What the cells of a round show, positions 1 … K and last the corrected or bonus token: "hidden",
 * "proposed" (drawn from q), "scored" (p is known too), "covered", or the final state. Without a stage the
 * round is over.
 */
export function cellViews(round, stage, covered) {
  const final = [...round.states].map((letter) => (covered ? "scored" : BY_LETTER[letter]));
  const outcome = covered ? "covered" : round.outcome;
  if (!stage || stage.kind === "outcome" || stage.kind === "caches") return [...final, outcome];
  const rejected = stage.kind === "verdict" && stage.at === round.accepted;
  return [...final.map((state, i) => {
    if (stage.kind === "draft") return i <= stage.at ? "proposed" : "hidden";
    return stage.kind === "verdict" && (i <= stage.at || rejected) ? state : "scored";
  }), "hidden"];
}

export const isFinal = (view) => !["hidden", "proposed", "scored", "covered"].includes(view);

/** Tokens of a round that the text shows at a stage. */
export function committedAt(round, stage) {
  if (!stage || stage.kind === "caches" || stage.kind === "outcome") return round.committed;
  const seen = stage.kind === "verdict" ? Math.min(stage.at + 1, round.accepted) : 0;
  return Math.min(seen, round.committed);
}

/** What u is compared with at row j: min(1, p/q), or under block verification h of the beginning up to there. */
export const threshold = ({ p, q, h }, j) => h[j] ?? (q[j] > 0 ? Math.min(1, p[j] / q[j]) : 0);

/** Verified, but behind the end of the text. */
export const isCut = (round, i) => (i < round.k ? i < round.accepted && i >= round.committed : round.committed <= round.accepted);
