"""Everything an audit says, read from its folder: what the command line prints and the page shows."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from specviz.diagnosis import audit, curves, findings, tables, where
from specviz.diagnosis.causes import CAUSES
from specviz.diagnosis.checks import collect
from specviz.diagnosis.costs import Costs
from specviz.diagnosis.finding import Finding
from specviz.diagnosis.served import account
from specviz.diagnosis.setting import Setting
from specviz.diagnosis.walk import intervals
from specviz.diagnosis.whatif import Texts


@dataclass(frozen=True, slots=True)
class Share:
    """One cause over a whole audit.

    Attributes:
        key: of `causes.CAUSE`.
        rejections: how many it explains.
        lost: tokens lost by them, discarded ones included.
        share: of all lost tokens.
        example: (prompt, round, position) of the costliest one; None without a rejection.
    """

    key: str
    rejections: int
    lost: int
    share: float
    example: tuple[int, int, int] | None


def _controls(about: dict[str, Any]) -> dict[str, Any]:
    """The controls that were used, with the ids of tokens that the setting names by their texts."""
    return dict(zip(("sampling", "draft_sampling"), about.get("controls", ()), strict=False))


class Report:
    """An audit as far as it goes.

    Args:
        about: audit.json.
        frames: the four tables.
        checks: what `checks.collect` found.
        log: what a server's log says of its own speculation; "" if none was given.
    """

    def __init__(
        self, about: dict[str, Any], frames: dict[str, Any], checks: dict[str, Any], log: str = ""
    ) -> None:
        self.about = about
        self.setting = Setting.from_dict(about["setting"] | _controls(about))
        self.frames = frames
        self.checks = checks
        self.log = log
        self.costs = Costs.from_dict(about.get("costs"))

    @classmethod
    def of(cls, folder: Path) -> "Report":
        """The report of a folder whose tables are written.

        Raises:
            ValueError: if something is missing or damaged.
        """
        about = audit.read_about(folder)
        frames = tables.read(folder)
        path = folder / "checks.json"
        try:
            checks = json.loads(path.read_text(encoding="utf-8")) if path.exists() else collect(())
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        return cls(about, frames, checks, account.kept_log(folder))

    @property
    def measured(self) -> Any:
        """The prompts that could be measured."""
        prompts = self.frames["prompts"]
        return prompts[prompts["rounds"] > 0]

    @property
    def failed(self) -> Any:
        prompts = self.frames["prompts"]
        return prompts[prompts["error"] != ""]

    @property
    def scored(self) -> bool:
        """Whether the texts were served elsewhere, so that rounds are drawn along them."""
        return bool((self.measured["finish"] == "score").any())

    @cached_property
    def totals(self) -> dict[str, int]:
        names = ("tokens", "rounds", "drafted", "accepted", "lost")
        return {"prompts": len(self.measured), **{n: int(self.measured[n].sum()) for n in names}}

    @cached_property
    def mean_length(self) -> tuple[float, float, float]:
        """Mean acceptance length with its 95% interval, prompts resampled. NaN before the first prompt."""
        return self._ratio("accepted", "rounds", 1.0)

    @property
    def many(self) -> str:
        """How many prompts, in words."""
        count = self.totals["prompts"]
        return "1 prompt" if count == 1 else f"{count:,} prompts"

    @cached_property
    def rate(self) -> tuple[float, float, float]:
        """Draft acceptance rate with its interval."""
        return self._ratio("accepted", "drafted", 0.0)

    def _ratio(self, above: str, below: str, offset: float) -> tuple[float, float, float]:
        rows = self.measured[[above, below]].to_numpy(float)
        if not len(rows) or not rows[:, 1].sum():
            return (float("nan"),) * 3
        drawn = intervals(rows)
        ratios = offset + drawn[:, 0] / np.maximum(drawn[:, 1], 1e-12)
        low, high = np.percentile(ratios, [2.5, 97.5])
        return offset + float(rows[:, 0].sum() / rows[:, 1].sum()), float(low), float(high)

    @cached_property
    def alpha(self) -> float | None:
        beta = self.frames["tokens"]["beta"]
        return float(beta.mean()) if beta.notna().any() else None

    @cached_property
    def alpha_second(self) -> float | None:
        beta = self.frames["tokens"]["beta_second"]
        return float(beta.mean()) if beta.notna().any() else None

    @cached_property
    def causes(self) -> list[Share]:
        """All causes, the costliest first; those that never occur at the end."""
        rejected = where.rejections(self.frames)
        short = int(self.frames["rounds"]["short"].sum())
        total = max(1, int(rejected["lost"].sum()) + short)
        found = []
        for cause in CAUSES:
            part = rejected[rejected["cause"] == cause.key]
            lost = int(part["lost"].sum()) + (short if cause.key == "outside" else 0)
            example = None
            if len(part):
                worst = part.sort_values(["lost", "beta"], ascending=[False, True]).iloc[0]
                example = (int(worst["prompt"]), int(worst["round"]), int(worst["position"]))
            found.append(Share(cause.key, len(part), lost, lost / total, example))
        return sorted(found, key=lambda share: -share.lost)

    @cached_property
    def curve(self) -> curves.Curve:
        return curves.from_rounds(self.frames["rounds"], self.alpha)

    @cached_property
    def shape(self) -> curves.Shape:
        return curves.shape(self.curve)

    @cached_property
    def splits(self) -> list[where.Split]:
        return where.splits(self.frames)

    @cached_property
    def texts(self) -> Texts:
        return Texts(self.frames["tokens"], self.setting, self.costs)

    @cached_property
    def findings(self) -> list[Finding]:
        return findings.findings(
            self.frames, self.setting, self.checks, self.texts, int(self.about["pair"]["vocab_size"])
        )

    @cached_property
    def token_texts(self) -> dict[int, str]:
        """Text of every committed token id, spaces visible."""
        frame = self.frames["tokens"].drop_duplicates("token")
        return dict(zip(frame["token"].tolist(), frame["text"].tolist(), strict=True))

    @property
    def headline(self) -> str:
        return self.findings[0].title if self.findings else "Nothing has been measured yet"
