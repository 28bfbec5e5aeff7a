"""Sub-plans that mean the same become one plan, the one that came first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.optimizer.interning import Interner
from anabranch.optimizer.meaning.conditions import Spelling
from anabranch.optimizer.meaning.normal_form import NormalForm, NormalForms, sees_events
from anabranch.optimizer.sharing import is_worthwhile


class Unifier:
    """Plans that are known already, and plans over them."""

    def __init__(self, spelling: Spelling = "one") -> None:
        self._interner = Interner()
        self._forms = NormalForms(spelling)
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
                self._first.setdefault(self._forms.of(node).key, (node, node))

    def over_known(self, plan: Node) -> Node:
        """The plan with the largest of its parts replaced that are known already."""
        return self._replaced(self._interner.intern(plan), {})

    def _replaced(self, node: Node, done: dict[int, Node]) -> Node:
        if id(node) not in done:
            done[id(node)] = self._known(node) or self._over(node, done)
        return done[id(node)]

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


def unify(plans: Sequence[Node], spelling: Spelling = "one") -> list[Node]:
    """Plans that have equal sub-plans where theirs mean the same; the first stays as it is.

    Of parts that mean the same, the one in the earliest plan is taken; where its columns have
    another order or other names, a map brings them into theirs.
    """
    unifier = Unifier(spelling)
    found: list[Node] = []
    for plan in plans:
        found.append(unifier.over_known(plan))
        unifier.add(found[-1])
    return found


def put_in_place(
    plan: Node, known: Iterable[tuple[Node, Node]], spelling: Spelling = "one"
) -> Node:
    """The plan with a leaf in the place of every part that means the same as a known plan."""
    unifier = Unifier(spelling)
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
