"""What a plan costs while it runs (Kraemer 2007, chapter 22)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import CountByEnd, CountByStart, Hopping
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts
from anabranch.model.identity import fingerprint
from anabranch.optimizer import characteristics
from anabranch.optimizer.equations import equation_of, equations
from anabranch.optimizer.estimates import Estimate, of_operator, of_source
from anabranch.optimizer.interning import Interner
from anabranch.optimizer.origins import Origin, condition_key, origin_in
from anabranch.optimizer.selectivity import VALUES
from anabranch.optimizer.statistics import PlanStatistics, Statistics

LOOK: Final = 1.0
"""Evaluate a predicate, or compute a column."""
MAKE: Final = 1.0
"""Make a row, or hand it on."""
STAMP: Final = 0.2
"""Compute a start or an end."""
KEEP: Final = 1.5
"""Hash a row, put it into the state, and take it out again."""
SEND: Final = 3.0
"""Bring a row to the shard that holds its key."""


BY_RATIO: Final = (Aggregation, ApplyOperator, Distinct, SetOperation)
"""Operators whose output is measured as rows out per row in; no condition says how many."""


@final
@dataclass(frozen=True, slots=True)
class Cost:
    """Work per chronon, and how many rows are held."""

    work: float = 0.0
    state: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.work + other.work, self.state + other.state)

    @property
    def weight(self) -> float:
        """One number to compare plans by, whatever the unit of time: state counts less than work.

        A plan that does half the work may hold sixteen times as much.
        """
        return self.work * math.sqrt(math.sqrt(1 + self.state))


class CostModel:
    """Estimates for the nodes of plans; each node is looked at once."""

    def __init__(
        self,
        statistics: Statistics | PlanStatistics | None = None,
        interner: Interner | None = None,
    ) -> None:
        self.statistics: PlanStatistics = PlanStatistics.of(statistics)
        self._interner = interner or Interner()
        self._estimates: dict[int, Estimate] = {}
        self._costs: dict[int, Cost] = {}

    def estimate(self, node: Node) -> Estimate:
        """What leaves a node."""
        node = self._interner.intern(node)
        found = self._estimates.get(id(node))
        if found is None:
            if isinstance(node, Source):
                found = of_source(node, self.statistics.sources)
            else:
                given = [self.estimate(each) for each in node.inputs]
                found = of_operator(node, given, self.statistics.shares)
                found = self._as_measured(node, given, found)
            self._estimates[id(node)] = found
        return found

    def _as_measured(self, node: Node, given: list[Estimate], found: Estimate) -> Estimate:
        """The output with as many rows as an operator was seen to give."""
        ratios = self.statistics.ratios
        if not ratios or not isinstance(node, BY_RATIO):
            return found
        ratio = ratios.get(fingerprint(node))
        if not ratio:
            return found
        rate = ratio * sum(each.stream.rate for each in given)
        return replace(found, stream=replace(found.stream, distance=1 / rate))

    def cost(self, node: Node) -> Cost:
        """What a node costs by itself, without its inputs."""
        node = self._interner.intern(node)
        found = self._costs.get(id(node))
        if found is None:
            given = [self.estimate(each) for each in node.inputs]
            found = _cost(node, given, self.estimate(node), self.statistics.shares)
            self._costs[id(node)] = found
        return found

    def total(self, *plans: Node) -> Cost:
        """What plans cost together; what occurs in several places counts once."""
        roots = [self._interner.intern(plan) for plan in plans]
        return self.sum(self._interner.reachable(*roots))

    def sum(self, nodes: Iterable[Node]) -> Cost:
        """What some nodes cost."""
        costs = [self.cost(node) for node in nodes]
        return Cost(sum(each.work for each in costs), sum(each.state for each in costs))


def _cost(node: Node, given: list[Estimate], out: Estimate, shares: Mapping[str, float]) -> Cost:
    streams = [each.stream for each in given]
    arriving = sum(each.rate for each in streams)
    left = out.stream.rate
    match node:
        case Source():
            return Cost()
        case Filter():
            return Cost(arriving * LOOK + left * MAKE)
        case Map(columns=columns):
            computed = sum(each.is_column is None for _, each in columns)
            return Cost(arriving * (LOOK * computed + STAMP) + left * MAKE)
        case Union():
            # A little per row for every branch more, so that fewer branches are better.
            return Cost(left * STAMP)
        case TimeWindow() | Granularity():
            return Cost(arriving * 2 * STAMP + left * MAKE)
        case Join():
            return join_cost(given[0], given[1], _buckets(node, given, shares), left)
        case Aggregation(group_by=groups):
            return _aggregate_cost(given[0], given[0].values(groups), left)
        case ApplyOperator():
            return _operator_cost(node, given[0], out)
        case CountWindow(rows=rows, partition_by=groups):
            held = min(rows * given[0].values(groups), streams[0].live + rows)
            return Cost(arriving * (SEND + KEEP) + left * MAKE, held)
        case Distinct():
            probes = arriving * (SEND + KEEP + LOOK)
            return Cost(probes + left * MAKE, streams[0].live)
    return Cost(arriving * (SEND + KEEP) + left * MAKE, sum(each.live for each in streams))


def join_cost(left: Estimate, right: Estimate, buckets: float, out: float) -> Cost:
    """Rows of both sides are sent, kept and looked up; `out` is the rate of pairs (22.18-23)."""
    first, second = left.stream, right.stream
    probes = (first.rate * second.live + second.rate * first.live) / max(buckets, 1.0)
    work = (first.rate + second.rate) * (SEND + KEEP) + probes * LOOK + out * MAKE
    return Cost(work, first.live + second.live)


def _buckets(join: Join, given: list[Estimate], shares: Mapping[str, float]) -> float:
    """How many values the keys of a join have."""
    if shares and join.predicate is not None:
        conditions = conjuncts(join.predicate)
        known = measured_buckets(conditions, origin_in(join.inputs), shares)
        if known is not None:
            return known
    left, right = (each.distinct for each in given)
    counts = [
        max(left.get(mine, VALUES), right.get(theirs, VALUES)) for mine, theirs in equations(join)
    ]
    return math.prod(counts)


def measured_buckets(
    conditions: Sequence[Expression], named: Origin, shares: Mapping[str, float]
) -> float | None:
    """Measured, where keys are all that is compared: what is looked up is what is found."""
    if not shares or not all(equation_of(each) for each in conditions):
        return None
    known = shares.get(condition_key(conditions, named))
    return None if not known else 1 / known


def _aggregate_cost(given: Estimate, groups: float, out: float) -> Cost:
    one = characteristics.of_group(given.stream, groups)
    held = characteristics.partials(one)
    work = given.stream.rate * (SEND + KEEP + LOOK + math.log2(1 + held)) + out * MAKE
    return Cost(work, min(groups, max(given.stream.live, 1.0)) * held)


def _operator_cost(node: ApplyOperator, given: Estimate, out: Estimate) -> Cost:
    """Events are sent and kept as long as their windows; modules look at them in each window."""
    stream, rows = given.stream, out.stream
    groups = given.values(node.group_by)
    match node.window:
        case Hopping(size=size, hop=hop):
            windows, held = (stream.lifetime + size) / hop, stream.rate * (stream.lifetime + size)
        case CountByStart(count=count) | CountByEnd(count=count):
            windows, held = float(count), min(groups * count, stream.live + count)
        case _:
            # As many windows as there are rows that an event lives to see.
            lasts = max(stream.lifetime, rows.lifetime)
            windows, held = max(stream.lifetime * rows.rate / groups, 1.0), stream.rate * lasts
    looks = max(windows, 1.0) * LOOK * len(node.calls)
    return Cost(stream.rate * (SEND + KEEP + looks) + rows.rate * MAKE, held + rows.live)
