"""Every window, clip and timestamp with modules of every shape: exactly what has to leave does."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Session,
    Snapshot,
    tumbling,
)
from anabranch.algebra.modules.user_operator import UserOperator
from anabranch.expressions.expression import Expression
from anabranch.model.batch import EventBatch
from anabranch.model.time import Duration
from anabranch.testing import batchings, streams
from tests.kernels.module_told import assert_told
from tests.kernels.modules import AGGREGATES, FRAMES, OPERATORS, STARTS
from tests.kernels.plans import SCHEMA, SOURCE
from tests.kernels.test_apply_operator import call, has_few_windows

WINDOWS: dict[str, AxisWindow] = {
    "hopping": Hopping(Duration(5), Duration(2), 1),
    "hopping with gaps": Hopping(Duration(2), Duration(5)),
    "tumbling": tumbling(Duration(4)),
    "snapshot": Snapshot(),
    "count by start": CountByStart(2),
    "count by end": CountByEnd(2),
    "session": Session(Duration(3)),
}
SHAPES = {module.name: module for module in [*AGGREGATES, *FRAMES, *OPERATORS]}
FEW = settings(max_examples=max(settings().max_examples // 12, 1))
"""Streams per window and shape; each goes through all clips and timestamps."""


def policies(window: AxisWindow, module: UserOperator) -> list[dict[str, Any]]:
    """All clips and timestamps that a module can have in a window."""
    timestamps = ["align"]
    if module.own_times:
        timestamps += ["unchanged", "clip"]
        # Windows that count appear late, with results from long ago.
        counts = isinstance(window, CountByStart | CountByEnd)
        timestamps += ["time_bound"] if module is STARTS and not counts else []
    clips = ["none", "left", "right", "full"] if module.time_sensitive else ["none", "full"]
    return [{"clip": clip, "timestamps": each} for clip, each in product(clips, timestamps)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("window", WINDOWS)
@FEW
@given(data=st.data())
def test_a_module_answers_in_every_window(window: str, shape: str, data: st.DataObject) -> None:
    came: list[EventBatch] = data.draw(streams(SCHEMA, max_size=10).flatmap(batchings))
    keys = data.draw(st.sampled_from([(), ("k",)]))
    options: dict[str, Any] = {"open_windows": data.draw(st.booleans())}
    if WINDOWS[window].on_grid and SHAPES[shape].frame == "python":
        options["empty"] = data.draw(st.booleans())
    group_by = tuple((key, Expression.parse(key, SCHEMA)) for key in keys)
    for policy in policies(WINDOWS[window], SHAPES[shape]):
        node = ApplyOperator(
            input=SOURCE,
            window=WINDOWS[window],
            calls=(call(SHAPES[shape]),),
            group_by=group_by,
            **policy,
            **options,
        )
        assume(has_few_windows(node, came))
        assert_told(node, came)
