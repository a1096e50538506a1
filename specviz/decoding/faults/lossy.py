"""Rules that change the output's distribution by design, to keep more draft tokens."""

from specviz.decoding.faults.fault import Fault
from specviz.decoding.faults.rules import Rule
from specviz.decoding.faults.variations import correction_p, in_leading_set, typical


def lenience(factor: float = 0.5) -> Fault:
    """Accept with probability min(1, p / (factor · q)), factor in (0, 1]; 1 is the exact rule."""
    if not 0.0 < factor <= 1.0:
        raise ValueError(f"the lenience must be above 0, at most 1, not {factor}")
    return Fault(
        name=f"lenience={factor:g}",
        title="Lenience",
        kind="lossy",
        does=f"Multiplies q by {factor:g} before the accept test, so that more draft tokens pass; no token "
        f"becomes more likely than p / {factor:g}.",
        timeline="Longer blocks than the exact rule gives; tokens pass with u above p/q.",
        seen=("arXiv 2211.17192",),
        rule=Rule(odds=lambda p, q, x: (p[x], factor * q[x])),
    )


def top_p_set(mass: float = 0.9) -> Fault:
    """Accept whatever lies in the target's smallest leading set with at least this mass, in (0, 1]."""
    if not 0.0 < mass <= 1.0:
        raise ValueError(f"the mass must be above 0, at most 1, not {mass}")
    return Fault(
        name=f"top-p-set={mass:g}",
        title="Top-p-set acceptance",
        kind="lossy",
        does="Keeps a draft token whenever it is among the target's leading tokens that hold "
        f"{mass:g} of the mass, and draws from p otherwise.",
        timeline="Whether a token passes does not depend on u at all.",
        rule=Rule(odds=lambda p, q, x: (1.0 * in_leading_set(p, mass)[x], 1.0), correction=correction_p),
        rejudge=False,
    )


def typical_acceptance(epsilon: float = 0.09, delta: float = 0.3) -> Fault:
    """Medusa's rule: accept iff p(x) > min(ε, δ·exp(-entropy of p))."""
    return Fault(
        name="typical-acceptance",
        title="Typical acceptance (Medusa)",
        kind="lossy",
        does=f"Keeps a draft token whenever p of it exceeds min({epsilon:g}, {delta:g}·exp(−entropy of p)), "
        "and draws from p otherwise (where vLLM's version of the rule took the target's favourite).",
        timeline="Whether a token passes does not depend on u or q; unlikely tokens never pass.",
        seen=("arXiv 2401.10774", "vllm-project/vllm#5131"),
        rule=Rule(
            odds=lambda p, q, x: (1.0 * (p[x] > typical(p, epsilon, delta)), 1.0), correction=correction_p
        ),
        rejudge=False,
    )
