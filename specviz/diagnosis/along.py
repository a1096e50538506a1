"""What target and drafts say along a text that stays fixed: the numbers behind every counterfactual.

At position t the target has p, a draft has q, and the text has the token x. Given the text, a draft token at
t would have been kept with probability min(1, q(x)/p(x)):

    P(kept, x) = q(x)·min(1, p(x)/q(x)) = min(p(x), q(x)),   P(x) = p(x),   P(kept | x) = min(1, q(x)/p(x)),

independently of everything before, as the text follows p whoever drafts. So q(x) and p(x) along a text give
the exact expected rounds that any draft would have needed to write it (`walk`), with no other logits kept.

Checked against the rule by enumeration in the tests; it follows from Leviathan et al. 2023, theorem A.1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.features import share, together
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import inverse_cdf
from specviz.decoding.sampling import SamplingConfig, effective_probs
from specviz.diagnosis.served.target import ServedTarget
from specviz.diagnosis.tables import BOUNDS
from specviz.diagnosis.walkers import (
    NOW,
    Column,
    Source,
    entropy_of,
    is_watched,
    logprob_of,
    walker_of,
)

CHUNK = 16  # positions a pass: rows over the whole vocabulary are large


@dataclass(slots=True)
class Along:
    """Along the n tokens of one text. Probabilities are effective ones, logarithms natural.

    Attributes:
        p: (n,) p(x) of the text's token.
        logprob: (n,) log p(x) at temperature 1 without any control.
        p_entropy, p_top: (n,) entropy of p, its largest probability.
        beta: Σ min(p, q) as the first of a block, (n,) by "source|controls": of each source under its present
            controls, and of the first under the target's (`EQUAL`).
        q_entropy: (n,) entropy of the present q.
        q_logprob: (n,) log q(x) of the first source at temperature 1 without any control.
        outside: (n,) mass of p on tokens that the first source can never propose.
        lacking: (n,) bool: x is such a token, or the draft's context is full.
        refused: (n,) a token drawn from max(0, q − p), what a draft would have offered had it been refused
            here; −1 where q is nowhere above p. Only if asked for.
        refused_p, refused_q: (n,) its probabilities.
        columns: by name "source|controls".
        bounds: (n,) between what β of the first source and p(x) lie, where a server gives leading tokens
            only: by name, as in `tables.BOUNDS`; `beta` is in the middle. Empty for a target that is loaded
            here.
    """

    p: np.ndarray
    logprob: np.ndarray
    p_entropy: np.ndarray
    p_top: np.ndarray
    beta: dict[str, np.ndarray]
    q_entropy: np.ndarray
    q_logprob: np.ndarray
    outside: np.ndarray
    lacking: np.ndarray
    refused: np.ndarray
    refused_p: np.ndarray
    refused_q: np.ndarray
    columns: dict[str, Column] = field(default_factory=dict)
    bounds: dict[str, np.ndarray] = field(default_factory=dict)


def along(
    pair: Pair,
    tokens: Sequence[int],
    first: int,
    sampling: SamplingConfig,
    sources: Sequence[Source],
    refuse: np.random.Generator | None = None,
) -> Iterator[Along | None]:
    """Lead target and drafts along `tokens` from index `first` on: None after each pass, the result at the
    end.

    Args:
        pair: the target, and whose vocabulary it is.
        tokens: prompt and answer.
        first: tokens of the prompt, 1 or more.
        sampling: the target's controls.
        sources: the drafts; the first is the one that is audited. Each has controls named `NOW`.
        refuse: draws the tokens of `Along.refused`.
    """
    n = len(tokens) - first
    walkers = [walker_of(source, pair, tokens, first) for source in sources]
    asked = together(w.wants_features for w in walkers)
    cache, features = pair.target.new_cache(), []
    names = (
        "p",
        "logprob",
        "p_entropy",
        "p_top",
        "q_entropy",
        "q_logprob",
        "outside",
        "refused_p",
        "refused_q",
    )
    found: dict[str, np.ndarray] = {name: np.full(n, np.nan) for name in names}
    refused = np.full(n, -1)
    lacking = np.zeros(n, dtype=bool)
    watched = [(s.name, name) for i, s in enumerate(sources) for name in s.samplings if is_watched(i, name)]
    beta = {f"{source}|{name}": np.full(n, np.nan) for source, name in watched}
    served = pair.target if isinstance(pair.target, ServedTarget) else None
    bounds = {} if served is None else {name: np.full(n, np.nan) for name in BOUNDS}
    for begin in range(first, len(tokens), CHUNK):
        end = min(begin + CHUNK, len(tokens))
        fed = tokens[caches.length(cache) : end - 1]
        output = pair.target.forward(fed, cache, end - begin, asked)
        if output.features is not None:
            features.extend(output.features)
        prefixes = [tokens[:i] for i in range(begin, end)]
        p = effective_probs(output.logits, prefixes, sampling, pair.target.available).probs
        chosen = np.array(tokens[begin:end])
        here = slice(begin - first, end - first)
        rows = np.arange(end - begin)
        found["p"][here] = p[rows, chosen]
        found["logprob"][here] = logprob_of(output.logits, chosen)
        found["p_entropy"][here] = entropy_of(p)
        found["p_top"][here] = p.max(axis=1)
        if served is not None:
            for at in range(here.start, here.stop):
                bounds["p_low"][at], bounds["p_high"][at] = served.chance(at, sampling)
        for index, walker in enumerate(walkers):
            seen = walker.follow(begin, end, share(features, asked, walker.wants_features))
            for name, laws in seen.laws.items():
                for row, law in enumerate(laws):
                    if law is None or not is_watched(index, name):
                        continue
                    at = begin - first + row
                    low = high = np.minimum(p[row], law).sum()
                    if served is not None:
                        low, high = served.overlap(at, law, sampling)
                    beta[f"{walker.source.name}|{name}"][at] = (low + high) / 2
                    if index or name != NOW:
                        continue
                    if served is not None:
                        bounds["beta_low"][at], bounds["beta_high"][at] = low, high
                    found["q_entropy"][at] = entropy_of(law[None])[0]
                    over = np.maximum(law - p[row], 0.0)
                    if refuse is not None and over.any():
                        token = inverse_cdf(over, refuse.random())
                        refused[at], found["refused_p"][at] = token, p[row, token]
                        found["refused_q"][at] = law[token]
            if index == 0:
                found["q_logprob"][here] = seen.logprob
                found["outside"][here] = walker.unable(p)
                lacking[here] = walker.lacks(begin, end)
        yield None
    columns = {key: column for walker in walkers for key, column in walker.columns().items()}
    yield Along(**found, beta=beta, lacking=lacking, refused=refused, columns=columns, bounds=bounds)
