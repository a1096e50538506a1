"""Tables of which a line can be chosen; the choice is still there when the page is come back to."""

from typing import Any

import pandas as pd
import streamlit as st

from specviz.ui.state import keys


def table(frame: pd.DataFrame, key: str, audit: str, **options: Any) -> int | None:
    """Show a table; returns the number of the chosen line, None without one.

    Args:
        key: of the table.
        audit: whose table it is; a choice in that of another one is not taken up.
        options: of `st.dataframe`.
    """
    kept: dict[str, Any] = st.session_state.setdefault(keys.DEBUG_CHOSEN, {})
    whose, row = kept.get(key, ("", None))
    fits = whose == audit and row is not None and row < len(frame)
    chosen = st.dataframe(
        frame,
        key=key,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        selection_default={"selection": {"rows": [row]}} if fits else None,
        **options,
    )
    rows = chosen["selection"]["rows"]
    row = rows[0] if rows and rows[0] < len(frame) else None
    kept[key] = audit, row
    return row
