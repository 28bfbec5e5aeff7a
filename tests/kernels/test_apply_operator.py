"""Windows of the time axis mean what their node says, for any module and any batches."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Session,
    Snapshot,
)
from anabranch.algebra.modules.user_operator import UserOperator
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Duration
from anabranch.testing import (
    PhysicalStream,
    adjust,
    assert_agrees,
    batchings,
    insert,
    points,
    stable,
    streams,
)
from tests.kernels.modules import AGGREGATES, EACH, LIFETIMES, STARTS
from tests.kernels.plans import SCHEMA, SOURCE

BOUNDS = ("window_start", "window_end")
POINTS = Source(name="S", schema=SCHEMA, only_points=True)


def call(module: UserOperator, number: int = 0, over: Node = SOURCE) -> Call:
    return Call(module, (Expression.parse("v", over.schema),), (f"said{number}",))


def windows() -> st.SearchStrategy[AxisWindow]:
    sizes = st.integers(1, 12).map(Duration)
    return st.one_of(
        st.builds(Hopping, sizes, sizes, st.integers(-5, 5)),
        st.builds(Hopping, sizes, sizes),
        sizes.map(lambda size: Hopping(size, size)),
        st.just(Snapshot()),
        st.builds(CountByStart, st.integers(1, 4)),
        st.builds(CountByEnd, st.integers(1, 4)),
        st.builds(Session, sizes),
    )


@st.composite
def nodes(draw: st.DrawFn, over: Node) -> ApplyOperator:
    window = draw(windows())
    clip = draw(st.sampled_from(["none", "left", "right", "full"]))
    options: dict[str, Any] = {
        "window": window,
        "clip": clip,
        "columns": draw(st.sampled_from([None, BOUNDS])),
        "open_windows": draw(st.booleans()),
    }
    if draw(st.integers(0, 2)):
        modules = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=2))
    else:
        modules = [draw(st.sampled_from([EACH, LIFETIMES, STARTS]))]
        if modules[0].own_times:
            allowed = ["align", "unchanged", "clip"]
            # Windows that count appear late, with results from long ago.
            counts = isinstance(window, CountByStart | CountByEnd)
            allowed += ["time_bound"] if modules[0] is STARTS and not counts else []
            options["timestamps"] = draw(st.sampled_from(allowed))
    if window.on_grid and all(module.frame == "python" for module in modules):
        options["empty"] = draw(st.booleans())
    keys = draw(st.sampled_from([(), (), ("k",), ("v % 2", "k")]))
    group_by = tuple((f"g{n}", Expression.parse(key, over.schema)) for n, key in enumerate(keys))
    calls = tuple(call(module, number, over) for number, module in enumerate(modules))
    return ApplyOperator(input=over, calls=calls, group_by=group_by, **options)


def has_few_windows(node: ApplyOperator, came: list[EventBatch]) -> bool:
    """What never ends, and empty windows, fill a grid as far as time goes."""
    if not node.window.on_grid:
        return True
    times = [batch.stable for batch in came]
    for batch in came:
        times += [*batch.start.tolist(), *batch.end.tolist(), *batch.new_end.tolist()]
    finite = [time for time in times if BEGINNING < time < FOREVER]
    return not finite or max(finite) - min(finite) < 200


@given(nodes(SOURCE), streams(SCHEMA).flatmap(batchings))
def test_modules_answer_for_windows_of_lifetimes(
    node: ApplyOperator, came: list[EventBatch]
) -> None:
    assume(has_few_windows(node, came))
    assert_agrees(node, came)


@given(nodes(POINTS), points(SCHEMA).flatmap(batchings))
def test_modules_answer_for_windows_of_points(node: ApplyOperator, came: list[EventBatch]) -> None:
    assume(has_few_windows(node, came))
    assert_agrees(node, came)


def test_what_never_ends_is_looked_at_up_to_the_last_instant_there_is() -> None:
    (listing,) = (each for each in AGGREGATES if each.name == "listing")
    window, last = Hopping(Duration(1), Duration(5), 4), int(FOREVER)
    node = ApplyOperator(input=SOURCE, calls=(call(listing),), window=window, empty=True)
    elements = (
        insert(None, 1, None, start=last - 6),
        insert(None, None, None, start=last - 1),
        stable(last - 6),
        stable(last - 4),
        adjust(None, 1, None, start=last - 6, end=last, new_end=last - 4),
        adjust(None, 1, None, start=last - 6, end=last - 4, new_end=last),
        stable(last),
    )
    assert_agrees(node, PhysicalStream(SCHEMA, elements).batches(3, 4))
