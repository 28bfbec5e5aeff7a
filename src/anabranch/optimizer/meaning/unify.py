"""Sub-plans that mean the same become one plan, the one that came first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.interning import Interner
from anabranch.optimizer.meaning.conditions import Spelling
from anabranch.optimizer.meaning.joined_part import over_joined_part
from anabranch.optimizer.meaning.normal_form import NormalForm, NormalForms, sees_events
from anabranch.optimizer.meaning.sharing import SPELLINGS, Sharing
from anabranch.optimizer.sharing import is_worthwhile
from anabranch.optimizer.statistics import PlanStatistics


class Unifier:
    """Plans that are known already, and plans over them.

    With a cost model, a join reads known joins of some of its inputs, where that pays.
    """

    def __init__(self, spelling: Spelling = "one", model: CostModel | None = None) -> None:
        self._interner = Interner()
        self._forms = NormalForms(spelling)
        self._model = model
        self._joins: dict[int, tuple[Node, Node]] = {}
        self._first: dict[object, tuple[Node, Node]] = {}
        self._worthwhile: dict[int, bool] = {}

    def add(self, plan: Node, stands_for: Node | None = None) -> None:
        """Take a plan, and all parts of it that are worth sharing, in place of later ones.

        With `stands_for` only the whole plan counts, and that is put in its place.
        """
        plan = self._interner.intern(plan)
        if stands_for is not None:
            self._first.setdefault(self._forms.of(plan).key, (plan, stands_for))
            return
        for node in self._interner.reachable(plan):
            if self._shared(node):
                form = self._forms.of(node)
                first, _ = self._first.setdefault(form.key, (node, node))
                if first is node and self._forms.bases_of(form) is not None:
                    self._joins[id(node)] = (node, node)

    def over_known(self, plan: Node) -> Node:
        """The plan with the largest of its parts replaced that are known already."""
        return self._replaced(self._interner.intern(plan), {})

    def _replaced(self, node: Node, done: dict[int, Node]) -> Node:
        if id(node) not in done:
            done[id(node)] = (
                self._known(node) or self._over_part(node, done) or self._over(node, done)
            )
        return done[id(node)]

    def _over_part(self, node: Node, done: dict[int, Node]) -> Node | None:
        """A join over a known join of some of its inputs."""
        if self._model is None or sees_events(node):
            return None
        key = self._forms.of(node).key
        if key in self._first:
            return None
        build = over_joined_part(node, self._joins.values(), self._forms, self._model)
        if build is None:
            return None
        found = build(lambda leaf: self._replaced(leaf, done))
        if found.schema != node.schema or _relied_on(found) != _relied_on(node):
            return None
        # Whoever writes the same join reads this one, whatever is known by then.
        self._first[key] = self._joins[id(node)] = (node, found)
        return found

    def _over(self, node: Node, done: dict[int, Node]) -> Node:
        if sees_events(node):
            return node
        inputs = [self._replaced(each, done) for each in node.inputs]
        if all(mine is theirs for mine, theirs in zip(inputs, node.inputs)):
            return node
        return node.with_inputs(*inputs)

    def _known(self, node: Node) -> Node | None:
        if not self._shared(node):
            return None
        form = self._forms.of(node)
        known, stands_for = self._first.get(form.key, (None, None))
        if known is None or stands_for is None or stands_for is node:
            return None
        found = _with_columns(stands_for, self._forms.of(known), form, node)
        # What readers rely on stays as it is: only points, no duplicates, types of columns.
        if found.schema != node.schema or _relied_on(found) != _relied_on(node):
            return None
        return found

    def _shared(self, node: Node) -> bool:
        found = self._worthwhile.get(id(node))
        if found is None:
            found = is_worthwhile(self._interner.below(node).values())
            self._worthwhile[id(node)] = found
        return found


def unify(
    plans: Sequence[Node],
    sharing: Sharing = "meaning",
    statistics: PlanStatistics | None = None,
) -> list[Node]:
    """Plans that have equal sub-plans where theirs mean the same; the first stays as it is.

    Of parts that mean the same, the one in the earliest plan is taken; where its columns have
    another order or other names, a map brings them into theirs. `statistics` are what joins are
    priced by that read a join of some of their inputs.
    """
    model = CostModel(statistics) if sharing == "meaning" else None
    unifier = Unifier(SPELLINGS[sharing], model)
    found: list[Node] = []
    for plan in plans:
        found.append(unifier.over_known(plan))
        unifier.add(found[-1])
    return found


def put_in_place(
    plan: Node, known: Iterable[tuple[Node, Node]], sharing: Sharing = "meaning"
) -> Node:
    """The plan with a leaf in the place of every part that means the same as a known plan."""
    unifier = Unifier(SPELLINGS[sharing])
    for node, leaf in known:
        unifier.add(node, leaf)
    return unifier.over_known(plan)


def _relied_on(node: Node) -> Properties:
    """What operators ask of their inputs; a leaf does not tell that it has one row at a time."""
    return replace(node.properties, single=False)


def _with_columns(stands_for: Node, known: NormalForm, wanted: NormalForm, node: Node) -> Node:
    """Known columns in the order and under the names that a plan has them."""
    names: Mapping[int, str] = dict(zip(known.columns, stands_for.schema.names))
    taken = [names[each] for each in wanted.columns]
    if taken == stands_for.schema.names == node.schema.names:
        return stands_for
    columns = [
        (name, Expression.column(each, stands_for.schema))
        for name, each in zip(node.schema.names, taken)
    ]
    return Map(input=stands_for, columns=tuple(columns))
