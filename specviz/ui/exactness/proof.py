"""The proof in five lines with the numbers of the position, and two claims often mixed up with it."""

import streamlit as st

from specviz.analysis.prose import Part, Sentence, number, sentence, strong
from specviz.ui.exactness.place import Place
from specviz.ui.markup import markdown

DIGITS = 3


def card(place: Place) -> None:
    with st.container(border=True, key="card-proof"):
        st.markdown("## Why it is exact: five lines, with these numbers", anchors=False)
        column = st.selectbox(
            "For the token",
            place.columns,
            index=_drafted(place),
            format_func=place.show,
            key=f"proof-{'-'.join(map(str, place.key))}",
            width=230,
        )
        for i, line in enumerate(lines(place, column), 1):
            st.markdown(f"{i}\\. {markdown(line, place.show)}")
        left, right = st.columns(2, gap="medium")
        with left:
            st.markdown("**Why the correction must not come from p**")
            st.markdown(markdown(correction_from_p(place, column), place.show))
        with right:
            st.markdown("**Greedy is a weaker claim of its own**")
            st.markdown(
                "At temperature 0 p and q are one-hot and the output is the target's single favourite text, "
                "token by token. That shows that caches and commits work, up to near-ties of rounding. It "
                "says nothing about the rule of sampling: a correction from p passes every greedy test."
            )


def _drafted(place: Place) -> int:
    """Which of the columns is the draft's token."""
    ids = [column if place.ids is None else place.ids[column] for column in place.columns]
    return ids.index(place.row.token)


def lines(place: Place, column: int) -> tuple[Sentence, ...]:
    """The five lines for one token."""
    p, q = float(place.spot.p[column]), float(place.spot.q[column])
    kept, excess = min(p, q), max(0.0, p - q)
    beta = min(1.0, sum(map(min, place.spot.p.tolist(), place.spot.q.tolist())))
    n = _number
    keep = min(1.0, p / q) if q else 1.0
    return (
        sentence(
            "The draft proposes ",
            Part("token", column),
            " with ",
            Part("draft", f"q = {n(q)}"),
            f" and it is kept with min(1, p/q) = {n(keep)}. Kept mass: q · min(1, p/q) = min(p, q) = ",
            strong(n(kept)),
            ".",
        ),
        sentence(
            "Over all tokens the draft is kept with β = Σ min(p, q) = ",
            strong(n(beta)),
            f", and refused with 1 − β = {n(1 - beta)}.",
        ),
        sentence(
            f"p sums to 1, so Σ max(0, p − q) = Σ p − Σ min(p, q) = 1 − β = {n(1 - beta)} too: divided by "
            "it, the residual is a distribution."
        ),
        sentence(
            "A refusal is replaced from it, so the correction adds (1 − β) · max(0, p − q) / (1 − β) = "
            "max(0, p − q) = ",
            strong(n(excess)),
            ".",
        ),
        sentence(
            f"Together: min(p, q) + max(0, p − q) = {n(kept)} + {n(excess)} = ",
            Part("target", f"p = {n(p)}"),
            ". q is gone: it holds for any draft, good or bad; a bad one only makes β small.",
        ),
    )


def correction_from_p(place: Place, column: int) -> Sentence:
    """What a token gets if the correction is drawn from p."""
    p, q = float(place.spot.p[column]), float(place.spot.q[column])
    beta = min(1.0, sum(map(min, place.spot.p.tolist(), place.spot.q.tolist())))
    got = min(p, q) + (1 - beta) * p
    verdict = "too much" if got > p + 1e-12 else "too little" if got < p - 1e-12 else "right only by chance"
    return sentence(
        "“Refused? Then take a token from p” sounds right and draws twice: what the draft already delivered, "
        "min(p, q), is delivered again. ",
        Part("token", column),
        f" would get min(p, q) + (1 − β) · p = {_number(min(p, q))} + {_number((1 - beta) * p)} = ",
        strong(_number(got)),
        f" instead of {_number(p)}: {verdict}. Tokens that the draft favours come out too often.",
    )


def _number(value: float) -> str:
    return number(value, DIGITS)
