"""Whether two tokenizers mean the same by the same ids."""

from dataclasses import dataclass
from typing import Any

from specviz.models.tokens import vocabulary

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Target and draft compared, id by id.

    Attributes:
        shared: ids that mean the same token on both sides.
        target_only, draft_only: how many ids only one side knows. The draft never proposes the first
            kind, and is not allowed the second.
        target_width, draft_width: rows of the models' heads, padding included.
        conflicts: the first (id, target's token, draft's token) that differ, sorted by id. None means
            that this side has the other's token under another id.
    """

    shared: int
    target_only: int
    draft_only: int
    target_width: int
    draft_width: int
    conflicts: tuple[tuple[int, str | None, str | None], ...]

    @property
    def ok(self) -> bool:
        return not self.conflicts and self.shared > 0

    def __str__(self) -> str:
        """One line for people."""
        if not self.ok:
            shown = "; ".join(
                f"id {id}: target {_shown(target)}, draft {_shown(draft)}"
                for id, target, draft in self.conflicts
            )
            return f"the two tokenizers disagree. {shown or 'They have no token in common'}"
        parts = [f"{self.shared:,} ids in common"]
        if self.target_only:
            parts.append(f"{self.target_only:,} only in the target")
        if self.draft_only:
            parts.append(f"{self.draft_only:,} only in the draft")
        if self.target_width != self.draft_width:
            parts.append(f"heads of {self.target_width:,} and {self.draft_width:,} rows")
        return ", ".join(parts)


def compatibility(
    target_tokenizer: Any, draft_tokenizer: Any, target_width: int = 0, draft_width: int = 0
) -> Compatibility:
    """Compare the id-to-token maps of two transformers tokenizers."""
    target, draft = vocabulary(target_tokenizer), vocabulary(draft_tokenizer)
    target_ids = {token: id for id, token in target.items()}
    draft_ids = {token: id for id, token in draft.items()}
    both = target.keys() & draft.keys()
    differing = {id for id in both if target[id] != draft[id]}
    for token in target_ids.keys() & draft_ids.keys():
        if target_ids[token] != draft_ids[token]:
            differing |= {target_ids[token], draft_ids[token]}
    return Compatibility(
        shared=sum(target[id] == draft[id] for id in both),
        target_only=len(target.keys() - draft.keys()),
        draft_only=len(draft.keys() - target.keys()),
        target_width=target_width,
        draft_width=draft_width,
        conflicts=tuple((id, target.get(id), draft.get(id)) for id in sorted(differing)[:SHOWN]),
    )


def _shown(token: str | None) -> str:
    return "has no token" if token is None else repr(token)
