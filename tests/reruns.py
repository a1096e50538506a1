"""Recorded runs made again, caches and all."""

from specviz.decoding.faults import starter
from specviz.decoding.protocols import Pair
from specviz.decoding.run import DecodingRun
from specviz.decoding.trace import Trace


def rerun(pair: Pair, trace: Trace) -> DecodingRun:
    """A run with the recipe of a trace, the fault that judged it included, to be checked on the way.

    A trace keeps no caches. The same recipe on the same models makes the same ones again.
    """
    verifier = trace.rounds[0].verifier if trace.rounds else "exact"
    return starter(verifier)(
        pair,
        trace.prompt_ids,
        drafter=trace.drafter,
        k=trace.k,
        sampling=trace.sampling,
        draft_sampling=trace.draft_sampling,
        max_new_tokens=trace.max_new_tokens,
        stop=trace.stop,
        seed=trace.seed,
    )
