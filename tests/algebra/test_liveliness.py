"""What is said of windows: how far they are settled, when they are forgotten."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.language.modules import FOLLOWED_BY, HELD, MEDIAN, Small

from anabranch.algebra.analysis.ended_windows import only_ended
from anabranch.algebra.analysis.liveliness import cleanup, liveliness, warning
from anabranch.algebra.filter import Filter
from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import tumbling
from anabranch.algebra.modules.event_identity import events_in_words
from anabranch.algebra.source import Source
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.compile import compile_plan
from anabranch.model.time import Duration
from anabranch.optimizer.driver import optimize
from anabranch.runtime.plans.explanation import Explanation

SCHEMA = pa.schema([("value", pa.int64())])
EVENTS = Source(name="s", schema=SCHEMA)
POINTS = Source(name="s", schema=SCHEMA, only_points=True)


SOME_EVENT = (
    "the start of the earliest window that ends after the stable point, or has an event that ends "
    "there or later"
)


def windows(module: Small, over: Source = EVENTS, **options: Any) -> ApplyOperator:
    value = Expression.column("value", SCHEMA)
    bound = module.bind([value.type], [], {})
    calls = (Call(bound, (value,), tuple(bound.gives.names)),)
    return ApplyOperator(input=over, window=tumbling(Duration(5)), calls=calls, **options)


@pytest.mark.parametrize(
    ("module", "options", "settled"),
    [
        (MEDIAN, {}, "the start of the earliest window that ends after the stable point"),
        (MEDIAN, {"clip": "full"}, "the start of the earliest window that ends after"),
        (HELD, {}, SOME_EVENT),
        (HELD, {"clip": "left"}, SOME_EVENT),
        (HELD, {"clip": "right"}, "the end of the latest window that has ended by the stable"),
        (HELD, {"clip": "full"}, "the end of the latest window that has ended by the stable"),
        (FOLLOWED_BY, {"timestamps": "unchanged"}, SOME_EVENT),
        (FOLLOWED_BY, {"timestamps": "clip", "clip": "full"}, "the end of the latest window"),
        (FOLLOWED_BY, {"timestamps": "time_bound"}, "the stable point"),
    ],
)
def test_it_is_said_how_far_results_are_settled(
    module: Small, options: dict[str, Any], settled: str
) -> None:
    assert liveliness(windows(module, **options)).startswith(f"results are settled up to {settled}")


@pytest.mark.parametrize("clip", ["none", "left", "right", "full"])
def test_a_window_is_kept_for_its_events_only_where_their_ends_are_seen(clip: str) -> None:
    assert cleanup(windows(MEDIAN, clip=clip)).startswith(
        "a window is forgotten when it has ended by the stable point"
    )
    kept = "all its events have ended" in cleanup(windows(HELD, clip=clip))
    assert kept == (clip in ("none", "left"))


@pytest.mark.parametrize("clip", ["none", "left", "right", "full"])
def test_it_is_warned_of_windows_that_long_events_keep(clip: str) -> None:
    found = warning(windows(HELD, clip=clip))
    assert (found is not None) == (clip in ("none", "left"))
    assert found is None or "clip 'right' or 'full'" in found
    assert warning(windows(HELD, POINTS, clip=clip)) is None
    assert warning(windows(MEDIAN, clip=clip)) is None


def test_explain_says_all_of_it() -> None:
    node = windows(HELD)
    said = Explanation(
        written=node, optimized=optimize(node), physical=compile_plan(EVENTS), leaves="any"
    )
    events = f"Windows\n  {node.label}\n    {events_in_words(node.input)}\n"
    assert f"{events}    results are settled" in said.text()
    assert "    WARNING: held may see an end that lies after its window" in said.text()
    (found,) = said.json()["windows"]
    assert found["settled"] == liveliness(node)
    assert found["forgotten"] == cleanup(node)
    assert found["warning"] == warning(node)
    plain = Explanation(
        written=EVENTS, optimized=optimize(EVENTS), physical=compile_plan(EVENTS), leaves="any"
    )
    assert "Windows" not in plain.text()


def test_only_windows_that_have_ended_answer_under_watermark_emission() -> None:
    node = windows(MEDIAN, open_windows=True)
    above = Filter(input=node, predicate=Expression.parse("median > 3", node.schema))
    assert only_ended(above) == above.with_inputs(windows(MEDIAN))
    assert only_ended(windows(HELD)) == windows(HELD)


def test_watermark_emission_needs_windows_of_the_time_axis() -> None:
    with pytest.raises(PlanError, match="window of the time axis") as caught:
        compile_plan(EVENTS, emit="watermark")
    assert "TUMBLING" in caught.value.hint
