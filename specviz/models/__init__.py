"""Pairs of models: the built-in one, hub ids and local folders; devices, dtypes, compatibility.

Importing these modules does not import torch: that happens when something is loaded.
"""

from specviz.models import threads
from specviz.models.errors import FetchError, IncompatiblePair, LoadError
from specviz.models.pair import LoadedPair, load_pair
from specviz.models.progress import Progress

threads.prepare()

__all__ = ["FetchError", "IncompatiblePair", "LoadError", "LoadedPair", "Progress", "load_pair"]
