"""Questions about one position: p, q, and what the rule makes of them."""

import numpy as np

from specviz.lessons import laws
from specviz.lessons.numeric.base import Problem, generator

NAMES = ("red", "green", "blue", "grey")


def _distribution(rng: np.random.Generator, size: int = 3) -> np.ndarray:
    """Multiples of 0.05, none of them 0."""
    cuts = np.sort(rng.choice(np.arange(1, 20), size - 1, replace=False))
    return np.diff([0, *cuts, 20]) / 20


def _pair(rng: np.random.Generator, size: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """p and q that differ."""
    p = _distribution(rng, size)
    q = _distribution(rng, size)
    while laws.tv(p, q) < 0.1:
        q = _distribution(rng, size)
    return p, q


def _table(p: np.ndarray, q: np.ndarray) -> str:
    rows = "\n".join(f"| {n} | {a:.2f} | {b:.2f} |" for n, a, b in zip(NAMES, p, q, strict=False))
    return f"| token | p | q |\n|---|---|---|\n{rows}\n\n"


def _terms(a: np.ndarray, b: np.ndarray, name: str) -> str:
    return " + ".join(f"{name}({x:.2f}, {y:.2f})" for x, y in zip(a, b, strict=True))


@generator
def accept_probability(rng: np.random.Generator) -> Problem:
    p, q = _pair(rng)
    x = int(rng.integers(len(p)))
    answer = min(1.0, p[x] / q[x])
    return Problem(
        "accept_probability",
        "accept",
        _table(p, q) + f"The draft drew **{NAMES[x]}**. With which probability is it accepted?",
        answer,
        0.01,
        (f"min(1, p/q) = min(1, {p[x]:.2f} / {q[x]:.2f}) = min(1, {p[x] / q[x]:.3f}) = {answer:.3f}",),
    )


@generator
def overlap(rng: np.random.Generator) -> Problem:
    p, q = _pair(rng, 4)
    answer = laws.overlap(p, q)
    return Problem(
        "overlap",
        "acceptance-and-k",
        _table(p, q) + "With which probability is a token drawn from q accepted (β)?",
        answer,
        0.005,
        (f"β = Σ min(p, q) = {_terms(p, q, 'min')} = {answer:.2f}", f"TV(p, q) = 1 − β = {1 - answer:.2f}"),
    )


@generator
def corrected_to(rng: np.random.Generator) -> Problem:
    p, q = _pair(rng, 4)
    law = laws.residual_law(p, q)
    x = int(rng.choice(np.flatnonzero(law)))
    mass = 1 - laws.overlap(p, q)
    return Problem(
        "corrected_to",
        "residual",
        _table(p, q)
        + f"A draft token was rejected. With which probability is the correction **{NAMES[x]}**?",
        float(law[x]),
        0.01,
        (
            f"residual mass = 1 − β = {mass:.2f}",
            f"max(0, {p[x]:.2f} − {q[x]:.2f}) / {mass:.2f} = {law[x]:.3f}",
        ),
    )


@generator
def emitted_as_correction(rng: np.random.Generator) -> Problem:
    p, q = _pair(rng)
    x = int(rng.choice(np.flatnonzero(laws.residual_law(p, q))))
    answer = float(p[x] - q[x])
    return Problem(
        "emitted_as_correction",
        "residual",
        _table(p, q)
        + f"Before anything is drawn: with which probability does this position end with **{NAMES[x]}** "
        "*as a correction*?",
        answer,
        0.005,
        (
            "P(rejected) × residual(x) = (1 − β) · max(0, p − q)/(1 − β) = max(0, p − q)",
            f"= {p[x]:.2f} − {q[x]:.2f} = {answer:.2f}",
        ),
    )


@generator
def wrong_correction(rng: np.random.Generator) -> Problem:
    p, q = _pair(rng)
    x = int(rng.integers(len(p)))
    beta = laws.overlap(p, q)
    answer = float(laws.output_law(p, q, correction=p)[x])
    return Problem(
        "wrong_correction",
        "exact-lossy-heuristic",
        _table(p, q)
        + f"A faulty verifier draws corrections from p. With which probability does it emit **{NAMES[x]}**?",
        answer,
        0.005,
        (
            f"kept: min({p[x]:.2f}, {q[x]:.2f}) = {min(p[x], q[x]):.2f}",
            f"corrected: (1 − β)·p = {1 - beta:.2f} · {p[x]:.2f} = {(1 - beta) * p[x]:.4f}",
            f"together {answer:.4f}, where the target has {p[x]:.2f}",
        ),
    )


@generator
def argmax_with_soft_q(rng: np.random.Generator) -> Problem:
    p, q = _pair(rng)
    while (q == q.max()).sum() > 1:
        p, q = _pair(rng)
    d = int(q.argmax())
    answer = min(1.0, p[d] / q[d])
    return Problem(
        "argmax_with_soft_q",
        "what-the-draft-records",
        _table(p, q)
        + "The draft always takes its argmax and reports the soft q. Which share of its tokens is accepted?",
        answer,
        0.01,
        (
            f"It always proposes {NAMES[d]}: min(1, {p[d]:.2f} / {q[d]:.2f}) = {answer:.3f}",
            f"With an honest one-hot q it would be p = {p[d]:.2f}, and the output exact.",
        ),
    )


@generator
def copied_token(rng: np.random.Generator) -> Problem:
    p = _distribution(rng)
    d, x = (int(i) for i in rng.choice(len(p), 2, replace=False))
    answer = float(p[x] / (1 - p[d]))
    return Problem(
        "copied_token",
        "drafters",
        "An n-gram drafter proposes **"
        + NAMES[d]
        + "** (one-hot q). The target has "
        + ", ".join(f"{n} {v:.2f}" for n, v in zip(NAMES, p, strict=False))
        + f". It is rejected. With which probability is the correction **{NAMES[x]}**?",
        answer,
        0.01,
        (
            f"The residual is p without {NAMES[d]}: mass 1 − {p[d]:.2f} = {1 - p[d]:.2f}",
            f"{p[x]:.2f} / {1 - p[d]:.2f} = {answer:.3f}",
        ),
    )


@generator
def match_rate(rng: np.random.Generator) -> Problem:
    p, q = _pair(rng)
    answer = laws.match_rate(p, q)
    products = " + ".join(f"{a:.2f}·{b:.2f}" for a, b in zip(p, q, strict=True))
    return Problem(
        "match_rate",
        "who-does-what",
        _table(p, q)
        + "An engine draws a token from p and keeps the draft token (drawn from q) if they are equal. "
        "How often does it accept?",
        answer,
        0.005,
        (
            f"Σ p·q = {products} = {answer:.4f}",
            f"The ratio rule accepts Σ min(p, q) = {laws.overlap(p, q):.2f}.",
        ),
    )


@generator
def filtered(rng: np.random.Generator) -> Problem:
    p, q = _pair(rng, 4)
    while len(set(p)) < 4:
        p, q = _pair(rng, 4)
    cut = laws.top_k(p, 2)
    x = int(rng.integers(4))
    answer = min(1.0, float(cut[x] / q[x]))
    kept = " and ".join(NAMES[i] for i in np.flatnonzero(cut))
    mass = float(p[cut > 0].sum())
    return Problem(
        "filtered",
        "effective-distributions",
        _table(p, q)
        + f"The user sets top-k = 2 on the target; the draft is unfiltered and drew **{NAMES[x]}**. "
        "With which probability is it accepted?",
        answer,
        0.01,
        (
            f"top-2 keeps {kept}, mass {mass:.2f}: p({NAMES[x]}) becomes {cut[x]:.3f}",
            f"min(1, {cut[x]:.3f} / {q[x]:.2f}) = {answer:.3f}",
        ),
    )


@generator
def outside_vocabulary(rng: np.random.Generator) -> Problem:
    p, q = _pair(rng, 4)
    q = np.array([*q[:3] / q[:3].sum(), 0.0])
    answer = laws.overlap(p, q)
    return Problem(
        "outside_vocabulary",
        "tokenizers",
        _table(p, q) + "The draft cannot propose **grey**. What is β?",
        answer,
        0.01,
        (
            f"Σ min(p, q) = {_terms(p, q, 'min')} = {answer:.3f}",
            f"It cannot exceed 1 − p(grey) = {1 - p[3]:.2f}.",
        ),
    )
