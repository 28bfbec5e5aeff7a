"""Drawn scripts mean what they say: bound, optimised, and run in batches."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anabranch.kernels.plan.compile import Emission
from anabranch.testing.sql.cases import SqlCase, assert_script_means_what_it_says, cases

QUERIES = int(os.environ.get("ANABRANCH_QUERIES", "2000"))
EMISSIONS = st.sampled_from(["speculative", "speculative", "final"])


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(case=cases(), emit=EMISSIONS)
def test_a_drawn_script_means_what_it_says(case: SqlCase, emit: Emission) -> None:
    assert_script_means_what_it_says(case, most=6, emit=emit)


@pytest.mark.deep
@settings(
    max_examples=QUERIES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
@given(case=cases(depth=3), emit=EMISSIONS)
def test_many_drawn_scripts_mean_what_they_say(case: SqlCase, emit: Emission) -> None:
    assert_script_means_what_it_says(case, emit=emit)
