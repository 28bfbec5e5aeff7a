"""With their revisions, answers are those over the corrected input, whatever came too late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.testing.strategies import points, streams
from tests.kernels.operators import OPERATORS, SHORT
from tests.kernels.plans import SCHEMA
from tests.revisions.histories import assert_revised, broken_promises

DIRECT = [
    name
    for name in OPERATORS
    if name
    not in {
        "session window",
        "count window",
        "split",
        "istream",
        "dstream",
        "rstream",
        "signed",
        "lifetime",
        "clip",
    }
]
POINTS_ONLY = {"time window with bounds", "session window", "count window"}


@pytest.mark.parametrize("name", DIRECT)
@given(data=st.data())
def test_late_inserts_are_revisions(name: str, data: st.DataObject) -> None:
    node = data.draw(OPERATORS[name])
    longest = 6 if name in SHORT else 40
    drawn = (
        points(SCHEMA, insert_only=True)
        if name in POINTS_ONLY
        else streams(SCHEMA, insert_only=True, longest=longest)
    )
    steps = data.draw(broken_promises(S=drawn, T=drawn))
    assert_revised(node, steps)
