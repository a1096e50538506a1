"""From a draft's states to logits over the target's vocabulary, and the map of a smaller one of its own."""

from functools import cached_property
from typing import Any

import numpy as np

from specviz.models.errors import LoadError
from specviz.models.language_model import TransformersModel
from specviz.models.trimmed import spread, spread_there


def draft_ids(given: dict[str, Any], count: int, vocabulary: int, source: str) -> np.ndarray:
    """The target's id of each of the draft's: i + d2t[i] (EAGLE-3, Li et al. 2025).

    Args:
        given: tensors; `d2t` (count,) and `t2d` (vocabulary,), which marks the ids that have one.
        count: ids of the draft.
        vocabulary: ids that the checkpoint was made for.

    Raises:
        LoadError: if the two contradict each other or lead out of the vocabulary.
    """
    offsets, marked = given["d2t"].long().numpy(), given["t2d"].bool().numpy()
    ids = np.arange(count) + offsets
    if not ((ids >= 0) & (ids < vocabulary)).all():
        wrong = int(np.flatnonzero((ids < 0) | (ids >= vocabulary))[0])
        raise LoadError(
            f"{source}: d2t leads from draft id {wrong} to {ids[wrong]}, outside the {vocabulary:,} ids of "
            "its vocabulary"
        )
    if len(np.unique(ids)) != count:
        raise LoadError(f"{source}: d2t leads from two draft ids to one id of the target")
    if not np.array_equal(np.sort(ids), np.flatnonzero(marked)):
        raise LoadError(f"{source}: t2d does not mark the ids that d2t leads to")
    return ids


class OwnHead:
    """A head of the draft's own, for some ids.

    Args:
        linear: (width,) to the logits of `ids`, in their order.
        ids: of the target.
        target: whose vocabulary it is.
        scale: of the logits.
    """

    def __init__(self, linear: Any, ids: np.ndarray, target: TransformersModel, scale: float = 1.0) -> None:
        self.linear, self.scale = linear, scale
        self.ids, self.vocab_size = ids, target.vocab_size
        self.available = np.intersect1d(ids, usable(target))

    def __len__(self) -> int:
        return len(self.ids)

    def __call__(self, states: Any) -> np.ndarray:
        """States (rows, width) to logits (rows, V) float32."""
        logits = self.scale * self.linear(states).float().cpu().numpy()
        inside = self.ids < self.vocab_size
        return spread(logits[:, inside], self.ids[inside], self.vocab_size)

    def there(self, states: Any) -> Any:
        """As the call, with logits that stay on the device."""
        places, ids = self._inside_there
        logits = self.scale * self.linear(states).float()
        return spread_there(logits.index_select(1, places), ids, self.vocab_size)

    @cached_property
    def _inside_there(self) -> tuple[Any, Any]:
        """Places among the head's ids of those inside the vocabulary, and these ids, on the device."""
        from specviz.decoding.device.transfer import upload

        places = np.flatnonzero(self.ids < self.vocab_size)
        device = self.linear.weight.device
        return upload(places, device), upload(self.ids[places], device)


class TargetHead:
    """The target's whole head, with whatever it puts behind its last hidden state."""

    def __init__(self, target: TransformersModel) -> None:
        self.target = target
        self.available = usable(target)

    def __len__(self) -> int:
        return len(self.available)

    def __call__(self, states: Any) -> np.ndarray:
        """States (rows, width) to logits (rows, V) float32."""
        return self.target.on_all(self.target.logits_of(states).float().cpu().numpy())

    def there(self, states: Any) -> Any:
        """As the call, with logits that stay on the device."""
        return self.target.on_all_there(self.target.logits_of(states).float())


def usable(target: TransformersModel) -> np.ndarray:
    """Ids that the target can emit."""
    return np.arange(target.vocab_size) if target.available is None else target.available
