"""Shared fixtures: the built-in pair, loaded once, and a tiny random pair made in memory."""

import pytest


@pytest.fixture(scope="session")
def built_in_pair():
    """The real pair, fetched on first use, in the dtype of the recorded runs."""
    from specviz.models import load_pair

    return load_pair("built-in", dtype="float32")


@pytest.fixture(scope="session")
def tiny_llama_pair():
    """Two random Llamas with 2 layers, 64 ids and different weights."""
    from tiny import tiny_pair

    return tiny_pair()
