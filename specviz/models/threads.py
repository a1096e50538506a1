"""How many threads torch uses on a CPU, and how they wait for each other. Decided before torch is imported.

By default the threads of a pass spin while they wait. Beside another busy process a spinning thread holds the
core that the one it waits for needs: on two cores a round of the built-in pair took 8.2 s so, and 0.59 s
with two threads that sleep instead, and with a single one, which spends 0.4 of the CPU time of two. So
threads sleep, and half of the cores stay free for pages and for other work.
"""

import os
import sys
from collections.abc import MutableMapping

from specviz.settings import SettingsError, settings


def prepare(environment: MutableMapping[str, str] = os.environ) -> None:
    """Tell torch's threads, unless it is imported already. What the user has set stays.

    Args:
        environment: where it is told: the variables that OpenMP reads when torch is imported.
    """
    if "torch" in sys.modules and environment is os.environ:
        return
    environment.setdefault("OMP_WAIT_POLICY", "passive")
    environment.setdefault("KMP_BLOCKTIME", "0")  # the same for Intel's library
    environment.setdefault("OMP_NUM_THREADS", str(_wanted() or default(_cores())))


def default(cores: int) -> int:
    """Half of the cores, one at least."""
    return max(1, cores // 2)


def _wanted() -> int:
    try:
        return settings().threads
    except SettingsError:  # said where the settings are read for their own sake
        return 0


def _cores() -> int:
    """Those that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1
