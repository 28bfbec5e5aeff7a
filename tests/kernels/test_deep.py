"""Long fuzzing: every operator against its meaning, a hundred thousand cases each."""

from __future__ import annotations

import os
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.time import FOREVER
from anabranch.testing import assert_agrees, schedules, streams
from anabranch.testing.oracle import sources_of
from tests.kernels.operators import OPERATORS, SHORT
from tests.kernels.plans import SCHEMA

CASES = int(os.environ.get("ANABRANCH_CASES", "102000"))
SETTINGS = [(0, 20_000), (4, 0), (4_096, 20_000)]
"""From how many rows on runs stay apart, and loops are compiled: each stream goes through all."""


@pytest.mark.deep
@pytest.mark.parametrize("operator", OPERATORS)
@settings(
    max_examples=CASES // len(SETTINGS),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
@given(data=st.data())
def test_an_operator_means_what_it_says(operator: str, data: st.DataObject) -> None:
    node = data.draw(OPERATORS[operator])
    drawn = {
        source.name: streams(
            SCHEMA,
            max_size=10,
            only_points=source.only_points,
            longest=12 if operator in SHORT else FOREVER,
        )
        for source in sources_of(node)
    }
    steps: list[dict[str, EventBatch]] = data.draw(schedules(**drawn))
    emit: Emission = data.draw(st.sampled_from(["speculative", "speculative", "final"]))
    for small, many in SETTINGS:
        with (
            patch.object(runs, "MERGE_ALL_UP_TO_ROWS", small),
            patch.object(columns, "COMPILE_FROM_ROWS", many),
            # Also where compiled loops are loaded, their twins in numpy are tested.
            patch.object(columns, "_is_loaded", (lambda: False) if many else columns._is_loaded),
        ):
            assert_agrees(node, batches=steps, emit=emit)
