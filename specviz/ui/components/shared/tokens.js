// Tokens as text that shows what is invisible in it. A token comes as its pieces, flat as kind, text, kind,
// text, …; it reaches the page through textContent and attributes only.

import { el } from "./dom.js";

/**
 * The pieces of a token, given flat as kind, text, kind, text, … Running text keeps the characters
 * themselves, so that lines break and copying works; elsewhere everything is made visible.
 */
export function drawPieces(pieces, running) {
  const out = document.createDocumentFragment();
  if (!pieces.length && !running) out.append(el("span", "chip", {}, "empty"));
  for (let i = 0; i < pieces.length; i += 2) out.append(...drawPiece(pieces[i], pieces[i + 1], running));
  return out;
}

function drawPiece(kind, text, running) {
  if (kind === "text") return [!running && /^\p{M}/u.test(text) ? "◌" + text : text];
  if (kind === "space" || kind === "newline" || kind === "tab") return drawMarks(kind, text, running);
  if (kind !== "invisible") return [el("span", `chip ${kind}`, {}, text)];
  if (running) return [text];
  return [el("span", "chip", {}, [...text].map(codePoint).join(" "))];
}

/** White space: the style sheet draws the mark. Running text keeps the character; elsewhere long runs are counted. */
function drawMarks(kind, text, running) {
  const counted = !running && text.length > 3, keep = running || kind === "space";
  const marks = [...(counted ? text[0] : text)].map((ch) => el("span", `mark ${kind}`, {}, keep ? ch : ""));
  return counted ? [...marks, el("span", "times", {}, `×${text.length}`)] : marks;
}

/** A token in words, for a screen reader. */
export function spoken(pieces) {
  const parts = [];
  for (let i = 0; i < pieces.length; i += 2) {
    const [kind, text] = [pieces[i], pieces[i + 1]];
    if (kind === "space" && text.length === 1 && pieces[i + 2] === "text") continue; // as most words begin
    if (["space", "newline", "tab"].includes(kind)) parts.push(text.length > 1 ? `${text.length} ${kind}s` : kind);
    else if (kind === "byte") parts.push(`bytes ${text}`);
    else parts.push(kind === "invisible" ? [...text].map(codePoint).join(" ") : text);
  }
  return parts.join(" ") || "empty";
}

export const codePoint = (ch) => "U+" + ch.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
