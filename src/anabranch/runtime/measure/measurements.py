"""Add up what workers measured of operators and sources, batch by batch, and keep it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, final

from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.node import clock_of
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.identity import KnownHashes
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.origins import predicate_key
from anabranch.optimizer.statistics import UNKNOWN, PlanStatistics
from anabranch.runtime.measure.measured_plan import counted, placed_operators, plan_lines, roots_of
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.messages.measured import SourceSample, together
from anabranch.runtime.store.query_statistics import (
    MOST_OPERATORS,
    BetterPlan,
    OperatorRecord,
    QueryStatistics,
    SourceRecord,
    read_statistics,
    write_statistics,
)

_LOG: Final = logging.getLogger("anabranch")

SMOOTHING: Final = 0.1
"""How much of an average the last batch is (Kraemer 2007, 22.1, without a number there)."""

WRITE_SECONDS: Final = 2.0
"""Statistics are written at most so often, and at the end."""

LEAST_SHARE: Final = 1e-9


@final
class Measurements:
    """What is measured of a query while it runs; one thread adds, any thread reads."""

    def __init__(
        self,
        checkpoint: str | None,
        plan: PhysicalPlan,
        priced: PlanStatistics = UNKNOWN,
        *,
        smoothing: float = SMOOTHING,
        before: QueryStatistics | None = None,
    ) -> None:
        """Go on with what the checkpoint has; `priced` is what the plan was chosen by.

        Without a checkpoint nothing is kept.
        """
        self._checkpoint = checkpoint
        self._smoothing = smoothing
        self._written = -WRITE_SECONDS
        self.watch: Callable[[int], None] | None = None
        if before is None and checkpoint is not None:
            before = read_statistics(checkpoint)
        self._measured = replace(before or QueryStatistics(), better=())
        self._writing = threading.Lock()
        self.replan(plan, priced)

    def replan(self, plan: PhysicalPlan, priced: PlanStatistics = UNKNOWN) -> None:
        """From now on another plan runs; what is the same in it goes on."""
        self._plan = plan
        self._better: tuple[BetterPlan, ...] = ()
        hashes: KnownHashes = {}
        model = CostModel(priced)
        self._placed = placed_operators(plan, hashes)
        nodes = [node for number in range(len(plan.outputs)) for node in roots_of(plan, number)]
        self._measured = replace(
            self._measured,
            plans=tuple(
                tuple(plan_lines(roots_of(plan, number), model, hashes))
                for number in range(len(plan.outputs))
            ),
            chronon=clock_of(nodes[0]).chronon if nodes else None,
        )

    @property
    def statistics(self) -> QueryStatistics:
        """What is known by now."""
        return replace(self._with_shares(self._measured), better=self._better)

    def advise(self, better: Iterable[BetterPlan]) -> None:
        """Note which plans outputs should have; that counts until the plan changes."""
        self._better = tuple(better)
        if self._better:
            self.write()

    def add(
        self, batch: int, counters: Iterable[StageCounters], *, in_driver: bool = False
    ) -> None:
        """Note a batch; one that is done again counts once."""
        if batch <= self._measured.batch:
            return
        once = {(each.stage, each.shard): each for each in counters}
        stages: dict[str, list[StageCounters]] = {}
        for (name, _), each in sorted(once.items()):
            stages.setdefault(name, []).append(each)
        samples = self._samples(once.values())
        if samples:
            sources, advance = self._sources(samples)
            operators = self._operators(batch, stages, advance)
            self._measured = replace(
                self._measured,
                batches=self._measured.batches + 1,
                in_driver=self._measured.in_driver + in_driver,
                sources=sources,
                operators=operators,
            )
        self._measured = replace(self._measured, batch=batch)
        now = time.monotonic()
        if now - self._written >= WRITE_SECONDS:
            self.write()
            self._written = now
        if samples and self.watch is not None:
            self.watch(batch)

    def write(self) -> None:
        """Keep in the checkpoint what is known by now."""
        with self._writing:
            if self._checkpoint is not None and self._measured.batches:
                write_statistics(self._checkpoint, self.statistics)

    def close(self) -> None:
        """Keep what is known by now; the checkpoint may go to others, or away.

        A disk that refuses may be why the query ends, and that is to be told: not that statistics,
        which are measured again, could not be kept.
        """
        try:
            self.write()
        except OSError as problem:
            _LOG.warning("the statistics of the query could not be kept: %s", problem)
        with self._writing:
            self._checkpoint = None

    def _samples(self, counters: Iterable[StageCounters]) -> dict[str, SourceSample]:
        """What streams brought; tables are all there and have no rate."""
        found: dict[str, SourceSample] = {}
        for each in counters:
            for name, sample in each.samples.items():
                every = together([found.get(name), sample])
                if every is not None and not self._plan.sources[name].relation:
                    found[name] = every
        return found

    def _sources(
        self, samples: Mapping[str, SourceSample]
    ) -> tuple[dict[str, SourceRecord], dict[str, float]]:
        """The sources with one more batch, and how far their time went on in it."""
        records, advance = dict(self._measured.sources), {}
        keep = 1 - self._smoothing
        for name, sample in samples.items():
            old = records.get(name, SourceRecord())
            begin = sample.first if old.last is None else old.last
            step = float(max(sample.last - begin, 0))
            advance[name] = step
            values = {
                column: count
                if column not in old.values
                else old.values[column] + self._smoothing * (count - old.values[column])
                for column, count in sample.values.items()
            }
            records[name] = SourceRecord(
                rows=old.rows * keep + sample.rows,
                span=old.span * keep + step,
                lifetimes=old.lifetimes * keep + sample.lifetimes,
                finite=old.finite * keep + sample.finite,
                values={**old.values, **values},
                last=max(sample.last, begin),
                elapsed=old.elapsed + step,
            )
        return records, advance

    def _operators(
        self,
        batch: int,
        stages: Mapping[str, Sequence[StageCounters]],
        advance: Mapping[str, float],
    ) -> dict[str, OperatorRecord]:
        """The operators with one more batch."""
        records = dict(self._measured.operators)
        keep = 1 - self._smoothing
        for signature, placed in self._placed.items():
            seen = [counted(self._plan, slot, stages) for slot in placed.slots]
            old = records.get(signature, OperatorRecord(label=placed.label))
            sides = max(len(each.rows_in) for each in seen)
            came = [sum(each.side(side) for each in seen) for side in range(sides)]
            before = [*old.rows_in, *([0.0] * sides)]
            keys = sum(each.own.keys for each in seen)
            step = max((advance.get(name, 0.0) for name in placed.sources), default=0.0)
            records[signature] = replace(
                old,
                rows_in=tuple(before[side] * keep + came[side] for side in range(sides)),
                rows_out=old.rows_out * keep + sum(each.own.rows for each in seen),
                span=old.span * keep + step,
                seconds=old.seconds * keep + sum(each.own.seconds for each in seen),
                batches=old.batches * keep + 1,
                state_rows=sum(each.own.state_rows for each in seen),
                state_bytes=int(sum(each.bytes for each in seen)),
                keys=old.keys + self._smoothing * (keys - old.keys) if old.keys and keys else keys,
                batch=batch,
            )
        if len(records) > MOST_OPERATORS:
            newest = sorted(records, key=lambda each: records[each].batch)[-MOST_OPERATORS:]
            records = {signature: records[signature] for signature in newest}
        return records

    def _with_shares(self, measured: QueryStatistics) -> QueryStatistics:
        """With what conditions let through, which follows from the rest."""
        model = CostModel(measured.for_plans().sources)
        records = dict(measured.operators)
        for signature, placed in self._placed.items():
            node, record = placed.node, records.get(signature)
            if record is None or not isinstance(node, Filter | Join):
                continue
            own = [measured.sources[name] for name in placed.sources if name in measured.sources]
            share = _share(node, record, max((each.elapsed for each in own), default=0.0), model)
            if share is not None:
                records[signature] = replace(record, condition=predicate_key(node), share=share)
        return replace(measured, operators=records)


def _share(
    node: Filter | Join, record: OperatorRecord, elapsed: float, model: CostModel
) -> float | None:
    """The part of rows, or of pairs that hold together, which satisfied a condition.

    Rows of rate r that live l chronons meet, with those of the other side, r1 r2 (l1 + l2) times
    per chronon (22.4). Nothing lives longer than it was looked at.
    """
    came = record.rows_in
    if not all(came) or node.predicate is None:
        return None
    if isinstance(node, Filter):
        return max(record.rows_out / came[0], LEAST_SHARE)
    if node.kind != "inner" or len(came) != 2 or record.span <= 0:
        return None
    longest = max(elapsed, 1.0)
    lives = sum(min(model.estimate(each).stream.lifetime, longest) for each in node.inputs)
    met = came[0] * came[1] / record.span * lives
    return min(max(record.rows_out / met, LEAST_SHARE), 1.0) if met > 0 else None
