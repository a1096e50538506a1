"""SpecViz: real speculative decoding, round by round, with evidence that it is exact.

    >>> import specviz
    >>> trace = specviz.Trace.load("run.json.gz")  # doctest: +SKIP
    >>> pair = specviz.load_pair("built-in")  # doctest: +SKIP
    >>> run = specviz.DecodingRun(pair, "The capital of France is", k=4, seed=8)  # doctest: +SKIP
    >>> for round in run:  # doctest: +SKIP
    ...     print(round.accepted, "of", round.k)

`capture` writes down your own run of transformers: `with specviz.capture() as trace: model.generate(…)`.

In a notebook a trace or a run at the end of a cell shows itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specviz.decoding.run import DecodingRun
    from specviz.decoding.sampling import SamplingConfig
    from specviz.decoding.trace import Trace
    from specviz.diagnosis.capture import capture
    from specviz.models import load_pair

__version__ = "0.1.0"

# Names that others may rely on, and where they live. They are imported when they are asked for: a name
# should not cost the import of torch.
PUBLIC = {
    "DecodingRun": "specviz.decoding.run",
    "SamplingConfig": "specviz.decoding.sampling",
    "Trace": "specviz.decoding.trace",
    "capture": "specviz.diagnosis.capture",
    "load_pair": "specviz.models",
}
SHOWN = ("Trace", "DecodingRun")  # what a notebook can show

__all__ = ["DecodingRun", "SamplingConfig", "Trace", "capture", "load_pair"]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'specviz' has no attribute {name!r}")
    if name in SHOWN:
        import_module("specviz.reading.notebook")  # gives these classes their _repr_html_
    return getattr(import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
