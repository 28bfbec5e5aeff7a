"""A merge on several shards says what it says on one."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.merge import MergePolicy
from anabranch.testing import MERGE_CASES, MergeCase, MergeScript, make_script, merge_scripts
from tests.merge.driver import Driver
from tests.merge.histories import (
    LAGS,
    any_sizes,
    assert_merges,
    draw_policy,
    kernel_case,
)


def assert_shards_agree(
    script: MergeScript, policy: MergePolicy, shards: int, seed: int, *, one_leads: bool
) -> None:
    """Both follow the copies; the elements are the same where payloads decide about shards."""
    said, diverged = [], []
    for many in (1, shards):
        driver = Driver(kernel_case(script.case), policy, shards=many)
        sizes = any_sizes(Random(seed), 6)
        said.append(assert_merges(script, policy, sizes, one_leads=one_leads, driver=driver))
        diverged.append(driver.diverged())
    if script.case in ("R3", "R4"):
        assert list(map(Counter, said[0])) == list(map(Counter, said[1]))
        assert diverged[0] == diverged[1]


@given(
    st.data(),
    st.sampled_from(MERGE_CASES),
    st.sampled_from(LAGS),
    st.integers(2, 4),
    st.integers(0, 99),
)
def test_shards_say_what_one_says(
    data: st.DataObject, case: MergeCase, lag: int, shards: int, seed: int
) -> None:
    script = data.draw(merge_scripts(case, lag=lag, max_inputs=3))
    assert_shards_agree(script, MergePolicy.of(lag=lag), shards, seed, one_leads=True)


@pytest.mark.parametrize("case", MERGE_CASES)
def test_all_policies_on_shards_with_copies_thrown_with_dice(case: MergeCase) -> None:
    dice = Random(f"shards {case}")
    for _ in range(4):
        policy = draw_policy(case, dice)
        gaps = dice.random() < 0.5
        script = make_script(case, dice.randrange, lag=policy.lag, gaps=gaps)
        shards = 2 + dice.randrange(3)
        assert_shards_agree(script, policy, shards, dice.randrange(99), one_leads=gaps)
