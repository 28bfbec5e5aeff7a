"""A query that ends because its disk refuses says so, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.kernels.plans import SOURCE, aggregate

from anabranch.kernels.plan.compile import compile_plan
from anabranch.runtime.measure.measurements import Measurements
from anabranch.runtime.store.query_statistics import QueryStatistics


def test_statistics_that_cannot_be_kept_do_not_hide_why_a_query_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder can be made here")
    plan = compile_plan(aggregate(SOURCE, ("k",), "n"))
    before = replace(QueryStatistics(), batches=1)
    Measurements(str(blocked / "checkpoint"), plan, before=before).close()
    assert "could not be kept" in caplog.text
