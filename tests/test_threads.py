"""Torch's threads sleep while they wait, and leave cores to others; whoever sets something else keeps it."""

import subprocess
import sys
from pathlib import Path

import pytest

from specviz.models import threads

ROOT = Path(__file__).parent.parent


def test_what_is_set_stays():
    told = {"OMP_NUM_THREADS": "7"}
    threads.prepare(told)
    assert told == {"OMP_NUM_THREADS": "7", "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}


@pytest.mark.parametrize("cores, expected", [(1, 1), (2, 1), (4, 2), (16, 8)])
def test_half_of_the_cores_stay_free(cores, expected):
    assert threads.default(cores) == expected


@pytest.mark.slow
@pytest.mark.parametrize("wanted, expected", [("0", None), ("2", 2)])
def test_torch_gets_them_before_it_is_imported(wanted, expected):
    code = (
        "import os; [os.environ.pop(n, 0) for n in ('OMP_NUM_THREADS', 'OMP_WAIT_POLICY')]\n"
        f"os.environ['SPECVIZ_THREADS'] = '{wanted}'\n"
        "import sys, specviz.models.errors\n"
        "assert 'torch' not in sys.modules\n"
        "from specviz.models import threads\n"
        "import torch; print(torch.get_num_threads(), threads.default(threads._cores()))\n"
        "print(os.environ['OMP_WAIT_POLICY'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    made, default, policy = done.stdout.split()
    assert int(made) == (expected or int(default)) and policy == "passive"
