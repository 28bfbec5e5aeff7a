"""Whether another plan is worth a change: a pure function of what was measured, with hysteresis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

from anabranch.algebra.clip import Clip
from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.statistics import PlanStatistics


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reoptimize:
    """When a running query changes its plan by itself: `Engine(reoptimize=Reoptimize(...))`.

    Attributes:
        factor: Another plan must be estimated to be so many times cheaper. Estimates are rough, and
            both plans run side by side while a query changes.
        batches: For so many batches in a row.
        change: Plans are priced again once a rate or a selectivity has moved by this part.
    """

    factor: float = 1.5
    batches: int = 5
    change: float = 0.1

    @staticmethod
    def of(given: Literal["off", "auto"] | Reoptimize) -> Reoptimize | None:
        """What an engine is told; None: never."""
        if isinstance(given, Reoptimize):
            return given
        return Reoptimize() if given == "auto" else None

    def __post_init__(self) -> None:
        wrong = [
            name
            for name, fits in (
                ("factor", self.factor > 1),
                ("batches", self.batches >= 1),
                ("change", 0 <= self.change < 1),
            )
            if not fits
        ]
        if wrong:
            raise PlanError(
                f"{wrong[0]} cannot be {getattr(self, wrong[0])}",
                where="Reoptimize(...)",
                hint="factor is above 1, batches at least 1, change from 0 to below 1",
            )


@final
@dataclass(frozen=True, slots=True)
class GainVerdict:
    """What another plan would be worth.

    Attributes:
        gain: How many times as much the running plan costs.
        reason: The same in words.
    """

    gain: float
    reason: str


@final
@dataclass(frozen=True, slots=True)
class Patience:
    """How long another plan has been better: batch after batch, from one state to the next.

    Attributes:
        streak: For how many batches in a row.
        verdict: What was found when plans were last priced; None: they never were.
        priced: By which statistics that was.
    """

    streak: int = 0
    verdict: GainVerdict | None = None
    priced: PlanStatistics | None = None

    def is_due(self, statistics: PlanStatistics, settings: Reoptimize) -> bool:
        """Whether plans have to be priced again."""
        return self.priced is None or has_moved(self.priced, statistics, settings.change)

    def noting(
        self, verdict: GainVerdict, statistics: PlanStatistics, settings: Reoptimize
    ) -> Patience:
        """After a batch in which plans were priced."""
        better = verdict.gain >= settings.factor
        return Patience(self.streak + 1 if better else 0, verdict, statistics)

    def unmoved(self, settings: Reoptimize) -> Patience:
        """After a batch in which nothing has moved: the last verdict stands."""
        better = self.verdict is not None and self.verdict.gain >= settings.factor
        return replace(self, streak=self.streak + 1 if better else 0)

    def is_exhausted(self, settings: Reoptimize) -> bool:
        """Whether another plan has been better for long enough."""
        return self.streak >= settings.batches


def judge(running: Node, best: Node, statistics: PlanStatistics) -> GainVerdict:
    """What it is worth to run `best` in the place of `running`, as measured.

    What a change of plan has put in, clips at instants that are over, costs nothing and is not
    counted.
    """
    model = CostModel(statistics)
    now, then = model.total(without_clips(running)), model.total(without_clips(best))
    gain = now.weight / then.weight if then.weight > 0 else 1.0
    if gain <= 1.0:
        return GainVerdict(gain, "the running plan is the best that is known")
    return GainVerdict(
        gain,
        f"another plan is estimated to cost {gain:.2g} times less: "
        f"{_share(then.work, now.work)} of the work, {_share(then.state, now.state)} of the state",
    )


def judge_all(
    running: Sequence[Node], best: Sequence[Node], statistics: PlanStatistics
) -> list[GainVerdict]:
    """The same for each output of a query."""
    return [judge(now, then, statistics) for now, then in zip(running, best, strict=True)]


def without_clips(node: Node) -> Node:
    """The plan without clips."""
    if isinstance(node, Clip):
        return without_clips(node.input)
    if not node.inputs:
        return node
    return node.with_inputs(*(without_clips(each) for each in node.inputs))


def has_moved(before: PlanStatistics, now: PlanStatistics, change: float) -> bool:
    """Whether a rate, a lifetime or a selectivity has moved by more than a part of it."""
    rates = [
        {name: each.rate for name, each in one.sources.items() if each.rate is not None}
        for one in (before, now)
    ]
    return _moved(rates[0], rates[1], change) or _moved(before.shares, now.shares, change)


def _moved(before: Mapping[str, float], now: Mapping[str, float], change: float) -> bool:
    if before.keys() != now.keys():
        return True
    return any(abs(now[name] - was) > change * max(was, 1e-300) for name, was in before.items())


def _share(part: float, whole: float) -> str:
    return "the same" if whole <= 0 else f"{100 * part / whole:.0f} %"
