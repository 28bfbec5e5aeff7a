"""Plans in a normal form: equal forms mean equal streams, up to the order and names of columns.

The form of a plan is a base, conditions on its rows, and an id per column. With σ for Filter, π for
a Map that only names and orders columns, and u for an operator that treats every payload by itself
(time window, distinct, clip, shift), the equations are:

    σp(σq(x)) = σq(σp(x)) = σ(p AND q)(x)        where neither p nor q may fail
    π(x) = x                                     up to the order and names of columns
    u(σp(x)) = σp(u(x))
    x ⋈p y = y ⋈p x        (x ⋈ y) ⋈ z = x ⋈ (y ⋈ z)        σp(x) ⋈q y = σ(p AND q)(x ⋈ y)
    x ⟕p y = y ⟖p x        x ⟗p y = y ⟗p x
    x ∪ y = y ∪ x          (x ∪ y) ∪ z = x ∪ (y ∪ z)
    γ(g, h; f)(x) = γ(h, g; f)(x)                groups and aggregates in any order

Neighbours that are wrong: a filter and a count window or top-k, the sides of an outer, semi or anti
join, of a difference. Whatever has no line here is equal only if it is written alike, over inputs
with equal forms, names and order of columns; operators that see events instead of snapshots only
over equal inputs.

Forms are only compared. What runs is a plan that somebody wrote, so that the state of a query
never depends on them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby, islice, permutations, product
from typing import Any, Final, NamedTuple

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.analysis.determinism import by_chance
from anabranch.algebra.clip import Clip
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.merge import Merge
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.optimizer.meaning.conditions import (
    Form,
    Spelling,
    conditions_of,
    form_of,
    with_columns,
)

MOST_ORDERS: Final = 120
"""Of inputs of a join that are equal, at most so many orders are compared."""


class NormalForm(NamedTuple):
    """What a plan means: the rows of a base for which all conditions hold.

    Attributes:
        base: The number of what is below the conditions.
        conditions: Over the ids of columns.
        columns: The id of each column, in the order of the schema; no two are equal.
    """

    base: int
    conditions: frozenset[Form]
    columns: tuple[int, ...]

    @property
    def key(self) -> tuple[int, frozenset[Form]]:
        """What equal streams have in common, in any order of columns."""
        return self.base, self.conditions


class JoinedInputs(NamedTuple):
    """A tree of inner joins, taken apart.

    Attributes:
        leaves: Its inputs, as they are written.
        forms: Their forms.
        written: Per input the id of each column of its form, by the position of the input.
        columns: The same ids by the names of columns.
        conditions: The predicates, each with what it says, over these ids.
    """

    leaves: list[Node]
    forms: list[NormalForm]
    written: list[dict[int, int]]
    columns: dict[str, int]
    conditions: list[tuple[Expression, frozenset[Form]]]


class NormalForms:
    """Remembers the forms of plans, so that they can be compared with each other."""

    def __init__(self, spelling: Spelling = "one") -> None:
        self._spelling: Final = spelling
        self._numbers: dict[Hashable, int] = {}
        self._joined_bases: dict[int, tuple[int, ...]] = {}
        # Each with its node, whose `id` would else be free for another one.
        self._known: dict[int, tuple[Node, NormalForm]] = {}

    def of(self, node: Node) -> NormalForm:
        """The form of a plan."""
        known = self._known.get(id(node))
        if known is None:
            known = (node, self._form(node))
            self._known[id(node)] = known
        return known[1]

    def _form(self, node: Node) -> NormalForm:
        if by_chance(node) is not None:
            return self._as_written(node)
        if sees_events(node):
            base = self._number(("events", node))
            return NormalForm(base, frozenset(), self._positions(len(node.schema)))
        match node:
            case Filter():
                return self._filtered(node)
            case Map():
                return self._mapped(node)
            case Union():
                return self._united(node)
            case Join(broadcast=None):
                return self._joined(node)
            case TimeWindow(columns=None) | Distinct() | Clip() | Shift():
                below = self.of(node.input)
                base = self._number((type(node), *_arguments(node), below.base))
                return below._replace(base=base)
            case Aggregation():
                return self._aggregated(node)
        return self._as_written(node)

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def conditions(
        self, predicate: Expression, columns: Mapping[str, int]
    ) -> frozenset[Form] | None:
        """What a predicate says over ids of columns; None where the order of its parts counts."""
        return conditions_of(predicate, columns, self._spelling)

    def _form_of(self, expression: Expression, columns: Mapping[str, int]) -> Form:
        return form_of(expression, columns, self._spelling)

    def _as_written(self, node: Node) -> NormalForm:
        inputs = [self.of(each) for each in node.inputs]
        named = tuple(
            (form.key, form.columns, tuple(each.schema.names))
            for form, each in zip(inputs, node.inputs)
        )
        base = self._number((type(node), *_arguments(node), *named))
        return NormalForm(base, frozenset(), self._positions(len(node.schema)))

    def _positions(self, count: int) -> tuple[int, ...]:
        return tuple(self._number(("position", index)) for index in range(count))

    def _filtered(self, node: Filter) -> NormalForm:
        below = self.of(node.input)
        columns = dict(zip(node.input.schema.names, below.columns))
        conditions = self.conditions(node.predicate, columns)
        if conditions is not None:
            return below._replace(conditions=below.conditions | conditions)
        # It may fail, so it sees the rows that it was written for, and is evaluated as written.
        base = self._number(("filter", below.key, self._form_of(node.predicate, columns)))
        return NormalForm(base, frozenset(), below.columns)

    def _mapped(self, node: Map) -> NormalForm:
        below = self.of(node.input)
        columns = dict(zip(node.input.schema.names, below.columns))
        taken = [each.is_column for _, each in node.columns]
        if None not in taken and sorted(map(str, taken)) == sorted(node.input.schema.names):
            return below._replace(columns=tuple(columns[str(name)] for name in taken))
        forms = self._distinguished(self._form_of(each, columns) for _, each in node.columns)
        base = self._number(("map", below.key, frozenset(forms)))
        return NormalForm(base, frozenset(), tuple(forms))

    def _aggregated(self, node: Aggregation) -> NormalForm:
        below = self.of(node.input)
        columns = dict(zip(node.input.schema.names, below.columns))
        groups = self._distinguished(
            ("group", self._form_of(key, columns)) for _, key in node.group_by
        )
        calls = self._distinguished(
            ("aggregate", *_parts(call, columns, self._spelling)) for _, call in node.aggregates
        )
        base = self._number(("aggregation", below.key, frozenset(groups), frozenset(calls)))
        return NormalForm(base, frozenset(), (*groups, *calls))

    def _distinguished(self, forms: Iterable[Hashable]) -> list[int]:
        """A number per form; one that occurs again gets another one."""
        found: list[int] = []
        seen: dict[Hashable, int] = {}
        for form in forms:
            seen[form] = seen.get(form, 0) + 1
            found.append(self._number((form, seen[form])))
        return found

    def _united(self, node: Union) -> NormalForm:
        inputs = [self.of(each) for each in _flat_union(node)]
        keyed = [(self._number(form.key), form.columns) for form in inputs]
        keyed.sort()
        columns = tuple(
            self._number(("union", *(own[index] for _, own in keyed)))
            for index in range(len(node.schema))
        )
        base = self._number(("union", tuple(key for key, _ in keyed), frozenset(columns)))
        return NormalForm(base, frozenset(), columns)

    def _joined(self, node: Join) -> NormalForm:
        left, right = self.of(node.left), self.of(node.right)
        if node.kind == "inner":
            found = self._inner(node)
            return self._as_written(node) if found is None else found
        sides = (right, left) if node.kind == "right" else (left, right)
        swapped = node.kind == "right"
        if node.kind == "full" and self._number(left.key) > self._number(right.key):
            sides, swapped = (right, left), True
        labelled = [
            tuple(self._number(("side", number, each)) for each in form.columns)
            for number, form in enumerate(sides)
        ]
        mine, theirs = reversed(labelled) if swapped else labelled
        names = (*node.left.schema.names, *node.right.schema.names)
        conditions: frozenset[Form] | None = frozenset()
        if node.predicate is not None:
            columns_ = dict(zip(names, (*mine, *theirs)))
            conditions = self.conditions(node.predicate, columns_)
        if conditions is None:
            return self._as_written(node)
        kind = "left" if node.kind == "right" else node.kind
        keys = tuple(form.key for form in sides)
        base = self._number(("join", kind, *keys, conditions))
        columns = mine if kind in ("semi", "anti") else (*mine, *theirs)
        return NormalForm(base, frozenset(), columns)

    def _inner(self, node: Join) -> NormalForm | None:
        """σ over the product of all inputs of a tree of inner joins."""
        joined = self._inputs_joined(node)
        if joined is None:
            return None
        forms, by_name = joined.forms, joined.columns
        conditions = [
            with_columns(each, own)
            for own, form in zip(joined.written, forms)
            for each in form.conditions
        ]
        conditions += [each for _, found in joined.conditions for each in found]
        # Then by its position in the normal order: of orders of equal inputs, the least.
        best: tuple[str, frozenset[Form], dict[int, int]] | None = None
        for order in islice(_orders(forms), MOST_ORDERS):
            ids = self.placed(joined, order)
            placed = frozenset(with_columns(each, ids) for each in conditions)
            text = repr(sorted(placed, key=repr))
            if best is None or text < best[0]:
                best = (text, placed, ids)
        assert best is not None
        _, placed, ids = best
        bases = tuple(sorted(form.base for form in forms))
        base = self._number(("inner join", bases))
        self._joined_bases[base] = bases
        return NormalForm(base, placed, tuple(ids[by_name[name]] for name in node.schema.names))

    def placed(self, joined: JoinedInputs, order: Sequence[int]) -> dict[int, int]:
        """The ids of the columns of some inputs, by the position of these in an order."""
        return {
            old: self._number(("input", place, each))
            for place, number in enumerate(order)
            for each, old in joined.written[number].items()
        }

    def bases_of(self, form: NormalForm) -> tuple[int, ...] | None:
        """The bases of the inputs of an inner join, in the normal order; None of anything else."""
        return self._joined_bases.get(form.base)

    def inputs_of(self, node: Node) -> JoinedInputs | None:
        """The inputs of an inner join, or of filters over one; None of anything else."""
        return None if self.bases_of(self.of(node)) is None else self._inputs_joined(node)

    def _inputs_joined(self, node: Node) -> JoinedInputs | None:
        leaves = list(_flat_join(node))
        forms = [self.of(each) for each in leaves]
        names = [name for each in leaves for name in each.schema.names]
        if len(set(names)) < len(names):
            return None
        # First every column gets an id by the position of its input as written.
        written = [
            {each: self._number(("written", number, each)) for each in form.columns}
            for number, form in enumerate(forms)
        ]
        by_name = dict(
            zip(names, (own[each] for own, form in zip(written, forms) for each in form.columns))
        )
        conditions = []
        for predicate in _predicates(node):
            found = self.conditions(predicate, by_name)
            if found is None:
                return None
            conditions.append((predicate, found))
        return JoinedInputs(leaves, forms, written, by_name, conditions)


def sees_events(node: Node) -> bool:
    """Whether its results depend on how lifetimes are cut, in which equal streams may differ."""
    return isinstance(node, ApplyOperator | Merge)


def _parts(value: Any, columns: Mapping[str, int], spelling: Spelling) -> Iterator[Hashable]:
    """All fields of a value, with the forms of expressions among them."""
    for field in fields(value):
        part = getattr(value, field.name)
        yield form_of(part, columns, spelling) if isinstance(part, Expression) else part


def _orders(forms: Sequence[NormalForm]) -> Iterator[tuple[int, ...]]:
    """All orders of inputs by their bases; those with one base come in every order."""
    ranked = sorted(range(len(forms)), key=lambda number: forms[number].base)
    groups = [list(own) for _, own in groupby(ranked, key=lambda number: forms[number].base)]
    for choice in product(*(permutations(own) for own in groups)):
        yield tuple(number for own in choice for number in own)


def _is_inner(node: Node) -> bool:
    return isinstance(node, Join) and node.kind == "inner" and node.broadcast is None


def _flat_join(node: Node) -> Iterator[Node]:
    """The inputs of a tree of inner joins, also of filters over them, from left to right."""
    match node:
        case Join() if _is_inner(node):
            yield from _flat_join(node.left)
            yield from _flat_join(node.right)
        case Filter() if by_chance(node) is None and _is_inner(_below_filters(node)):
            yield from _flat_join(node.input)
        case _:
            yield node


def _predicates(node: Node) -> Iterator[Expression]:
    """The predicates of the same tree."""
    match node:
        case Join() if _is_inner(node):
            if node.predicate is not None:
                yield node.predicate
            yield from _predicates(node.left)
            yield from _predicates(node.right)
        case Filter() if by_chance(node) is None and _is_inner(_below_filters(node)):
            yield node.predicate
            yield from _predicates(node.input)


def _below_filters(node: Node) -> Node:
    while isinstance(node, Filter) and by_chance(node) is None:
        node = node.input
    return node


def _flat_union(node: Node) -> Iterator[Node]:
    if isinstance(node, Union):
        for each in node.inputs:
            yield from _flat_union(each)
    else:
        yield node


def _arguments(node: Node) -> tuple[Hashable, ...]:
    """What a node is made of besides its inputs."""
    inputs = node.inputs
    values = [getattr(node, field.name) for field in fields(node)]  # type: ignore[arg-type]
    return tuple(value for value in values if not isinstance(value, Node) and value is not inputs)
