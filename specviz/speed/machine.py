"""Where something was measured: processor, threads, versions, date."""

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """What a measurement has to say about where it was made.

    Attributes:
        processor: name of the CPU, or of the GPU that was used.
        cores: processors of the system.
        threads: that PyTorch used.
        memory: bytes.
        python, torch, transformers: versions.
        date: ISO, UTC.
    """

    processor: str
    cores: int
    threads: int
    memory: int
    python: str
    torch: str
    transformers: str
    date: str

    @property
    def short(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads != 1 else ''}"
        return f"{self.processor}, {threads}, torch {self.torch}"


def this_machine(device: str = "cpu") -> Machine:
    """The machine of this process, now."""
    import torch
    import transformers

    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else _cpu()
    return Machine(
        processor=name,
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        memory=memory(),
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=transformers.__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def memory() -> int:
    """Bytes of main memory; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
