"""Shared fixtures: the built-in pair, loaded once, and a tiny random pair made in memory."""

import pytest


@pytest.fixture(scope="session")
def built_in_pair():
    """The real pair, fetched on first use."""
    import torch

    from specviz.models import load_pair

    torch.set_num_threads(min(2, torch.get_num_threads()))
    return load_pair("built-in")
