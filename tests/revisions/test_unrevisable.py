"""Plans whose state cannot be exchanged are refused for sources that are corrected."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import AxisWindow, Hopping, Session
from anabranch.algebra.node import Node
from anabranch.model.time import Duration
from anabranch.runtime.plans.unrevisable import find_unrevisable
from tests.kernels.modules import PLAIN
from tests.kernels.plans import SOURCE
from tests.kernels.test_apply_operator import POINTS, call

GRID = Hopping(Duration(10), Duration(5))


@pytest.mark.parametrize(
    ("over", "window", "refused"),
    [(SOURCE, GRID, True), (POINTS, GRID, False), (SOURCE, Session(Duration(3)), False)],
)
def test_windows_that_shards_begin_at_different_times_are_refused(
    over: Node, window: AxisWindow, refused: bool
) -> None:
    node = ApplyOperator(input=over, window=window, calls=(call(PLAIN, 0, over),))
    for late, expected in (("revise", refused), ("drop", False)):
        source = SimpleNamespace(promise=SimpleNamespace(late=late))
        found = find_unrevisable(node, {"S": source})
        assert (found is not None) == expected
        assert found is None or "cannot be corrected when source 'S' is" in str(found)
