"""Wrong, lossy and wasteful variations of the engine, to see what becomes of the output."""

from specviz.decoding.faults.fault import Fault, Kind
from specviz.decoding.faults.gallery import FAULTS, get_fault, starter
from specviz.decoding.faults.lossy import lenience, top_p_set
from specviz.decoding.faults.rules import EXACT, Coin, Hand, Output, Rule, make_verifier, output
from specviz.decoding.faults.spot import Spot

__all__ = [
    "EXACT",
    "FAULTS",
    "Coin",
    "Fault",
    "Hand",
    "Kind",
    "Output",
    "Rule",
    "Spot",
    "get_fault",
    "lenience",
    "make_verifier",
    "output",
    "starter",
    "top_p_set",
]
