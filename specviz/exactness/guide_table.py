"""Many draws at once from one distribution, token for token those of the engine's `inverse_cdf`."""

import numpy as np


class InverseCdf:
    """Draws by inverting the cumulative weights, heaviest token first.

    A guide table says for equal pieces of [0, 1), at least four for each token, which tokens begin and
    end them. Most pieces hold one token; only the draws in the others are searched for.

    Args:
        weights: (V,) nonnegative float64, not all zero, not necessarily normalised.

    Attributes:
        ids: the tokens with positive weight in falling order, ties by lower id. `ranks` indexes them.

    Raises:
        ValueError: if the weights have no mass or are not finite.
    """

    def __init__(self, weights: np.ndarray) -> None:
        total = weights.sum()
        if not 0.0 < total < np.inf:
            raise ValueError(f"cannot draw from weights that sum to {total}")
        order = np.argsort(-weights, kind="stable")
        self.ids = order[: np.count_nonzero(weights)].astype(np.int32)
        self._total = total
        self._ends = np.cumsum(weights[self.ids])
        self._pieces = 1 << (len(weights).bit_length() + 2)  # a power of two, so that no product is rounded
        starts = np.arange(self._pieces) / self._pieces
        self._first = self._search(starts)
        self._mixed = self._first != self._search(np.nextafter(starts + 1 / self._pieces, 0.0))

    def _search(self, u: np.ndarray) -> np.ndarray:
        ranks = np.searchsorted(self._ends, u * self._total, side="right")
        # Rounding can leave the last cumulative sum just below the goal.
        return np.minimum(ranks, len(self.ids) - 1).astype(np.int32)

    def ranks(self, u: np.ndarray) -> np.ndarray:
        """(N,) int32 places in `ids` of the tokens at the uniforms u (N,), each in [0, 1)."""
        pieces = (u * self._pieces).astype(np.int32)
        ranks = self._first.take(pieces)
        mixed = np.flatnonzero(self._mixed.take(pieces))
        ranks[mixed] = self._search(u.take(mixed))
        return ranks

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """(N,) int32 token ids at the uniforms u (N,)."""
        return self.ids.take(self.ranks(u))
