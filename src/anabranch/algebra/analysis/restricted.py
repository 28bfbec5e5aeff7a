"""Which rows a change of some keys concerns: answers per key need the rows of that key only.

A *partition* puts every row of some sources into a class by the value of one column. A plan keeps
a partition apart if its answer is the sum of what it answers for each class alone:

    plan(S) = sum over classes c of plan(S where the class is c)

Then a change of rows of some classes changes the answer by what it changes in the answer over these
classes: rows of others need not be read. With 200 symbols and `GROUP BY symbol`, that is one row
in 200.

Operators that treat rows one by one (filters, maps, windows by time) keep every partition apart.
One that compares rows does so where rows of two classes never meet: the class is a group column, a
partition column, an equation of a join. Several partitions may hold at once, and each of them
restricts further.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, final

import pyarrow as pa

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.analysis.join_keys import JoinKeys
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression

Restriction = Mapping[str, tuple[tuple[str, str], ...]]
"""By source, pairs of one of its columns and the column of the corrected source that it equals."""

MOST_PARTITIONS: Final = 256
"""Partitions of one plan that are looked at; a plan with more of them is restricted by some."""

_VISIBLE: Final[Mapping[JoinKind, tuple[bool, bool]]] = {
    "inner": (True, True),
    "left": (True, False),
    "right": (False, True),
    "full": (False, False),
    "semi": (True, False),
    "anti": (True, False),
}
"""Whether columns of the left side, and of the right one, tell the class: padded ones do not."""

_ONE_SIDE: Final[Mapping[JoinKind, tuple[bool, bool]]] = {
    "inner": (True, True),
    "left": (True, False),
    "right": (False, True),
    "full": (False, False),
    "semi": (True, False),
    "anti": (True, False),
}
"""Whether the left side, or the right one, may be restricted while the other side is whole.

A row of the side that is whole meets rows of all classes. Where it leaves by itself, for want of a
partner, it depends on all of them.
"""


@final
@dataclass(frozen=True, slots=True)
class Partition:
    """A partition that a plan keeps apart.

    Attributes:
        columns: By source, the column whose value is the class of a row.
        whole: Sources whose rows belong to every class.
        shown: The columns of the output whose value is the class; none where it does not show.
    """

    columns: Mapping[str, str]
    whole: frozenset[str]
    shown: frozenset[str]


def restricting_columns(nodes: Sequence[Node], source: str) -> Restriction:
    """The columns by which a replay of corrections of a source can be restricted.

    Rows of a source matter only if in each of these columns they have a value that the corrected
    rows have in the other column of the pair. NULL counts as a value. Sources that are not in it
    have to be read as a whole.

    Args:
        nodes: The plans that are replayed together.
        source: The source that is corrected.
    """
    plans = [node for node in nodes if source in _sources(node)]
    kept = [partitions(node) for node in plans]
    found: dict[str, list[tuple[str, str]]] = {}
    for one in (each for of_plan in kept for each in of_plan if source in each.columns):
        if not all(_holds(one, plan, of_plan) for plan, of_plan in zip(plans, kept)):
            continue
        for name, column in one.columns.items():
            pair = (column, one.columns[source])
            if pair not in found.setdefault(name, []):
                found[name].append(pair)
    return {name: tuple(pairs) for name, pairs in found.items()}


def partitions(node: Node) -> list[Partition]:
    """The partitions that a plan keeps apart; not all that there may be."""
    return _partitions(node, {})


def _holds(one: Partition, plan: Node, kept: Iterable[Partition]) -> bool:
    """Whether a partition, which another plan may have more sources of, is kept by a plan."""
    names = _sources(plan)
    own = {name: column for name, column in one.columns.items() if name in names}
    return any(each.columns == own for each in kept)


def _sources(node: Node) -> frozenset[str]:
    return frozenset(each.name for each in node.walk() if isinstance(each, Source))


def _partitions(node: Node, known: dict[int, list[Partition]]) -> list[Partition]:
    if id(node) not in known:
        below = [_partitions(each, known) for each in node.inputs]
        known[id(node)] = _merged(_kept(node, below))[:MOST_PARTITIONS]
    return known[id(node)]


def _kept(node: Node, below: Sequence[Sequence[Partition]]) -> Iterator[Partition]:
    """The partitions that an operator keeps apart, out of those of its inputs."""
    match node:
        case Source(name=name, schema=schema):
            for column in schema:
                if _has_plain_equality(column.type):
                    yield Partition({name: column.name}, frozenset(), frozenset({column.name}))
        case Filter() | Clip() | Shift() | Granularity() | TimeWindow():
            yield from below[0]
        case Map(columns=columns):
            for one in below[0]:
                yield Partition(one.columns, one.whole, _renamed(columns, one.shown))
        case Aggregation(group_by=keys) | ApplyOperator(group_by=keys):
            for one in below[0]:
                if shown := _renamed(keys, one.shown):
                    yield Partition(one.columns, one.whole, shown)
        case TopK(partition_by=keys) | CountWindow(partition_by=keys):
            yield from (one for one in below[0] if _renamed(keys, one.shown))
        case SessionWindow(partition_by=keys):
            yield from (one for one in below[0] if _renamed(keys, one.shown))
        case Union() | SetOperation():
            # Rows that differ in the class differ as payloads.
            first, *others = below
            for one in first:
                matching = [
                    [each for each in of_one if each.shown & one.shown] for of_one in others
                ]
                yield from reduce(_common, matching, [one])
        case Join():
            yield from _kept_by_join(node, *below)
        case _ if _works_by_payload(node):
            # Where the class shows, payloads of two classes differ.
            for one in below[0]:
                if shown := one.shown & {*node.schema.names}:
                    yield Partition(one.columns, one.whole, shown)


def _works_by_payload(node: Node) -> bool:
    """Whether what becomes of a payload depends on nothing but where the same payload holds."""
    by_payload = isinstance(node, Distinct) or node.traits.retimes or node.traits.same_snapshots
    return len(node.inputs) == 1 and by_payload


def _kept_by_join(
    join: Join, left: Sequence[Partition], right: Sequence[Partition]
) -> Iterator[Partition]:
    keys = JoinKeys.of(join)
    shows = _VISIBLE[join.kind]
    for mine, theirs in zip(keys.left, keys.right, strict=True):
        for one in left:
            for other in right:
                if mine.is_column in one.shown and theirs.is_column in other.shown:
                    shown = (one.shown if shows[0] else frozenset()) | (
                        other.shown if shows[1] else frozenset()
                    )
                    yield from _together(one, other, shown)
    alone = _ONE_SIDE[join.kind]
    sides = ((left, alone[0], join.right), (right, alone[1], join.left))
    for parts, may_be_alone, rest in sides:
        whole = _sources(rest)
        for one in parts if may_be_alone else ():
            if not whole & set(one.columns):
                yield Partition(one.columns, one.whole | whole, one.shown)


def _common(ones: Iterable[Partition], others: Sequence[Partition]) -> list[Partition]:
    """Partitions of both, whose class shows in the same columns."""
    return [
        each
        for one in ones
        for other in others
        if (shown := one.shown & other.shown)
        for each in _together(one, other, shown)
    ]


def _together(one: Partition, other: Partition, shown: frozenset[str]) -> Iterator[Partition]:
    """The partition of both inputs, unless they want different rows of one source."""
    same = all(
        one.columns[name] == other.columns[name] for name in {*one.columns} & {*other.columns}
    )
    if same and not (one.whole & {*other.columns}) and not (other.whole & {*one.columns}):
        yield Partition({**one.columns, **other.columns}, one.whole | other.whole, shown)


def _merged(found: Iterable[Partition]) -> list[Partition]:
    """Each once; what was found in two ways shows in the columns of both."""
    kept: dict[tuple[object, frozenset[str]], Partition] = {}
    for one in found:
        key = (frozenset(one.columns.items()), one.whole)
        shown = one.shown | kept[key].shown if key in kept else one.shown
        kept[key] = Partition(one.columns, one.whole, shown)
    return list(kept.values())


def _renamed(columns: Iterable[tuple[str, Expression]], shown: frozenset[str]) -> frozenset[str]:
    """What columns are called that are passed on as they are."""
    return frozenset(name for name, each in columns if each.is_column in shown)


def _has_plain_equality(kind: pa.DataType) -> bool:
    """Whether values are equal exactly if their bits are: not so 0.0 and -0.0, or nested ones."""
    is_kind = pa.types
    return bool(
        is_kind.is_integer(kind)
        or is_kind.is_string(kind)
        or is_kind.is_large_string(kind)
        or is_kind.is_boolean(kind)
        or is_kind.is_date(kind)
        or is_kind.is_timestamp(kind)
    )
