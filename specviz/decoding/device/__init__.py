"""A round whose rows never leave the model's device: the same round as on the host, in torch.

Effective distributions (`laws`), draws and verification (`rules`) and the record's sums (`record`) are
computed where the logits are, in float64, from uniforms made beforehand. Drafted tokens are tensors until the
round is judged; then one copy brings everything that a trace keeps. Nothing else waits for the device, but
for a grammar: its parser is on the host and has to know each drafted token. What it allows goes up.

Trees of candidates, wrong engines and other scorers have their rows on the host.

It runs on every device that has float64, the CPU included: there tests compare it with the host's path and
count what it copies. The host's path, in NumPy, is what judges traces, wrong engines and tests; on a CPU it
is also the faster one.
"""

from specviz.decoding.device.record import Landed
from specviz.decoding.device.stage import Stage, Trouble, stage_for

__all__ = ["Landed", "Stage", "Trouble", "stage_for"]
