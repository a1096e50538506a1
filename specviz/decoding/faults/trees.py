"""A tree of candidates judged wrong, as it is easily done."""

import numpy as np

from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.tree import Tree, TreeVerdict, descend


def by_marginals(target_probs: np.ndarray, tree: Tree, randomness: RoundRandomness) -> TreeVerdict:
    """Judges every candidate with the draft's own q, whatever it was really drawn from."""
    return descend(target_probs, tree, randomness, tree.marginals)
