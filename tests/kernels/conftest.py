from __future__ import annotations

import pytest

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.join import both_moved, interval_trace
from anabranch.kernels.trace import runs


@pytest.fixture(params=["many runs", "few runs, compiled loops", "one run"])
def eagerness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small traces are merged at every step; without that, several runs must be read together.

    Large batches go through compiled loops, and what a join looks at comes in blocks.
    """
    if request.param != "few runs, compiled loops":
        # Also where another test has loaded compiled loops, their twins in numpy are tested.
        monkeypatch.setattr(columns, "_is_loaded", lambda: False)
    if request.param == "many runs":
        monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", 0)
        monkeypatch.setattr(interval_trace, "BLOCK_ROWS", 2)
    elif request.param != "one run":
        monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", 4)
        monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", 0)
        monkeypatch.setattr(interval_trace, "COMPARED_UP_TO_ROWS", 2)
        monkeypatch.setattr(both_moved, "COMPARED_UP_TO_MOVES", 2)
