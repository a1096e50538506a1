"""A fault or a weak draft? What an audit checks beside the acceptance: the evidence line over all emitted
tokens, the caches on a sample of prompts, and the target as its own draft."""

from collections.abc import Iterable
from math import exp, log
from typing import Any

import numpy as np

from specviz.exactness.evidence import ALTERNATIVES, CEILING, THRESHOLD, Emitted, estimated_leak, log_factors

LINE = 400  # points of the line that are kept


def collect(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The checks' results over all parts.

    Returns:
        evidence: tokens, last and highest value, the token at which it passed 20 (null: never), the line, the
        share of tokens that follow the draft with its interval; caches: checks made, and those that failed;
        self_draft: draft tokens proposed and accepted where the target drafted for itself; engine: what a
        server says of its own speculation, a reading a request.
    """
    logs = np.zeros(len(ALTERNATIVES))
    line: list[float] = []
    tokens: list[Emitted] = []
    caches: list[dict[str, Any]] = []
    said: list[dict[str, Any]] = []
    own: dict[str, Any] = {"drafted": 0, "accepted": 0, "errors": []}
    for part in parts:
        for p, q, root, sesqui in part["emitted"]:
            token = Emitted(p, q, root, sesqui)
            tokens.append(token)
            logs = np.minimum(logs + log_factors(token), CEILING)
            highest = float(logs.max())
            line.append(
                highest + log(float(np.exp(logs - highest).mean())) if np.isfinite(highest) else -CEILING
            )
        said += part.get("engine", [])
        caches += [{**check, "prompt": part["prompt"]} for check in part["caches"]]
        found = part.get("self_draft")
        if found:
            own["drafted"] += found["drafted"]
            own["accepted"] += found["accepted"]
            own["errors"] += [found["error"]] if found["error"] else []
    leak, low, high = estimated_leak(tokens)
    crossed = next((i for i, value in enumerate(line, 1) if value > log(THRESHOLD)), None)
    step = max(1, len(line) // LINE)
    return {
        "evidence": {
            "tokens": len(line),
            "value": exp(min(line[-1], CEILING)) if line else 1.0,
            "highest": exp(min(max(line), CEILING)) if line else 1.0,
            "crossed_at": crossed,
            "line": [[i + 1, round(line[i], 4)] for i in range(0, len(line), step)],
            "leak": leak,
            "leak_low": low,
            "leak_high": high,
        },
        "caches": {"checked": len(caches), "wrong": [c for c in caches if not c["ok"]], "sample": caches[:4]},
        "self_draft": own,
        "engine": said,
    }
