"""Presets of the calculator: estimates from data sheets, each with its formula and its source."""

from dataclasses import dataclass, replace

from specviz.speed.formulas import H100, LLAMA_8B, Machine, Shape, roofline, roofline_v


@dataclass(frozen=True, slots=True)
class Preset:
    """A pair on a machine.

    Attributes:
        batch, context: sequences decoded at once, and cached positions of each.
        alpha: assumed.
        source: where the machine's and the models' numbers come from.
    """

    name: str
    machine: Machine
    target: Shape
    draft: Shape
    batch: int
    context: int
    alpha: float
    source: str

    @property
    def c(self) -> float:
        """A draft pass over a target pass."""
        draft, target = (
            roofline(shape, self.machine, self.batch, self.context, 1) for shape in (self.draft, self.target)
        )
        return draft.seconds / target.seconds

    def v(self, k: int) -> float:
        """A pass over K + 1 rows over one."""
        return roofline_v(self.target, self.machine, self.batch, self.context, k + 1)

    @property
    def says(self) -> str:
        """What it assumes, in words."""
        return (
            f"{self.target.name} with {self.draft.name} on {self.machine.name}, batch {self.batch}, context "
            f"{self.context:,}; α = {self.alpha:g} is assumed. {self.source}"
        )


FORMULA = (
    "A pass takes the larger of bytes / bandwidth and operations / compute: bytes = weights + key-value "
    "cache, operations = 2 · weights · rows · batch and what attention adds. c and v are quotients of such "
    "passes; launching and sampling are not counted, so a real machine gains less."
)
SHEET = "Machine by NVIDIA's data sheet (dense bfloat16), shapes by the models' configurations."
LLAMA_1B = Shape("Llama-3.2-1B, bfloat16", 1.24e9, 2.0, 16, 2048, 512)
LLAMA_3B = Shape("Llama-3.2-3B, bfloat16", 3.21e9, 2.0, 28, 3072, 1024)
LLAMA_70B = Shape("Llama-3.1-70B, bfloat16", 70.6e9, 2.0, 80, 8192, 1024)
H100_PAIR = replace(
    H100,
    name="2 × H100 SXM, split without loss",
    operations=2 * H100.operations,
    bandwidth=2 * H100.bandwidth,
)
LAPTOP = Machine("a laptop's CPU", 0.5e12, 60e9, 16e9)
PRESETS = (
    Preset("8B on H100, batch 1", H100, LLAMA_8B, LLAMA_1B, 1, 2048, 0.72, SHEET),
    Preset("8B on H100, batch 32", H100, LLAMA_8B, LLAMA_1B, 32, 2048, 0.72, SHEET),
    Preset("70B with a 1B draft", H100_PAIR, LLAMA_70B, LLAMA_1B, 1, 2048, 0.75, SHEET),
    Preset(
        "3B on a laptop",
        LAPTOP,
        LLAMA_3B,
        LLAMA_1B,
        1,
        1024,
        0.7,
        "60 GB/s (two channels of DDR5) and 0.5 TFLOP/s are rough figures for a laptop's CPU.",
    ),
)
