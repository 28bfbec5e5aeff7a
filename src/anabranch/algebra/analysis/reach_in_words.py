"""The reach of a change in words, for `explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd, lcm
from typing import Final, final

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.analysis.reach import affected, needed
from anabranch.algebra.analysis.spans import NOTHING, Span, hull, moved
from anabranch.algebra.clip import Clip
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Hopping
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.model.clock import Clock
from anabranch.model.time import BEGINNING, FOREVER, Time

MOST_PROBES: Final = 2_000
"""A plan whose grids meet more seldom than that is probed at these instants only."""

_NEAR: Final = 3
"""So many chronons around an instant of a grid: where a slide ends, and one more is looked at."""


@final
@dataclass(frozen=True, slots=True)
class InstantReach:
    """The reach of a change of one instant t, for any t: on grids, the longest.

    Attributes:
        answers: The answers that it can change, relative to t.
        inputs: Per source, the input that decides them, relative to t.
        widths: Per source, how long a stretch of it is needed at most; FOREVER without a bound.
    """

    answers: Span
    inputs: Mapping[str, Span]
    widths: Mapping[str, int]


def describe_reach(node: Node, source: str, clock: Clock) -> str:
    """How far a change of one instant reaches, and which input decides what it changes.

    Relative to the instant, for any instant: on grids the reach depends on where in a slide the
    instant is, and the longest counts. Bounds of clips are left out.
    """
    found = reach_of_instant(node, source)
    if found.answers == NOTHING:
        return f"a change of {source} reaches no answer"
    wanted = ", ".join(_needs(name, over, clock) for name, over in sorted(found.inputs.items()))
    return f"a change of {source} at t reaches {_reaches(found.answers, clock)} and needs {wanted}"


def reach_of_instant(node: Node, source: str) -> InstantReach:
    """How far a change of one instant reaches, and what it needs, relative to the instant."""
    plan = _without_clips(node, {})
    reach: Span = NOTHING
    needs: dict[str, Span] = {}
    widths: dict[str, int] = {}
    for at in _probes(plan):
        here = affected(plan, source, (Time(at), Time(at + 1)))
        if here == NOTHING:
            continue
        reach = hull([reach, moved(here, first=-at, last=-at)])
        for name, over in needed(plan, here).items():
            if over != NOTHING:
                there = moved(over, first=-at, last=-at)
                needs[name] = hull([needs.get(name, NOTHING), there])
                is_bounded = over[0] != BEGINNING and over[1] != FOREVER
                width = over[1] - over[0] if is_bounded else int(FOREVER)
                widths[name] = max(widths.get(name, 0), width)
    return InstantReach(reach, needs, widths)


def about(duration: int, clock: Clock) -> str:
    """A duration in words; one chronon less than five minutes is shown as five minutes."""
    return min((clock.format_duration(duration + more) for more in range(_NEAR)), key=len)


def _reaches(reach: Span, clock: Clock) -> str:
    first, last = reach
    if reach == (0, 1):
        return "the answers at t"
    if first == BEGINNING and last == FOREVER:
        return "all answers"
    if first == BEGINNING:
        return f"the answers up to {_instant(last, clock)}"
    if last == FOREVER:
        return f"the answers from {_instant(first, clock)} to the newest row"
    return f"the answers of [{_instant(first, clock)}, {_instant(last, clock)})"


def _needs(name: str, over: Span, clock: Clock) -> str:
    first, last = over
    if over == (0, 1):
        return f"{name} at t"
    if first == BEGINNING and last == FOREVER:
        return f"all of {name}"
    start = "the oldest row" if first == BEGINNING else _instant(first, clock)
    end = "the newest row" if last == FOREVER else _instant(last, clock)
    return f"{name} from {start} to {end}"


def _instant(offset: int, clock: Clock) -> str:
    """`t`, `t - 5m`."""
    if not offset:
        return "t"
    return f"t {'-' if offset < 0 else '+'} {about(abs(offset), clock)}"


def _without_clips(node: Node, found: dict[int, Node]) -> Node:
    if id(node) not in found:
        inputs = tuple(_without_clips(each, found) for each in node.inputs)
        same = all(new is old for new, old in zip(inputs, node.inputs))
        kept = node if same else node.with_inputs(*inputs)
        found[id(node)] = inputs[0] if isinstance(node, Clip) else kept
    return found[id(node)]


def _probes(plan: Node) -> Iterator[int]:
    """Instants among which the reach is longest: those near the instants of all grids.

    The bounds of a reach are sums of lengths, rounded to grids. They jump where such a sum meets
    a grid, and after the least common multiple of all grids everything repeats.
    """
    grids, lengths = [1], [0]
    for node in plan.walk():
        match node:
            case TimeWindow(size=size, slide=slide):
                grids.append(slide)
                lengths.append(size)
            case WeightedWindow(size=size, slide=slide, granule=granule):
                grids += [slide, granule]
                lengths.append(size)
            case Granularity(granule=granule):
                grids.append(granule)
            case Shift(by=by):
                lengths.append(by)
            case AlterLifetime(duration=duration, extend=extend, at_most=at_most):
                lengths.append(duration or extend or at_most or 0)
            case ApplyOperator(window=Hopping(size=size, hop=hop, offset=offset)):
                grids.append(hop)
                lengths += [size, offset]
    coarse = [grid for grid in grids if grid > 1]
    period = lcm(*coarse)
    step = gcd(*coarse, *(length for length in lengths if length < FOREVER)) or 1
    for number in range(min(-(-period // step), MOST_PROBES)):
        yield from (number * step + near for near in range(-_NEAR, _NEAR + 1))
