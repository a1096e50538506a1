// Numbers and amounts as words, the same in every component.

export const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
export const ms = (x) => (x >= 9.95 ? x.toFixed(0) : x >= 0.095 ? x.toFixed(1) : "<0.1") + " ms";

/** Two decimals in little room, never rounded to a certainty that is none. */
export function short(x) {
  if (x === null) return "—";
  if (x <= 0 || x >= 1) return x <= 0 ? "0" : "1";
  if (x < 0.005) return "<.01";
  return x >= 0.995 ? ">.99" : x.toFixed(2).slice(1);
}

/** A number for prose, written as specviz.reading.prose.number writes it. */
export function number(x, digits = 2) {
  if (x === null) return "—";
  if (x === 0) return "0";
  if (x < 1e-4) {
    const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
    return `${mantissa}×10⁻${[...exponent.slice(1)].map((ch) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[ch]).join("")}`;
  }
  let text = "";
  for (let places = digits; places < 9; places++) {
    text = x.toPrecision(places);
    if (Number(text) !== 1 || x === 1) break;
  }
  return Number(text) === 1 ? "1" : text;
}

/** Two numbers with as many digits as it takes to tell them apart. */
export function apart(a, b) {
  let texts = [];
  for (let digits = 2; digits < 10; digits++) {
    texts = [number(a, digits), number(b, digits)];
    if (texts[0] !== texts[1]) break;
  }
  return texts;
}
