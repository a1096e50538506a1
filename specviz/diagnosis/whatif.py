"""What would help: the same positions under other settings, as expected rounds along the committed texts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specviz.decoding.drafters import COPYING
from specviz.diagnosis.costs import Costs
from specviz.diagnosis.plans import Label, Option, Outcome, Plan
from specviz.diagnosis.setting import Setting
from specviz.diagnosis.tables import LAW
from specviz.diagnosis.walk import MOST_K, intervals, kept, walk
from specviz.diagnosis.walkers import EQUAL, NOW

ALIKE = (0.01, 0.05, 0.2, 0.5, 0.8)  # p(x) between which tokens count as alike
LEAST = 0.5  # drafts a round: a stop that leaves less is no drafting
STOPS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)  # nats of q's entropy above which a block stops


class Texts:
    """The committed texts of an audit, ready for walks.

    Args:
        tokens: the table of that name, as a pandas frame.
        setting: of the audit.
        costs: of its machine; None if unknown.
    """

    def __init__(self, tokens: Any, setting: Setting, costs: Costs | None) -> None:
        self.setting = setting
        self.costs = costs
        self.now = Plan(k=setting.k)
        self.columns: dict[str, list[str]] = {}
        for column in tokens.columns:
            if column.startswith(LAW):
                _, source, controls, _ = column.split("|")
                self.columns.setdefault(f"{source}|{controls}", []).append(column)
        self.texts = []
        for _, frame in tokens.sort_values(["prompt", "index"]).groupby("prompt", sort=True):
            laws = {key: frame[names].to_numpy(float).T for key, names in self.columns.items()}
            self.texts.append(
                {
                    "p": frame["p"].to_numpy(float),
                    "laws": laws,
                    "lacking": frame["lacking"].to_numpy(bool),
                    "entropy": frame["q_entropy"].to_numpy(float),
                    "copied": frame["looked_up"].to_numpy(int),
                    "copies": frame["looked_up_right"].to_numpy(int),
                }
            )
        self._sums: dict[Plan, np.ndarray] = {}
        self._elsewhere: dict[Plan, np.ndarray] = {}

    def has(self, source: str, controls: str = NOW) -> bool:
        names = self.columns.get(f"{source}|{controls}")
        return bool(names) and any(np.isfinite(t["laws"][f"{source}|{controls}"]).any() for t in self.texts)

    def sums(self, plan: Plan) -> np.ndarray:
        """(P, 4) expected rounds, accepted, drafted, copied of each text."""
        if plan not in self._sums:
            self._sums[plan] = np.array([self._walk(text, plan) for text in self.texts]).reshape(-1, 4)
        return self._sums[plan]

    def _walk(self, text: dict[str, Any], plan: Plan) -> tuple[float, float, float, float]:
        q = text["laws"].get(f"{plan.source}|{plan.controls}")
        if q is None or (not np.isfinite(q).any() and self._always(plan)):
            q = text["laws"][f"draft|{NOW}"]  # this prompt reads the same under that style
        keep = kept(q, text["p"])
        proposed = None if self._always(plan) else np.isfinite(q)
        lacking = text["lacking"]
        if plan.full and lacking.any():
            others = 1.0 if plan.full == "bound" else self._as_elsewhere(plan, text["p"])
            keep = np.where(lacking[None], others, keep)
        found = walk(
            keep,
            plan.k,
            endless=self._endless(plan),
            proposed=proposed,
            copied=text["copied"] if plan.lookup else None,
            copies=text["copies"] if plan.lookup else None,
            go_on=None if plan.stop is None else ~(text["entropy"] > plan.stop),
        )
        return found.rounds, found.accepted, found.drafted, found.copied

    def _as_elsewhere(self, plan: Plan, p: np.ndarray) -> np.ndarray:
        """(n,) how often tokens with a like p(x) are kept where the draft can propose them."""
        if plan not in self._elsewhere:
            every = [
                t
                for t in self.texts
                if np.isfinite(t["laws"].get(f"{plan.source}|{plan.controls}", [])).any()
            ]
            known = [~t["lacking"] for t in every]
            chances = [
                kept(t["laws"][f"{plan.source}|{plan.controls}"], t["p"])[0][k]
                for t, k in zip(every, known, strict=True)
            ]
            bins = np.digitize(np.concatenate([t["p"][k] for t, k in zip(every, known, strict=True)]), ALIKE)
            values = np.concatenate(chances)
            self._elsewhere[plan] = np.array(
                [values[bins == b].mean() if (bins == b).any() else 0.0 for b in range(len(ALIKE) + 1)]
            )
        return self._elsewhere[plan][np.digitize(p, ALIKE)]

    def _kind(self, plan: Plan) -> str:
        kind = self.setting.drafter
        if plan.source == "second":
            kind = self.setting.second
        return kind.partition(":")[0]

    def _endless(self, plan: Plan) -> bool:
        return self._kind(plan) not in ("medusa", *COPYING)

    def _always(self, plan: Plan) -> bool:
        """Whether this drafter proposes everywhere."""
        return self._kind(plan) not in ("medusa", "eagle", *COPYING)

    def outcome(self, plan: Plan) -> Outcome:
        """What the plan gives on these texts.

        Raises:
            ValueError: if the audit has no text.
        """
        if not self.texts:
            raise ValueError("no prompt has been measured yet")
        now, then = self.sums(self.now), self.sums(plan)
        drawn = intervals(np.concatenate([now, then], axis=1))
        before, after = drawn[:, :4], drawn[:, 4:]
        means, gains = _mean(after), _mean(after) - _mean(before)
        total = then.sum(axis=0)
        speeds = self._speed(plan, after)
        speed = self._speed(plan, total[None])
        low, high = np.percentile(means, [2.5, 97.5])
        gain_low, gain_high = np.percentile(gains, [2.5, 97.5])
        edges = (None, None) if speeds is None else np.percentile(speeds, [2.5, 97.5])
        mean = float(_mean(total[None])[0])
        return Outcome(
            mean,
            float(low),
            float(high),
            mean - float(_mean(now.sum(axis=0)[None])[0]),
            float(gain_low),
            float(gain_high),
            float(total[2] / total[0]),
            None if speed is None else float(speed[0]),
            None if edges[0] is None else float(edges[0]),
            None if edges[1] is None else float(edges[1]),
            self._label(plan),
        )

    def _speed(self, plan: Plan, sums: np.ndarray) -> np.ndarray | None:
        costs = self.costs
        if costs is None:
            return None
        draft = costs.second if plan.source == "second" else costs.draft
        if draft is None:
            return None
        rounds, _, drafted, copied = sums.T
        verified = np.interp((drafted + copied) / rounds + 1, _rows(), costs.verify)
        return _mean(sums) / (drafted / rounds * draft + verified)

    def _label(self, plan: Plan) -> Label:
        if plan.full == "bound":
            return "bound"
        kind = self._kind(plan)
        deep = kind == "eagle" and plan.k > 4
        return "approximate" if plan.full or plan.stop is not None or deep else "exact"

    def options(self) -> list[Option]:
        """The changes that this audit can say something about, each once."""
        setting, found = self.setting, []
        draft, target = setting.draft_sampling, setting.sampling
        for style, title in STYLE_TITLES.items():
            if self.has(style):
                found.append(Option(style, title, {"source": style}, "draft re-run on the text"))
        if draft != target and self.has("draft", EQUAL):
            found.append(
                Option("equal", "The target's controls for the draft", {"controls": EQUAL}, "recorded scores")
            )
        best = self.best_temperature()
        if best is not None:
            found.append(
                Option(
                    "temperature",
                    f"Draft temperature {best:g} instead of {draft.temperature:g}",
                    {"controls": f"t{best:g}"},
                    "recorded scores",
                )
            )
        if self.has("draft", "open"):
            found.append(
                Option("open", "Draft top-k, top-p and min-p off", {"controls": "open"}, "recorded scores")
            )
        best_k = self.best_k()
        if best_k != setting.k:
            found.append(
                Option("k", f"K {best_k} instead of {setting.k}", {"k": best_k}, "the same positions")
            )
        if any(text["lacking"].any() for text in self.texts):
            found.append(Option("full", "Full draft vocabulary (upper bound)", {"full": "bound"}, "bound"))
        if setting.drafter not in COPYING and any(text["copied"].any() for text in self.texts):
            found.append(
                Option(
                    "lookup",
                    "Prompt lookup where it matches, the draft elsewhere",
                    {"lookup": True},
                    "the text",
                )
            )
        stop = self.best_stop()
        if stop is not None:
            found.append(
                Option(
                    "stop",
                    f"Stop a block where the draft's entropy is above {stop:g} nats",
                    {"stop": stop},
                    "recorded entropies",
                )
            )
        if self.has("second"):
            found.append(
                Option(
                    "second",
                    f"The second draft ({setting.second})",
                    {"source": "second"},
                    "re-run on the text",
                )
            )
        return found

    def plan(self, options: Sequence[Option]) -> Plan:
        """The present plan with some changes. Two that touch the same thing: filters off at the best
        temperature; otherwise the last counts."""
        plan = self.now
        for option in options:
            changes = dict(option.changes)
            controls = {plan.controls, changes.get("controls", "")}
            if "open" in controls and any(name.startswith("t") for name in controls):
                temperature = next(name for name in controls if name.startswith("t"))
                changes["controls"] = f"open {temperature}"
            plan = replace(plan, **changes)
        if not self.has(plan.source, plan.controls):  # the second draft is measured as it is
            plan = replace(plan, controls=NOW)
        return plan

    def best_temperature(self) -> float | None:
        """The draft temperature with the longest blocks; None if none is better than the present one."""
        present = self.setting.draft_sampling.temperature
        means = {
            t: float(_mean(self.sums(replace(self.now, controls=f"t{t:g}")).sum(axis=0)[None])[0])
            for t in self.setting.temperatures
            if self.has("draft", f"t{t:g}")
        }
        if not means:
            return None
        best = max(means, key=lambda t: means[t])
        now = float(_mean(self.sums(self.now).sum(axis=0)[None])[0])
        return best if best != present and means[best] > now + 1e-9 else None

    def by_k(self) -> list[Outcome]:
        """K = 1 … 16."""
        return [self.outcome(replace(self.now, k=k)) for k in range(1, MOST_K + 1)]

    def by_temperature(self) -> dict[float, Outcome]:
        """Every draft temperature that was tried, with the draft's other controls as they are; empty for a
        drafter without one."""
        return {
            t: self.outcome(replace(self.now, controls=f"t{t:g}"))
            for t in self.setting.temperatures
            if self.has("draft", f"t{t:g}")
        }

    def best_k(self) -> int:
        """The K with the highest predicted speed-up; the present one without costs."""
        scores = {}
        for k in range(1, MOST_K + 1):
            speed = self._speed(self.now, self.sums(replace(self.now, k=k)).sum(axis=0)[None])
            if speed is None:
                return self.setting.k
            scores[k] = float(speed[0])
        return max(scores, key=lambda k: scores[k])

    def best_stop(self) -> float | None:
        """The entropy at which to stop a block for the highest predicted speed-up; None if it does not
        help."""
        if not self._always(self.now):
            return None
        speeds = {}
        for stop in (None, *STOPS):
            sums = self.sums(replace(self.now, stop=stop)).sum(axis=0)[None]
            speed = self._speed(self.now, sums)
            if speed is None:
                return None
            if sums[0, 2] >= LEAST * sums[0, 0]:
                speeds[stop] = float(speed[0])
        return max(speeds, key=lambda stop: speeds[stop], default=None)


STYLE_TITLES = {
    "same": "The draft reads the target's prompt",
    "chat": "The target's chat template for the draft",
    "own": "The draft's own chat template",
    "plain": "The plain prompt for the draft",
}


def _mean(sums: np.ndarray) -> np.ndarray:
    """Mean acceptance length of (…, 4) sums."""
    return 1.0 + sums[..., 1] / np.maximum(sums[..., 0], 1e-12)


def _rows() -> tuple[int, ...]:
    from specviz.diagnosis.costs import ROWS

    return ROWS
