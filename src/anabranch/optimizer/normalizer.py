"""Rules at every node of a plan, from the sources up, until none applies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from anabranch.algebra.node import Node
from anabranch.algebra.union import columns_of
from anabranch.errors import EngineError
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.interning import Interner
from anabranch.optimizer.rebuilding import rebuilt
from anabranch.optimizer.rules import Rule, rules_at

STEPS_PER_NODE: Final = 50
"""More steps per node than any plan needs; beyond, rules undo each other."""


class Step(NamedTuple):
    """One application of a rule."""

    rule: str
    before: str
    after: str


class Normalizer:
    """Applies rules to plans that are interned."""

    def __init__(self, interner: Interner, model: CostModel, rules: Sequence[Rule]) -> None:
        self._interner = interner
        self._model = model
        self._rules = tuple(rules)

    def run(self, plan: Node, *, keep_shared: bool = True) -> tuple[Node, list[Step]]:
        """The plan to which no rule applies, and the steps to it.

        With `keep_shared` a rule is not applied through a node that others read, too, unless the
        plan costs less although the node must stay for them.
        """
        steps: list[Step] = []
        budget = STEPS_PER_NODE * (len(self._interner.below(plan)) + 10)
        while True:
            one = _Pass(self._interner, self._model, self._rules, plan, keep_shared)
            found = one.normal(plan)
            steps += one.steps
            if not one.steps:
                return plan, steps
            if len(steps) > budget:
                raise _endless(steps)
            plan = found


class _Pass:
    """Every node once; what a rule makes of it, again."""

    def __init__(
        self,
        interner: Interner,
        model: CostModel,
        rules: tuple[Rule, ...],
        plan: Node,
        keep_shared: bool,
    ) -> None:
        self.steps: list[Step] = []
        self._interner = interner
        self._model = model
        self._rules = rules
        self._keep_shared = keep_shared
        self._done: dict[int, Node] = {}
        nodes = interner.below(plan)
        self._alive = set(nodes)
        self._readers = Counter(id(each) for node in nodes.values() for each in node.inputs)
        self._budget = STEPS_PER_NODE * (len(nodes) + 10)

    def normal(self, node: Node) -> Node:
        """The node with rules applied to it and to all below."""
        done = self._done.get(id(node))
        if done is not None:
            return done
        now = node
        while True:
            now = self._over_normal_inputs(now)
            if id(now) in self._done:
                now = self._done[id(now)]
                break
            after = self._step(now)
            if after is None:
                self._done[id(now)] = now
                break
            now = after
        self._done[id(node)] = now
        if now is not node:
            self._readers[id(now)] += self._readers[id(node)]
            self._alive.add(id(now))
        return now

    def _over_normal_inputs(self, node: Node) -> Node:
        inputs = [self.normal(each) for each in node.inputs]
        if all(mine is theirs for mine, theirs in zip(inputs, node.inputs)):
            return node
        return self._interner.intern(rebuilt(node, inputs))

    def _step(self, node: Node) -> Node | None:
        for rule in rules_at(type(node), self._rules):
            found = rule(node)
            if found is None:
                continue
            after = self._interner.intern(found)
            if after is node or loses_points(node, after) or not self._pays(node, after):
                continue
            if columns_of(after.schema) != columns_of(node.schema):
                raise _changed(rule, node, after)
            self.steps.append(Step(rule.__name__, node.label, after.label))
            if len(self.steps) > self._budget:
                raise _endless(self.steps)
            return after
        return None

    def _pays(self, before: Node, after: Node) -> bool:
        """Whether what a step adds costs less than what can be left out because of it."""
        if not self._keep_shared:
            return True
        old, new = self._interner.below(before), self._interner.below(after)
        gone = [node for key, node in old.items() if key not in new and node is not before]
        shared = [node for node in gone if self._readers[id(node)] > 1]
        if not shared:
            return True
        staying = {id(node) for node in self._interner.reachable(*shared)}
        removed = [before, *(node for node in gone if id(node) not in staying)]
        added = [node for key, node in new.items() if key not in old and key not in self._alive]
        return self._model.sum(added).work < self._model.sum(removed).work


def loses_points(before: Node, after: Node) -> bool:
    """Whether it is no longer known that there are only points, which some windows ask for."""
    return before.properties.only_points and not after.properties.only_points


def _endless(steps: Sequence[Step]) -> EngineError:
    last = ", ".join(dict.fromkeys(step.rule for step in steps[-20:]))
    return EngineError(
        "the optimizer does not terminate",
        where=f"after {len(steps)} steps, the last of them by: {last}",
        hint="please report the query; it runs without the optimizer",
    )


def _changed(rule: Rule, before: Node, after: Node) -> EngineError:
    shown = [
        ", ".join(f"{name} {kind}" for name, kind in columns_of(it.schema))
        for it in (before, after)
    ]
    return EngineError(
        f"the rule {rule.__name__} changes the columns of a plan",
        where=f"{before.label}: {shown[0]}\n{after.label}: {shown[1]}",
        hint="please report the query; it runs without the optimizer",
    )
