"""Streamlit components of our own: a Python wrapper beside plain .js and .css files, no build step.

`timeline` is for any Streamlit app: ``from specviz.ui.components import timeline``.
"""

from specviz.ui.components.timeline import timeline

__all__ = ["timeline"]
