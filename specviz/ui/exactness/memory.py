"""What this session has computed, so that starting the script over costs nothing."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

import streamlit as st

from specviz.ui.state import keys

KEPT = 300
T = TypeVar("T")


def remember(key: Hashable, make: Callable[[], T]) -> T:
    """The value of `key`, made at the first call."""
    known: OrderedDict = st.session_state.setdefault(keys.EXACTNESS, OrderedDict())
    if key not in known:
        known[key] = make()
        while len(known) > KEPT:
            known.popitem(last=False)
    known.move_to_end(key)
    return known[key]
