"""Estimated rates, lifetimes and distinct values of the streams of a plan, from the sources up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

import pyarrow as pa

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.split import Split
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import CountByEnd, CountByStart, Hopping, Session
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts
from anabranch.optimizer import characteristics
from anabranch.optimizer.characteristics import Characteristics
from anabranch.optimizer.origins import Origin, condition_key, origin_in
from anabranch.optimizer.pushing import Columns
from anabranch.optimizer.selectivity import VALUES, selectivity, values_of
from anabranch.optimizer.statistics import SourceStatistics, Statistics

SECOND: Final = 1_000_000
"""In chronons, where a source counts microseconds."""

UNIQUE: Final = 1e6
"""The assumed number of values of a column in which no two rows agree."""

_UNKNOWN: Final = SourceStatistics()


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """A stream on average, and how many different values its columns have."""

    stream: Characteristics
    distinct: Mapping[str, float] = field(default_factory=dict)

    def values(self, columns: Columns) -> float:
        """How many different values some expressions have together."""
        product = 1.0
        for _, each in columns:
            product *= values_of(each, self.distinct)
        return product

    def payloads(self, schema: pa.Schema) -> float:
        """How many different payloads there may be."""
        product = 1.0
        for name in schema.names:
            product *= self.distinct.get(name, VALUES)
        return product


def of_source(source: Source, statistics: Statistics) -> Estimate:
    """What was measured of a source, else what is declared of it, else a guess.

    The guess is a hundred events per second, or per chronon where that has no length.
    """
    given_statistics = statistics.get(source.name, _UNKNOWN)
    chronon = clock_of(source).chronon
    second = 1.0 if chronon is None else SECOND / chronon
    rate = given_statistics.rate if given_statistics.rate is not None else source.rate
    lifetime = given_statistics.lifetime
    if lifetime is None:
        lifetime = 1.0 if source.only_points else max(60.0 * second, 1.0)
    if rate is None:
        rate = 100 / second
        if source.relation:
            rate, lifetime = 0.1 / second, max(10_000.0 * second, 1.0)
    distinct = {column.name: _guess(column.type) for column in source.schema}
    alone = [names[0] for names in source.unique if len(names) == 1]
    for known in (dict.fromkeys(alone, UNIQUE), dict(source.distinct), given_statistics.distinct):
        distinct |= {name: count for name, count in known.items() if name in distinct}
    return Estimate(Characteristics(1 / rate, lifetime), distinct)


def of_join(kind: str, left: Estimate, right: Estimate, share: float) -> Estimate:
    """Pairs, and what stays alone; `share` is the part of all pairs that match."""
    distinct = {**left.distinct, **right.distinct}
    pairs = characteristics.joined(left.stream, right.stream, share)
    match kind:
        case "inner":
            return Estimate(pairs, distinct)
        case "semi":
            met = min(max(right.stream.live * share, 1e-6), 1.0)
            return Estimate(characteristics.filtered(left.stream, met), left.distinct)
        case "anti":
            alone = min(max(1 - right.stream.live * share, 1e-2), 1.0)
            return Estimate(characteristics.filtered(left.stream, alone), left.distinct)
    kept = [left.stream] * (kind != "right") + [right.stream] * (kind != "left")
    return Estimate(characteristics.united([pairs, *kept]), distinct)


def share_of(
    conditions: Sequence[Expression],
    distinct: Mapping[str, float],
    named: Origin,
    shares: Mapping[str, float],
) -> float:
    """The part of all rows, or pairs, that satisfies some conditions: as measured, or a guess.

    What was measured of them all counts; else of each, as if they had nothing to do with each
    other.
    """
    if not shares:
        return math.prod(selectivity(each, distinct) for each in conditions)
    known = shares.get(condition_key(conditions, named))
    if known is not None:
        return known
    return math.prod(
        shares.get(condition_key([each], named), selectivity(each, distinct)) for each in conditions
    )


def of_operator(
    node: Node, given: list[Estimate], shares: Mapping[str, float] | None = None
) -> Estimate:
    """The output of an operator, given its inputs and what was measured of conditions."""
    match node:
        case Filter(predicate=p):
            (one,) = given
            share = share_of(conjuncts(p), one.distinct, origin_in(node.inputs), shares or {})
            return replace(one, stream=characteristics.filtered(one.stream, share))
        case Map(columns=columns):
            return replace(given[0], distinct=_named(columns, given[0]))
        case Union():
            each = [one.stream for one in given]
            return replace(given[0], stream=characteristics.united(each))
        case Join(kind=kind):
            left, right = given
            conditions = () if node.predicate is None else conjuncts(node.predicate)
            distinct = {**left.distinct, **right.distinct}
            share = share_of(conditions, distinct, origin_in(node.inputs), shares or {})
            return of_join(kind, left, right, share)
        case Aggregation(group_by=groups):
            (one,) = given
            many = one.values(groups)
            stream = characteristics.grouped(one.stream, many)
            return Estimate(stream, _named(groups, one))
        case ApplyOperator(group_by=groups):
            (one,) = given
            return Estimate(_in_windows(node, one), _named(groups, one))
        case SetOperation(kind="max-union"):
            return replace(given[0], stream=characteristics.united([one.stream for one in given]))
    return _unary(node, given[0]) if given else Estimate(Characteristics(1.0, 1.0))


def _unary(node: Node, one: Estimate) -> Estimate:
    stream = one.stream
    match node:
        case TimeWindow(size=size, slide=slide):
            stream = characteristics.held(stream, size, slide)
        case CountWindow(rows=rows, slide=slide, partition_by=groups):
            stream = characteristics.counted(stream, rows, one.values(groups), slide)
        case SessionWindow(gap=gap):
            # A guess: some rows follow each other before a session is over.
            stream = replace(stream, lifetime=3.0 * gap)
        case Distinct():
            stream = characteristics.distinct(stream, one.payloads(node.schema))
        case Split(length=length):
            stream = characteristics.split(stream, length)
        case Granularity(granule=granule):
            stream = characteristics.granulated(stream, granule)
        case ToStream(kind="insertions" | "deletions"):
            stream = replace(stream, lifetime=1.0)
    return replace(one, stream=stream)


def _in_windows(node: ApplyOperator, one: Estimate) -> Characteristics:
    """One row per window and group; an operator may give any number, on average one."""
    groups = one.values(node.group_by)
    match node.window:
        case Hopping(size=size, hop=hop):
            return characteristics.in_hops(one.stream, size, hop, groups)
        case CountByStart(count=rows) | CountByEnd(count=rows):
            return characteristics.counted(one.stream, rows, groups)
        case Session(gap=gap):
            return characteristics.in_sessions(one.stream, gap, groups)
    return characteristics.grouped(one.stream, groups)


def _named(columns: Columns, given: Estimate) -> dict[str, float]:
    return {name: values_of(each, given.distinct) for name, each in columns}


def _guess(kind: pa.DataType) -> float:
    return 2.0 if pa.types.is_boolean(kind) else VALUES
