"""Traces worth looking at, from table models: with words, with hostile text, and with odd rounds."""

from collections.abc import Sequence
from dataclasses import replace

from tables import TableModel, TablePair

from specviz.decoding.run import DecodingRun
from specviz.decoding.trace import TokenText, Trace

PROMPT = (0, 2, 3, 6)
WORDS = (" the", " largest", " city", " in", " country", ",", "\n", " Paris", " which", " is", " and", ".")
# Markup, markdown, links, directions, halves of characters, white space: all of it is text.
HOSTILE: tuple[str | bytes, ...] = (
    '<img src=x onerror="window.hacked=1">',
    "**md**",
    "[l](javascript:window.hacked=1)",
    " مرحبا",
    " שלום",
    b"\xf0\x9f",
    b"\x98",
    b"\x80",
    "\n",
    "\u202eevil",
    "<script>window.hacked=1</script>",
    " " * 16,
    "e\u0301",
    "\u0000",
    "</div></style>",
    "\t",
)


class WordPair(TablePair):
    """A pair over 16 ids whose laws look at the last three tokens; the draft follows the target partly."""

    def __init__(self, agreement: float = 0.6) -> None:
        target = TableModel(16, salt=1, name="target", context_length=1_000_000)
        draft = TableModel(16, salt=2, name="draft", context_length=1_000_000)
        full, other = target.logits, draft.logits
        target.logits = lambda history: full(tuple(history)[-3:])
        draft.logits = lambda history: (
            agreement * target.logits(history) + (1 - agreement) * other(tuple(history)[-2:])
        )
        super().__init__(target, draft)


def story(
    tokens: int = 26, *, texts: Sequence[str | bytes] = WORDS, agreement: float = 0.6, **options
) -> Trace:
    """A finished run of `tokens` tokens, in which id i reads as `texts[i]` (counted round)."""
    run = DecodingRun(WordPair(agreement), PROMPT, max_new_tokens=tokens, **{"seed": 3, **options})
    for _ in run:
        pass
    return reading(run.trace(), texts)


def reading(trace: Trace, texts: Sequence[str | bytes] = WORDS) -> Trace:
    """The trace with other texts for its tokens."""
    data = [text if isinstance(text, bytes) else text.encode() for text in texts]
    return replace(trace, tokens={i: TokenText(data[i % len(data)]) for i in trace.tokens})


def first(trace: Trace, rounds: int) -> Trace:
    """The run when it had made `rounds` rounds."""
    return replace(trace, rounds=trace.rounds[:rounds])


def long_story(tokens: int, texts: Sequence[str | bytes] = WORDS) -> Trace:
    """Many tokens at once: the rounds of a short story over and over, numbered on."""
    short = story(200, texts=texts)
    rounds, made, start = [], 0, len(PROMPT)
    while made < tokens:
        for round in short.rounds:
            rounds.append(replace(round, number=len(rounds) + 1, start=start + made, finish=None))
            made += len(round.committed)
    return replace(short, rounds=tuple(rounds))


def cut_story() -> Trace:
    """A run that ends inside its last round: tokens were verified behind the end of the text."""
    trace = story(60, agreement=0.97, k=6)
    at = next(i for i, round in enumerate(trace.rounds) if round.accepted >= 4)
    last = replace(trace.rounds[at], committed=trace.rounds[at].committed[:2], finish="eos")
    return replace(trace, rounds=(*trace.rounds[:at], last))
