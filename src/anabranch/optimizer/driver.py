"""Apply rules until none applies, then look for plans that cost less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from anabranch.algebra.analysis.determinism import by_chance
from anabranch.algebra.node import Node
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.interning import Interner
from anabranch.optimizer.join_order import reorder_joins
from anabranch.optimizer.leaves import cut_off, leaf_for
from anabranch.optimizer.normalizer import Normalizer, Step, loses_points
from anabranch.optimizer.rebuilding import rebuilt
from anabranch.optimizer.rules import ALTERNATIVES, EVERYWHERE, ROOTS, RULES, Rule
from anabranch.optimizer.statistics import PlanStatistics, Statistics
from anabranch.optimizer.window_placement import push_windows_to_share

LEAST_GAIN: Final = 1 - 1e-6
"""Another plan must cost less than this part of what the plan costs now."""


@final
@dataclass(frozen=True, slots=True)
class Optimized:
    """A plan that means the same, and how it was found.

    Attributes:
        node: The plan.
        steps: The rules in order of application, with the operator they began with and the one
            they put in its place.
    """

    node: Node
    steps: tuple[Step, ...]


class Candidate(NamedTuple):
    """A plan to be compared, by the name of what led to it."""

    name: str
    before: Node
    after: Node
    plan: Node
    share: bool = True


def optimize(
    node: Node,
    *,
    statistics: Statistics | PlanStatistics | None = None,
    rules: Sequence[Rule] = RULES,
    alternatives: Sequence[Rule] = ALTERNATIVES,
) -> Optimized:
    """A plan with the same meaning and schema that costs less.

    A function that is not deterministic is a barrier: what is above it and what is below it are
    optimised each by itself, so that it sees the rows that it was written for, once.

    The rules are applied until none applies. Then other orders of joins, other places of windows
    and the alternatives are tried, and what costs less is taken, until nothing does.

    Args:
        node: The plan.
        statistics: Per source what is known of it; the rest is guessed.
        rules: What always helps.
        alternatives: What the cost model decides on.

    Raises:
        EngineError: The rules do not come to an end, or one changes the columns of the plan.
    """
    leaves: dict[Node, Node] = {}
    back: dict[Node, Node] = {}
    below: list[Step] = []
    for wall in _walls(node):
        under = [
            optimize(each, statistics=statistics, rules=rules, alternatives=alternatives)
            for each in wall.inputs
        ]
        below += [step for each in under for step in each.steps]
        leaves[wall] = leaf_for(wall, f"barrier {len(leaves) + 1}")
        back[leaves[wall]] = wall.with_inputs(*(each.node for each in under))
    found = _optimized(cut_off(node, leaves), statistics, rules, alternatives)
    return Optimized(cut_off(found.node, back), (*below, *found.steps))


def _walls(node: Node) -> Iterator[Node]:
    """The topmost operators with a function that is not deterministic, each once."""
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if by_chance(each) is None:
            waiting += each.inputs
        elif each not in seen:
            seen.add(each)
            yield each


def _optimized(
    node: Node,
    statistics: Statistics | PlanStatistics | None,
    rules: Sequence[Rule],
    alternatives: Sequence[Rule],
) -> Optimized:
    interner = Interner()
    model = CostModel(statistics, interner)
    normalizer = Normalizer(interner, model, rules)
    plan, steps = normalizer.run(interner.intern(node))
    improving = True
    while improving:
        improving, limit = False, None
        for candidate in _candidates(plan, interner, model, alternatives):
            found, more = normalizer.run(candidate.plan, keep_shared=candidate.share)
            # Most plans have no candidates, and need no price.
            limit = model.total(plan).weight * LEAST_GAIN if limit is None else limit
            if model.total(found).weight < limit:
                step = Step(candidate.name, candidate.before.label, candidate.after.label)
                plan, steps, improving = found, [*steps, step, *more], True
                break
    return Optimized(plan, tuple(steps))


def _candidates(
    plan: Node, interner: Interner, model: CostModel, alternatives: Sequence[Rule]
) -> Iterator[Candidate]:
    nodes = list(reversed(interner.reachable(plan)))
    for before in nodes:
        yield from _candidate("reorder_joins", before, reorder_joins(before, model), plan, interner)
    for rule in alternatives:
        for before in nodes:
            if not isinstance(before, ROOTS.get(rule, EVERYWHERE)):
                continue
            yield from _candidate(rule.__name__, before, rule(before), plan, interner)
    shared = {id(node) for node in nodes}
    for before in nodes:
        after = push_windows_to_share(before, lambda node: id(interner.intern(node)) in shared)
        yield from _candidate("push_windows_to_share", before, after, plan, interner)
    readers = Counter(id(each) for node in nodes for each in node.inputs)
    # Where no node has two readers, the normalizer has kept nothing for the sake of sharing.
    if any(count > 1 for count in readers.values()):
        yield Candidate("give_up_sharing", plan, plan, plan, share=False)


def _candidate(
    name: str, before: Node, after: Node | None, plan: Node, interner: Interner
) -> Iterator[Candidate]:
    if after is not None and not loses_points(before, after):
        after = interner.intern(after)
        yield Candidate(name, before, after, _replaced(plan, before, after, interner))


def _replaced(plan: Node, before: Node, after: Node, interner: Interner) -> Node:
    """A plan with one node replaced wherever it occurs."""
    new: dict[int, Node] = {id(before): after}
    for node in interner.reachable(plan):
        if id(node) in new:
            continue
        inputs = [new[id(each)] for each in node.inputs]
        same = all(mine is theirs for mine, theirs in zip(inputs, node.inputs))
        new[id(node)] = node if same else interner.intern(rebuilt(node, inputs))
    return new[id(plan)]
