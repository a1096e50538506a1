"""Every number that a text mentions by name. Texts say «name» and get the figure computed here."""

import re
import tomllib
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from specviz import traces
from specviz.lessons import laws
from specviz.speed import accepted
from specviz.speed import formulas as cost
from specviz.speed.formulas import H100, LLAMA_8B

# The worked example of all lessons and tests: three tokens, opposed opinions.
P = np.array([0.5, 0.3, 0.2])
Q = np.array([0.2, 0.3, 0.5])

# How often a bfloat16 uniform of torch 2.13 is exactly 0 on a CPU, one in so many; a test draws them.
BF16_ZERO = 512

PLACEHOLDER = re.compile("«([a-z0-9_]+)»")


def listed(values) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"


@lru_cache(maxsize=1)
def measured() -> dict[str, Any]:
    """What was measured on one machine: passes by rows, throughputs, with machine and date."""
    return tomllib.loads((Path(__file__).parent / "measured.toml").read_text(encoding="utf-8"))


def draws_needed(law: np.ndarray, p: np.ndarray, power: float = 0.9, level: float = 0.05) -> float:
    """Draws from `law` with which a chi-square test against p rejects with this probability."""
    freedom = len(p) - 1
    edge = chi2.ppf(1 - level, freedom)
    noncentrality = brentq(lambda nc: ncx2.sf(edge, freedom, nc) - power, 0.1, 200.0)
    return float(noncentrality / ((law - p) ** 2 / p).sum())


@lru_cache(maxsize=1)
def facts() -> dict[str, str]:
    """Names and figures, as they stand in a sentence."""
    soft = laws.output_law(P, Q, drawn=laws.one_hot_of_largest(Q))
    from_p = laws.output_law(P, Q, correction=P)
    softmaxed = laws.output_law(P, Q, correction=laws.softmax_of_residual(P, Q))
    one_hot = laws.one_hot_of_largest(Q)
    tree = laws.in_turn(P, Q, 2)
    tokens = {f"tokens_{k}": f"{cost.expected_tokens(0.7, k):.2f}" for k in (1, 2, 4, 8, 16)}
    pair = traces.load("capital").pair
    ridge = H100.operations / H100.bandwidth
    return {
        "p": listed(P),
        "q": listed(Q),
        "beta": f"{laws.overlap(P, Q):.1f}",
        "tv": f"{laws.tv(P, Q):.1f}",
        "ratio_a": f"{P[0] / Q[0]:.1f}",
        "ratio_c": f"{P[2] / Q[2]:.1f}",
        "kept": listed(Q * np.minimum(1, P / Q)),
        "refused": f"{1 - laws.overlap(P, Q):.1f}",
        "residual": listed(np.maximum(0, P - Q)),
        "from_p": listed(from_p),
        "from_p_tv": f"{laws.tv(from_p, P):.2f}",
        "softmax_tv": f"{laws.tv(softmaxed, P):.3f}",
        "argmax_soft": listed(soft),
        "argmax_soft_tv": f"{laws.tv(soft, P):.1f}",
        "argmax_soft_rate": f"{laws.acceptance(P, Q, drawn=one_hot):.1f}",
        "argmax_hot": listed(laws.output_law(P, one_hot)),
        "argmax_hot_rate": f"{laws.overlap(P, one_hot):.1f}",
        "always_tv": f"{laws.tv(Q, P):.1f}",
        "match": f"{laws.match_rate(P, Q):.2f}",
        "flat_example": "0.7",
        "limit_7": f"{1 / (1 - 0.7):.2f}",
        "ridge": f"{ridge:.0f}",
        "ridge_rows": f"{ridge / cost.intensity(1, 2):.0f}",
        "best_k_6_05": str(cost.best_k(0.6, 0.05)),
        "best_k_7_05": str(cost.best_k(0.7, 0.05)),
        "best_k_8_05": str(cost.best_k(0.8, 0.05)),
        "best_k_6_10": str(cost.best_k(0.6, 0.1)),
        "best_k_8_10": str(cost.best_k(0.8, 0.1)),
        "gain_7_4_05": f"{cost.speedup(0.7, 4, 0.05):.2f}",
        "gain_7_8_05": f"{cost.speedup(0.7, 8, 0.05):.2f}",
        "gain_3_4_25": f"{cost.speedup(0.3, 4, 0.25):.2f}",
        "gain_7_4_05_v2": f"{cost.speedup(0.7, 4, 0.05, 2.5):.2f}",
        "even_4_10": f"{cost.break_even_alpha(4, 0.1):.2f}",
        "operations_7_4": f"{cost.operations_factor(0.7, 4, 0.1):.2f}",
        "survive_4": f"{0.7**4:.2f}",
        "discarded_7_4": f"{4 - (cost.expected_tokens(0.7, 4) - 1):.2f}",
        "discarded_7_16": f"{16 - (cost.expected_tokens(0.7, 16) - 1):.1f}",
        "mix_text": f"{cost.expected_tokens(5 / 6, 4):.2f}",
        "mix_judged": f"{cost.expected_tokens(4 / 5, 4):.2f}",
        "mix_drafted": f"{cost.expected_tokens(1 / 2, 4):.2f}",
        "draws_from_p": f"{draws_needed(from_p, P):.0f}",
        "draws_small": f"{round(draws_needed(P + (from_p - P) * 0.01 / laws.tv(from_p, P), P), -3):,.0f}",
        "bf16_zero": str(BF16_ZERO),
        "row_megabytes": f"{5 * 128_256 * 4 / 1e6:.1f}",
        "best_k_real": f"{cost.best_k_real(0.7, 0.05):.2f}",
        "tokens_5_4": f"{cost.expected_tokens(0.5, 4):.2f}",
        "kv_kilobytes": f"{LLAMA_8B.cache_bytes / 1024:.0f}",
        "tree_two": f"{sum(tree):.2f}",
        "tree_top2": f"{laws.chosen(P, Q, 2):.1f}",
        "draft_ids": f"{pair.draft_vocab_size:,}",
        "target_ids": f"{pair.vocab_size:,}",
        **_roofline_facts(),
        **_measured_facts(),
        **tokens,
    }


def _roofline_facts() -> dict[str, str]:
    """The example of the lesson on batch and context: 128 requests, five rows."""
    found = {}
    for name, context in (("0", 0), ("2k", 2048)):
        step = cost.roofline(LLAMA_8B, H100, 128, context, 1)
        found[f"roof_{name}_ms"] = f"{1000 * step.seconds:.1f}"
        found[f"roof_{name}_v"] = f"{cost.roofline_v(LLAMA_8B, H100, 128, context, 5):.2f}"
    return found


def _measured_facts() -> dict[str, str]:
    m = measured()
    found = {"m_machine": m["machine"], "m_date": f"{m['date']:%-d %B %Y}"}
    found["m_speed_date"] = f"{m['speed']['date']:%-d %B %Y}"
    found["m_rounding_tv"] = f"{m['rounding']['mean_tv']:.2f}"
    found["m_rounding_positions"] = str(m["rounding"]["positions"])
    for dtype, short in (("float32", "f32"), ("bfloat16", "bf16")):
        for letter, passes in (("v", m[dtype]), ("p", m["packed"][dtype])):
            found[f"m_{letter}_one_{short}"] = str(passes["one_row_ms"])
            for rows, value in zip(m["rows"], passes["passes"], strict=True):
                found[f"m_{letter}{rows}_{short}"] = f"{value:.2f}"
        eagle = next(t for t in m["throughput"] if "EAGLE" in t["engine"])
        found[f"m_eagle_{short}"] = f"{eagle[dtype][0]:.2f}"
        found[f"m_eagle_packed_{short}"] = f"{m['speed']['packed'][dtype][0]:.2f}"
    gains = [kept["block"] - kept["token"] for kept in m["rules"]["kept"]]
    found |= {"m_rules_least": f"{min(gains):.2f}", "m_rules_most": f"{max(gains):.2f}"}
    found["m_rules_prompts"] = str(m["rules"]["prompts"])
    found["m_rules_date"] = f"{m['rules']['date']:%-d %B %Y}"
    for kept in m["rules"]["kept"]:
        name = f"m_rules_{10 * kept['temperature']:.0f}_{kept['k']}"
        found |= {f"{name}_token": f"{kept['token']:.3f}", f"{name}_block": f"{kept['block']:.3f}"}
    trees = accepted.recorded()
    found["m_trees_texts"] = str(trees.kept[0].texts)
    found["m_trees_date"] = f"{datetime.fromisoformat(trees.machine.date):%-d %B %Y}"
    return found | {f"m_{name}": kept.interval for kept, name in zip(trees.kept, TREES, strict=True)}


TREES = ("chain", "chain_block", "tree4", "tree8", "tree16", "tree4_iid", "tree8_iid", "tree16_iid")


def fill(text: str, known: Callable[[], dict[str, str]] = facts) -> str:
    """`text` with every «name» replaced.

    Raises:
        KeyError: if a name is not known.
    """
    return PLACEHOLDER.sub(lambda match: known()[match[1]], text)
