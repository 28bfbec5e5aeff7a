"""A join of some inputs within a join of more, in whatever order both are written.

    (x ⋈p z) ⋈q y = σr((x ⋈s y) ⋈t z)        where p AND q = s AND t AND r

The left side reads x ⋈s y of another query where all conditions of s are among its own, and inputs
are filtered there as here: a row that the other query drops does not come back, and one that it
keeps is filtered by r.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations, product
from typing import Final, NamedTuple

from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjoin, conjuncts, rebind
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.leaves import cut_off, leaf_for
from anabranch.optimizer.meaning.conditions import Form, columns_in, with_columns
from anabranch.optimizer.meaning.normal_form import (
    MOST_ORDERS,
    JoinedInputs,
    NormalForm,
    NormalForms,
)
from anabranch.optimizer.statistics import SourceStatistics

MOST_PRICED: Final = 4
"""Of known joins within a join, at most so many are priced, those of most inputs first."""


class JoinedPart(NamedTuple):
    """A known join within a join.

    Attributes:
        known: The join that is known.
        names: Its columns, by the names that the larger join has for them.
        inside: Which inputs of the larger join are in it, by position.
        left: The conditions of the larger join that it does not say.
    """

    known: Node
    names: Mapping[str, str]
    inside: frozenset[int]
    left: tuple[Expression, ...]


def over_joined_part(
    node: Node, known: Iterable[tuple[Node, Node]], forms: NormalForms, model: CostModel
) -> Callable[[Callable[[Node], Node]], Node] | None:
    """How a join reads a known join of some of its inputs; None where that does not pay.

    `known` are joins, each with what stands for it, under the same names of columns.

    What is returned makes the plan, given what to put in the place of each other input. It costs
    no more than the join as it is, where what is known costs nothing.
    """
    joined = forms.inputs_of(node)
    if joined is None or len(joined.leaves) < 3:
        return None
    priced = islice(_parts(node, joined, known, forms), MOST_PRICED)
    part = next((each for each in priced if _pays(node, joined, each, model)), None)
    if part is None:
        return None
    return lambda leaf: _built(node, part, [leaf(each) for each in joined.leaves])


def _parts(
    node: Node,
    joined: JoinedInputs,
    known: Iterable[tuple[Node, Node]],
    forms: NormalForms,
) -> Iterator[JoinedPart]:
    """Known joins within a join, that it has not as a part already; those of most inputs first."""
    bases = Counter(form.base for form in joined.forms)
    found: list[tuple[int, int, Node, Node]] = []
    for each, stands_for in known:
        form = forms.of(each)
        own = forms.bases_of(form)
        if own is not None and len(own) < len(joined.forms) and Counter(own) <= bases:
            found.append((len(own), len(form.conditions), each, stands_for))
    found.sort(key=lambda one: one[:2], reverse=True)
    keys = {forms.of(below).key: None for below in node.walk()}
    for _, _, each, stands_for in found:
        if forms.of(each).key in keys:
            # Here the order is the one that is written, and so are smaller parts.
            return
        part = _part(joined, each, forms)
        if part is not None:
            yield part._replace(known=stands_for)


def _part(joined: JoinedInputs, known: Node, forms: NormalForms) -> JoinedPart | None:
    form = forms.of(known)
    own = forms.bases_of(form)
    assert own is not None
    for order in islice(_choices(joined.forms, own), MOST_ORDERS):
        ids = forms.placed(joined, order)
        filtered = {
            with_columns(with_columns(each, joined.written[number]), ids)
            for number in order
            for each in joined.forms[number].conditions
        }
        if not filtered <= form.conditions:
            continue
        left, said = _conditions_left(joined, form, ids, forms)
        if filtered | said >= form.conditions:
            by_id = dict(zip(form.columns, known.schema.names))
            names = {name: by_id[ids[each]] for name, each in joined.columns.items() if each in ids}
            return JoinedPart(known, names, frozenset(order), left)
    return None


def _choices(forms: Sequence[NormalForm], bases: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways to find inputs with some bases, each input once."""
    counted = Counter(bases)
    groups = [
        permutations([at for at, form in enumerate(forms) if form.base == base], many)
        for base, many in sorted(counted.items())
    ]
    for choice in product(*groups):
        yield tuple(number for own in choice for number in own)


def _conditions_left(
    joined: JoinedInputs, form: NormalForm, ids: Mapping[int, int], forms: NormalForms
) -> tuple[tuple[Expression, ...], set[Form]]:
    """The conditions that a known join does not say, and what it says of the others."""
    left: list[Expression] = []
    said: set[Form] = set()
    for predicate, _ in joined.conditions:
        for each in conjuncts(predicate):
            own = forms.conditions(each, joined.columns)
            if own is None:
                left.append(each)
                continue
            inside = {with_columns(one, ids) for one in own if columns_in(one) <= ids.keys()}
            said |= inside & form.conditions
            if len(inside & form.conditions) < len(own):
                left.append(each)
    return tuple(left), said


def _pays(node: Node, joined: JoinedInputs, part: JoinedPart, model: CostModel) -> bool:
    """Whether a join over a known one costs no more.

    What both read costs nothing here, nor do other names and another order of columns: no row is
    looked at for them.
    """
    shared = _renamed(part)
    leaves = dict.fromkeys([*joined.leaves, shared])
    sources: dict[Node, Source] = {
        each: leaf_for(each, f"input {number}") for number, each in enumerate(leaves, 1)
    }
    expected = {leaf.name: _expected(each, model) for each, leaf in sources.items()}
    statistics = replace(model.statistics, sources={**model.statistics.sources, **expected})
    inputs = [sources[each] for each in joined.leaves]
    plans = [
        cut_off(node, {each: sources[each] for each in joined.leaves}),
        _joined(sources[shared], part, inputs),
    ]
    prices = [
        CostModel(statistics).total(optimize(each, statistics=statistics).node).weight
        for each in plans
    ]
    return prices[1] <= prices[0]


def _expected(node: Node, model: CostModel) -> SourceStatistics:
    found = model.estimate(node)
    return SourceStatistics(
        rate=found.stream.rate, lifetime=found.stream.lifetime, distinct=found.distinct
    )


def _built(node: Node, part: JoinedPart, leaves: Sequence[Node]) -> Node:
    """The join over a known one, with its columns in their order."""
    found = _joined(_renamed(part), part, leaves)
    if found.schema.names == node.schema.names:
        return found
    return Map(
        input=found,
        columns=tuple((name, Expression.column(name, found.schema)) for name in node.schema.names),
    )


def _renamed(part: JoinedPart) -> Node:
    if list(part.names.items()) == [(name, name) for name in part.known.schema.names]:
        return part.known
    columns = tuple(
        (name, Expression.column(theirs, part.known.schema)) for name, theirs in part.names.items()
    )
    return Map(input=part.known, columns=columns)


def _joined(shared: Node, part: JoinedPart, leaves: Sequence[Node]) -> Node:
    """A known join with the other inputs one by one, connected ones first."""
    found, conditions = _filtered(shared, part.left)
    waiting = [each for at, each in enumerate(leaves) if at not in part.inside]
    while waiting:
        have = set(found.schema.names)
        connected = (
            each
            for each in waiting
            if any(
                one.columns & have and one.columns <= have | set(each.schema.names)
                for one in conditions
            )
        )
        leaf = next(connected, waiting[0])
        waiting.remove(leaf)
        joined = Join(kind="inner", left=found, right=leaf)
        asked = [one for one in conditions if one.columns <= set(joined.schema.names)]
        conditions = [one for one in conditions if one not in asked]
        if asked:
            predicate = conjoin([rebind(one, joined.both) for one in asked])
            joined = replace(joined, predicate=predicate)
        found = joined
    assert not conditions
    return found


def _filtered(node: Node, conditions: Sequence[Expression]) -> tuple[Node, list[Expression]]:
    """A filter for conditions over a plan alone, and the other conditions."""
    names = set(node.schema.names)
    own = [each for each in conditions if each.columns <= names]
    if not own:
        return node, list(conditions)
    predicate = conjoin([rebind(each, node.schema) for each in own])
    return Filter(input=node, predicate=predicate), [each for each in conditions if each not in own]
