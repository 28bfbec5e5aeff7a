"""The reach of a plan holds by its meaning: nothing outside of it depends on a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.modules import EACH, LIFETIMES, ORDERED, PLAIN, STARTS, TIMED, module
from tests.kernels.operators import OPERATORS, OTHER, POINTS, over, sizes
from tests.kernels.plans import SCHEMA, SOURCE, aggregate
from tests.kernels.test_apply_operator import BOUNDS, call, nodes
from tests.kernels.test_event_identity import INPUTS, SNAPSHOTS, modules

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.analysis.node_reach import keeps_instants, reached, taken
from anabranch.algebra.analysis.reach import affected, needed
from anabranch.algebra.analysis.spans import EVERYTHING, NOTHING, Span, hull, moved, span
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.merge import Merge
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import AxisWindow, Hopping, Snapshot, tumbling
from anabranch.algebra.modules.results import Clip as EventClip
from anabranch.algebra.modules.user_operator import Code, Result, UserOperator, Window
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream, Payload
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing.oracle import meaning, sources_of
from anabranch.testing.strategies import TODAY

PAYLOADS: Final[list[Payload]] = [("a", 1, 0.5), ("a", 2, 1.5), ("b", 1, None), (None, None, 0.5)]
SPREAD: Final = 14

lengths = st.one_of(sizes, sizes, st.just(UNBOUNDED))


def cut(rows: LogicalStream, over: Span) -> LogicalStream:
    """What holds in a span."""
    first, last = over
    return LogicalStream.of(
        (payload, max(start, first), min(end, last))
        for payload, start, end in rows.events()
        if start < last and end > first
    )


def outside(rows: LogicalStream, over: Span, before: int = FOREVER) -> list[LogicalStream]:
    """What holds before a span, and what holds after it."""
    if over == NOTHING:
        over = (Time(before), Time(before))
    return [cut(rows, span(BEGINNING, min(over[0], before))), cut(rows, span(over[1], before))]


def spliced(rows: LogicalStream, inside: LogicalStream, over: Span) -> LogicalStream:
    """A stream that is another one in a span."""
    return cut(inside, over).union(*outside(rows, over))


def origins() -> st.SearchStrategy[int]:
    return st.sampled_from([0, 0, 0, -6, TODAY, FOREVER - SPREAD - 2, BEGINNING + 1])


@st.composite
def logical(draw: st.DrawFn, origin: int, *, points: bool) -> LogicalStream:
    """A few lifetimes from an instant on, some without end."""
    ends = st.just(1) if points else st.one_of(*[st.integers(1, 9)] * 5, st.just(int(FOREVER)))
    events = st.tuples(st.sampled_from(PAYLOADS), st.integers(origin, origin + SPREAD), ends)
    drawn = draw(st.lists(events, max_size=7))
    return LogicalStream.of(
        (payload, start, FOREVER if length == FOREVER else min(start + length, FOREVER))
        for payload, start, length in drawn
    )


@st.composite
def spans(draw: st.DrawFn, origin: int) -> Span:
    """Short ones between lifetimes, seldom without a bound."""
    near = st.integers(origin - 3, origin + SPREAD + 9)
    first = draw(st.one_of(*[near] * 6, st.just(int(BEGINNING))))
    last = first + draw(st.integers(1, 9)) if first > BEGINNING else draw(near)
    return span(first, draw(st.one_of(*[st.just(last)] * 6, st.just(int(FOREVER)))))


def assert_reach(
    node: Node,
    data: st.DataObject,
    origin: int,
    stable: int = BEGINNING,
    before: int = FOREVER,
) -> None:
    """No answer outside of the reach of a change changes, and none depends on other input."""
    points = {each.name: each.only_points for each in sources_of(node)}
    one, two = (
        {name: data.draw(logical(origin, points=each)) for name, each in points.items()}
        for _ in range(2)
    )
    within = data.draw(spans(origin))
    answer = meaning(node, one, stable=stable)
    for name in points:
        changed = {**one, name: spliced(one[name], two[name], within)}
        reach = affected(node, name, within)
        assert outside(meaning(node, changed, stable=stable), reach, before) == outside(
            answer, reach, before
        ), f"a change of {name} in {within} reaches more than {reach}"
    wanted = needed(node, within)
    assert wanted.keys() == points.keys()
    other = {name: spliced(two[name], one[name], wanted[name]) for name in points}
    shown = span(within[0], min(within[1], before))
    assert cut(meaning(node, other, stable=stable), shown) == cut(answer, shown), (
        f"the answers of {within} depend on more than {wanted}"
    )


MORE: Final[Mapping[str, st.SearchStrategy[Node]]] = {
    "presence window": over(TimeWindow, size=sizes, slide=sizes, presence=st.just(True)),
    "unbounded window": st.builds(
        TimeWindow, input=st.just(POINTS), size=st.just(UNBOUNDED), slide=sizes
    ),
    "weighted window": over(
        WeightedWindow,
        size=sizes,
        slide=sizes,
        granule=sizes,
        weight=st.just("weight"),
        powers=st.booleans(),
    ),
    "clip to an end": over(Clip, end=st.integers(-2, 9).map(Time)),
    "clip to both": st.integers(-2, 9).map(
        lambda first: Clip(input=SOURCE, start=Time(first), end=Time(first + 4))
    ),
    "duration": over(AlterLifetime, duration=lengths),
    "extend": over(AlterLifetime, extend=st.one_of(lengths, st.just(Duration(0)))),
    "at most": over(AlterLifetime, at_most=lengths),
    "merge": st.just(Merge(inputs=(SOURCE, OTHER))),
    "far shift": over(Shift, by=st.sampled_from([-(2**62), 2**62, int(FOREVER) - 1])),
}
CASES: Final = {**OPERATORS, **MORE}


@given(st.data())
@pytest.mark.parametrize("name", CASES)
def test_no_answer_outside_of_its_reach_depends_on_a_change(name: str, data: st.DataObject) -> None:
    assert_reach(data.draw(CASES[name]), data, data.draw(origins()))


def of(text: str, node: Node) -> Expression:
    return Expression.parse(text, node.schema)


def points_of(node: Node) -> Node:
    return ToStream(input=node, kind="insertions")


STEPS: Final[Mapping[str, Callable[[Node, int, int], Node]]] = {
    "filter": lambda node, n, _: Filter(input=node, predicate=of(f"v > {n % 2}", node)),
    "map": lambda node, n, _: Map(
        input=node, columns=tuple((name, of(name, node)) for name in SCHEMA.names)
    ),
    "distinct": lambda node, n, _: Distinct(input=node),
    "first": lambda node, n, _: TopK(input=node, k=n, order_by=((of("v", node), True, False),)),
    "window": lambda node, n, m: TimeWindow(input=node, size=Duration(n), slide=Duration(m)),
    "granularity": lambda node, n, _: Granularity(input=node, granule=Duration(n)),
    "shift": lambda node, n, m: Shift(input=node, by=n - m),
    "clip": lambda node, n, m: Clip(input=node, start=Time(n), end=Time(n + 2 * m)),
    "duration": lambda node, n, _: AlterLifetime(input=node, duration=Duration(n)),
    "extend": lambda node, n, _: AlterLifetime(input=node, extend=Duration(n)),
    "at most": lambda node, n, _: AlterLifetime(input=node, at_most=Duration(n)),
    "istream": lambda node, n, _: ToStream(input=node, kind="insertions"),
    "dstream": lambda node, n, _: ToStream(input=node, kind="deletions"),
    "signed": lambda node, n, _: FromSigned(input=ToSigned(input=node)),
    "rows": lambda node, n, m: CountWindow(
        input=points_of(node), rows=n, slide=m, order_by=(of("v", node),)
    ),
    "session": lambda node, n, _: SessionWindow(input=points_of(node), gap=Duration(n)),
}
BINARY: Final = ("union", *get_args(SetKind), "semi", "anti", "inner")


@st.composite
def chains(draw: st.DrawFn, most: int = 4) -> Node:
    """Two to four operators over two sources, with the columns of the sources."""
    node: Node = draw(st.sampled_from([SOURCE, OTHER]))
    for _ in range(draw(st.integers(min(2, most), most))):
        step = draw(st.sampled_from([*STEPS, *BINARY]))
        if step in STEPS:
            node = STEPS[step](node, draw(st.integers(1, 5)), draw(st.integers(1, 5)))
            continue
        other = draw(chains(1))
        if step == "union":
            node = Union(inputs=(node, other))
        elif step in get_args(SetKind):
            node = SetOperation(kind=step, left=node, right=other)
        else:
            node = joined(step, node, other)
    return node


def joined(kind: JoinKind, left: Node, right: Node) -> Node:
    columns = tuple((f"{name}2", of(name, right)) for name in SCHEMA.names)
    renamed = Map(input=right, columns=columns)
    found = Join(kind=kind, left=left, right=renamed)
    found = Join(
        kind=kind, left=left, right=renamed, predicate=Expression.parse("v = v2", found.both)
    )
    return found if kind != "inner" else STEPS["map"](found, 1, 1)


@given(st.data(), chains())
def test_it_holds_for_composed_plans(data: st.DataObject, node: Node) -> None:
    assert_reach(node, data, data.draw(origins()))


def axis(
    window: AxisWindow, operator: UserOperator = PLAIN, over: Node = POINTS, **options: Any
) -> Node:
    return ApplyOperator(input=over, window=window, calls=(call(operator),), **options)


class Lasting(Code):
    """Every value, from the window on and for a while after it."""

    can_migrate = False

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        end = min(window.end + 5, int(FOREVER))
        return [((f"{value}",), window.start, end) for value in columns[0]]


LASTING: Final = module("lasting", Lasting(), kind="udo", time_sensitive=True, own_times=True)
AXIS: Final[Mapping[str, tuple[UserOperator, dict[str, Any]]]] = {
    "values": (PLAIN, {}),
    "values with bounds": (PLAIN, {"columns": BOUNDS}),
    "values of groups": (EACH, {"group_by": (("k", Expression.parse("k", SCHEMA)),)}),
    "values in order": (ORDERED, {}),
    "empty windows": (PLAIN, {"empty": True}),
    **{f"lifetimes with clip {clip}": (TIMED, {"clip": clip}) for clip in get_args(EventClip)},
    **{f"results {when}": (LIFETIMES, {"timestamps": when}) for when in ("unchanged", "clip")},
    "results after the window": (LASTING, {"clip": "full", "timestamps": "unchanged"}),
    "results from the start of events": (STARTS, {"timestamps": "time_bound"}),
}


@given(st.data())
@pytest.mark.parametrize("source", [SOURCE, POINTS], ids=["lifetimes", "points"])
@pytest.mark.parametrize("name", AXIS)
def test_it_holds_for_what_modules_see(name: str, source: Source, data: st.DataObject) -> None:
    operator, options = AXIS[name]
    grids = st.builds(Hopping, sizes, sizes, st.integers(-2, 2))
    window = data.draw(grids if "empty" in options else st.one_of(grids, st.just(Snapshot())))
    node = axis(window, operator, source, **options)
    origin = data.draw(st.sampled_from([0, -9]))
    # Windows that the stable point has not passed come and go with the last row of their group.
    assert_reach(node, data, origin, origin + 50, origin + 36)


@given(st.data())
@pytest.mark.parametrize("source", [SOURCE, POINTS], ids=["lifetimes", "points"])
def test_it_holds_for_windows_of_the_time_axis(source: Source, data: st.DataObject) -> None:
    origin = data.draw(st.sampled_from([0, -9, TODAY]))
    assert_reach(data.draw(nodes(source)), data, origin, origin + 70, origin + 45)


@given(st.data())
@pytest.mark.parametrize("name", [*INPUTS, *SNAPSHOTS])
def test_it_holds_for_windows_of_the_time_axis_over_other_windows(
    name: str, data: st.DataObject
) -> None:
    node = data.draw(modules({**INPUTS, **SNAPSHOTS}[name]))
    assert_reach(node, data, 0, 90, 60)


def test_a_relation_that_changes_moves_the_cuts_of_results() -> None:
    relation = Source(name="R", schema=pa.schema([("r", pa.int64())]), relation=True)
    seen = Join(kind="semi", left=windowed(20, 2), right=relation)
    node = ApplyOperator.over(seen, window=tumbling(Duration(2)), calls=(call(PLAIN),))
    # Results are cut every two instants, from where they begin: at 12 if R was not there at 11.
    point = LogicalStream.of([(PAYLOADS[0], 1, 2)])
    always = LogicalStream.of([((1,), 0, 30)])
    later = spliced(always, LogicalStream(), (Time(11), Time(12)))
    one, two = (meaning(node, {"S": point, "R": each}) for each in (always, later))
    assert one.snapshot(16) != two.snapshot(16)
    assert affected(node, "R", (Time(11), Time(12))) == EVERYTHING


def windowed(size: int, slide: int = 1) -> Node:
    return TimeWindow(input=POINTS, size=Duration(size), slide=Duration(slide))


TENS: Final = tumbling(Duration(10))


@pytest.mark.parametrize(
    ("node", "reach", "need"),
    [
        (aggregate(POINTS, ("k",), "s"), (12, 13), (12, 13)),
        (aggregate(windowed(10), ("k",), "s"), (12, 22), (3, 22)),
        (windowed(10, 10), (19, 29), (10, 20)),
        (windowed(2, 10), (19, 19), (0, 0)),
        (Granularity(input=POINTS, granule=Duration(6)), (12, 18), (12, 13)),
        (Shift(input=POINTS, by=-5), (7, 8), (12, 13)),
        (Clip(input=POINTS, start=Time(13)), (0, 0), (0, 0)),
        (AlterLifetime(input=SOURCE, duration=Duration(4)), (12, 17), (8, 17)),
        (ToStream(input=SOURCE, kind="insertions"), (12, 14), (11, 14)),
        (ToStream(input=SOURCE, kind="deletions"), (11, 13), (11, 14)),
        (axis(TENS), (10, 20), (10, 20)),
        (axis(TENS, TIMED), (10, 20), (10, 20)),
        (axis(TENS, TIMED, over=SOURCE, clip="full"), (10, 20), (10, 20)),
        (axis(Hopping(Duration(10), Duration(5))), (5, 20), (0, 25)),
        (axis(Snapshot(), over=SOURCE), (12, 13), (12, 13)),
    ],
)
def test_the_reach_is_no_longer_than_it_has_to_be(
    node: Node, reach: tuple[int, int], need: tuple[int, int]
) -> None:
    found = affected(node, "S", (Time(12), Time(13)))
    assert found == span(*reach)
    assert needed(node, found) == {"S": span(*need)}


@given(sizes, sizes, st.integers(-40, 40))
def test_a_window_reaches_at_most_its_size_and_a_slide(size: int, slide: int, at: int) -> None:
    node = windowed(size, slide)
    first, last = affected(node, "S", (Time(at), Time(at + 1)))
    assert last - first <= size + slide
    first, last = needed(node, (Time(at), Time(at + 1)))["S"]
    assert last - first == size
    assert at - size - slide < first
    assert last <= at + 1


@pytest.mark.parametrize(
    ("node", "reach", "need"),
    [
        (SessionWindow(input=POINTS, gap=Duration(3)), EVERYTHING, EVERYTHING),
        (axis(TENS, empty=True), (10, FOREVER), (BEGINNING, 20)),
        (axis(TENS, TIMED, over=SOURCE), EVERYTHING, EVERYTHING),
        (axis(TENS, ORDERED, over=SOURCE), (10, FOREVER), (BEGINNING, 20)),
        (axis(TENS, TIMED, over=SOURCE, clip="left"), (BEGINNING, 20), (10, FOREVER)),
        (axis(TENS, TIMED, over=SOURCE, clip="right"), (10, FOREVER), (BEGINNING, 20)),
        (axis(Snapshot(), over=SOURCE, columns=BOUNDS), EVERYTHING, EVERYTHING),
        (CountWindow(input=POINTS, rows=3), (12, FOREVER), (BEGINNING, 13)),
    ],
)
def test_what_depends_on_data_reaches_as_far_as_there_are_rows(
    node: Node, reach: tuple[int, int], need: tuple[int, int]
) -> None:
    at = (Time(12), Time(13))
    assert affected(node, "S", at) == reach
    assert needed(node, at) == {"S": need}


def test_a_source_that_is_read_twice_reaches_what_both_reach() -> None:
    node = Union(inputs=(windowed(5), Shift(input=POINTS, by=20)))
    assert affected(node, "S", (Time(0), Time(1))) == (0, 21)
    assert needed(node, (Time(0), Time(1))) == {"S": (-20, 1)}
    assert affected(node, "T", (Time(0), Time(1))) == NOTHING


@given(st.data())
@pytest.mark.parametrize("name", CASES)
def test_an_unbounded_change_reaches_an_unbounded_stretch(name: str, data: st.DataObject) -> None:
    node = data.draw(CASES[name])
    assert reached(node, NOTHING) == taken(node, NOTHING) == NOTHING
    for found in (reached(node, EVERYTHING), taken(node, EVERYTHING)):
        assert found == EVERYTHING or any(isinstance(each, Clip) for each in node.walk())
    if keeps_instants(node) and not isinstance(node, Clip):
        assert reached(node, (Time(3), Time(5))) == (3, 5)


def test_spans_stay_in_time() -> None:
    assert moved((Time(3), FOREVER), first=-5, last=-5) == (-2, FOREVER)
    assert moved((BEGINNING, Time(3)), first=5, last=5) == (BEGINNING, 8)
    assert moved((Time(FOREVER - 3), Time(FOREVER - 1)), first=1, last=9) == (FOREVER - 2, FOREVER)
    assert hull([NOTHING, NOTHING]) == NOTHING
