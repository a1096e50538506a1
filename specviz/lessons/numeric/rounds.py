"""Questions about rounds and runs: counts, caches, cost."""

import numpy as np

from specviz.lessons.numeric.base import Problem, generator
from specviz.speed import formulas as cost


@generator
def expected_tokens(rng: np.random.Generator) -> Problem:
    alpha, k = float(rng.integers(8, 20)) / 20, int(rng.integers(2, 6))
    answer = cost.expected_tokens(alpha, k)
    powers = " + ".join(f"{alpha**i:.3f}" for i in range(k + 1))
    return Problem(
        "expected_tokens",
        "acceptance-and-k",
        f"Each draft token is accepted with chance {alpha:g}, independently, and K = {k}. "
        "How many tokens does a round yield on average?",
        answer,
        0.02,
        (f"1 + α + … + α^K = {powers} = {answer:.3f}",),
    )


@generator
def speed_up(rng: np.random.Generator) -> Problem:
    alpha, k = float(rng.choice([0.4, 0.6, 0.7, 0.8])), int(rng.integers(2, 7))
    c, v = float(rng.choice([0.05, 0.1, 0.2])), float(rng.choice([1.0, 1.2, 1.5]))
    answer = cost.speedup(alpha, k, c, v)
    tokens = cost.expected_tokens(alpha, k)
    return Problem(
        "speed_up",
        "cost",
        f"α = {alpha:.1f}, K = {k}; a draft step costs {c:g} of a plain target step, the verification pass "
        f"{v:g}. What is the speed-up (independent acceptance)?",
        answer,
        0.03,
        (
            f"tokens per round: {tokens:.3f}",
            f"cost per round: K·c + v = {k}·{c:g} + {v:g} = {k * c + v:.2f}",
            f"{tokens:.3f} / {k * c + v:.2f} = {answer:.3f}" + (" – slower" if answer < 1 else ""),
        ),
    )


@generator
def mean_length(rng: np.random.Generator) -> Problem:
    k = 4
    accepted = [int(a) for a in rng.integers(0, k + 1, 6)]
    answer = 1 + sum(accepted) / len(accepted)
    return Problem(
        "mean_length",
        "bonus",
        f"K = {k}. Six rounds accepted {', '.join(map(str, accepted))} draft tokens. "
        "What is the mean acceptance length?",
        answer,
        0.02,
        (
            f"1 + Σ accepted / rounds = 1 + {sum(accepted)}/6 = {answer:.3f}",
            f"{accepted.count(k)} of the six added tokens are bonus tokens; they do not count as accepted.",
        ),
    )


@generator
def acceptance_rate(rng: np.random.Generator) -> Problem:
    k = int(rng.integers(3, 7))
    accepted = [int(a) for a in rng.integers(0, k + 1, 5)]
    answer = sum(accepted) / (5 * k)
    return Problem(
        "acceptance_rate",
        "acceptance-and-k",
        f"K = {k}. Five rounds accepted {', '.join(map(str, accepted))}. What is the draft acceptance rate?",
        answer,
        0.01,
        (f"Σ accepted / Σ drafted = {sum(accepted)} / {5 * k} = {answer:.3f}",),
    )


@generator
def committed_by_coins(rng: np.random.Generator) -> Problem:
    ratios = rng.choice([0.1, 0.3, 0.5, 0.8, 1.4], 4)
    coins = rng.integers(1, 20, 4) / 20
    accepted = next((i for i, (r, u) in enumerate(zip(ratios, coins, strict=True)) if u >= r), 4)
    lines = [
        f"position {i + 1}: u = {u:.2f} {'<' if u < r else '≥'} {r:.1f}: {'kept' if u < r else 'rejected'}"
        for i, (r, u) in enumerate(zip(ratios, coins, strict=True))
    ][: accepted + 1]
    added = "the bonus" if accepted == 4 else "the correction"
    return Problem(
        "committed_by_coins",
        "five-steps",
        "K = 4. The ratios p/q are "
        + ", ".join(f"{r:.1f}" for r in ratios)
        + "; the uniforms are "
        + ", ".join(f"{u:.2f}" for u in coins)
        + ". How many tokens does the round commit?",
        accepted + 1,
        0.0,
        (*lines, f"{accepted} accepted and {added}: {accepted + 1}"),
    )


@generator
def greedy_matches(rng: np.random.Generator) -> Problem:
    matches = [bool(m) for m in rng.random(5) < 0.65]
    accepted = matches.index(False) if False in matches else 5
    return Problem(
        "greedy_matches",
        "greedy",
        "Temperature 0, K = 5. The draft's token equals the target's argmax of its row: "
        + ", ".join("yes" if m else "no" for m in matches)
        + ". How many tokens are committed?",
        accepted + 1,
        0.0,
        (f"{accepted} before the first mismatch, and one from the target: {accepted + 1}",),
    )


@generator
def target_cache(rng: np.random.Generator) -> Problem:
    n, k = int(rng.integers(10, 60)), int(rng.integers(3, 7))
    a = int(rng.integers(0, k + 1))
    return Problem(
        "target_cache",
        "two-caches",
        f"{n} tokens are committed, K = {k}, {a} are accepted. How many positions does the target's cache "
        "hold after the round?",
        n + a,
        0.0,
        (
            f"The pass fills {n} + {k} = {n + k} positions; {k - a} are cut.",
            f"{n} + {a} = {n + a}; committed are {n + a + 1}, and the added token is not cached.",
        ),
    )


@generator
def draft_feeds(rng: np.random.Generator) -> Problem:
    n, k = int(rng.integers(10, 60)), int(rng.integers(2, 6))
    a = int(rng.integers(0, k + 1))
    held = min(n + a, n + k - 1)
    return Problem(
        "draft_feeds",
        "two-caches",
        f"{n} tokens are committed, K = {k}, {a} are accepted. How many committed tokens must the *draft* "
        "model read at the start of the next round?",
        n + a + 1 - held,
        0.0,
        (
            f"Its cache holds min({n} + {a}, {n} + {k} − 1) = {held} positions.",
            f"Committed are {n + a + 1}: {n + a + 1} − {held} = {n + a + 1 - held}",
        ),
    )


@generator
def intensity(rng: np.random.Generator) -> Problem:
    rows, bits = int(rng.integers(2, 10)), int(rng.choice([4, 8, 16, 32]))
    answer = cost.intensity(rows, bits / 8)
    return Problem(
        "intensity",
        "memory-bound",
        f"A dense model stores its weights in {bits} bits. How many operations per byte of weights does one "
        f"pass over {rows} rows do? (A multiplication and an addition count as two.)",
        answer,
        0.01,
        (f"2 · rows / bytes per weight = 2 · {rows} / {bits / 8:g} = {answer:g}",),
    )


@generator
def depth_fault(rng: np.random.Generator) -> Problem:
    first, second = (float(x) / 20 for x in rng.integers(6, 19, 2))
    return Problem(
        "depth_fault",
        "two-surfaces",
        f"Draft = target, but a state fault makes the draft's distribution wrong from position 2 on: "
        f"β is 1 at position 1, {first:g} at position 2 and {second:g} at position 3. K = 3. With which "
        "probability is the whole block accepted (each β given that the tokens before were kept)?",
        first * second,
        0.01,
        (
            f"1 · {first:g} · {second:g} = {first * second:.2f}",
            "With draft = target it should be 1 in every round. The output is still exact.",
        ),
    )
