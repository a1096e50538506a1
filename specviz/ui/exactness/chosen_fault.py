"""The chosen fault: in the address as `fault`, so that links carry it."""

import streamlit as st

from specviz.decoding.faults import FAULTS, Fault, get_fault

DEFAULT = "correction-from-p"


def fault() -> Fault:
    """The fault that the address names; the default if it names none."""
    try:
        return get_fault(st.query_params.get("fault", DEFAULT))
    except ValueError:
        return FAULTS[DEFAULT]


def choose(name: str) -> None:
    if name == DEFAULT:
        st.query_params.pop("fault", None)
    else:
        st.query_params["fault"] = name


def family(name: str) -> str:
    """The gallery's name of a fault whose parameter was moved: "lenience=0.3" is listed as lenience."""
    base = name.partition("=")[0]
    return next(known for known in FAULTS if known.partition("=")[0] == base)
