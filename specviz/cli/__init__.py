"""The commands of `python -m specviz`, one module each."""
