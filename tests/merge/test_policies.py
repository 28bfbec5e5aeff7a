"""Whatever the policy, and however copies come: the output can always follow them."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.merge import MergePolicy
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.merge import merge
from anabranch.kernels.merge.ordered import first_ones
from anabranch.kernels.trace import runs
from anabranch.testing import MERGE_CASES, MergeCase, MergeScript, make_script, merge_scripts
from tests.merge.driver import Driver, forget_rows
from tests.merge.histories import (
    ADJUSTS,
    INSERTS,
    LAGS,
    any_sizes,
    assert_merges,
    check_history,
    kernel_case,
)

CASES = st.sampled_from(MERGE_CASES)


@given(st.data(), CASES, st.sampled_from(LAGS), st.sampled_from([0, 4_096]))
def test_first_inserts_and_lazy_adjusts_follow_any_copies(
    data: st.DataObject, case: MergeCase, lag: int, small: int
) -> None:
    script = data.draw(merge_scripts(case, lag=lag, max_inputs=3))
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", small):
        assert_merges(script, MergePolicy.of(lag=lag))


@given(
    st.data(),
    st.sampled_from(["R3", "R4"]),
    st.sampled_from(INSERTS),
    st.sampled_from(ADJUSTS),
    st.sampled_from(LAGS),
)
def test_all_policies_follow_any_copies(
    data: st.DataObject, case: MergeCase, inserts: str, adjusts: str, lag: int
) -> None:
    script = data.draw(merge_scripts(case, lag=lag, max_inputs=3))
    assert_merges(script, MergePolicy.of(inserts=inserts, adjusts=adjusts, lag=lag))


@given(
    script=CASES.flatmap(lambda case: merge_scripts(case, max_inputs=3, gaps=False)),
    seed=st.integers(0, 99),
)
def test_any_batches_of_whole_copies_are_followed_and_nobody_is_blamed(
    script: MergeScript, seed: int
) -> None:
    policy = MergePolicy.of()
    driver = Driver(kernel_case(script.case), policy)
    with (
        patch.object(runs, "MERGE_ALL_UP_TO_ROWS", 0),
        patch.object(columns, "COMPILE_FROM_ROWS", 0),
    ):
        sizes = any_sizes(Random(seed), 9)
        assert_merges(script, policy, sizes, one_leads=False, driver=driver)
    assert driver.diverged() == {}


@pytest.mark.parametrize("case", ["R0", "R1", "R2"])
def test_ordered_copies_thrown_with_dice(case: MergeCase) -> None:
    for lag in LAGS:
        for number in range(3):
            check_history(case, number, lag=lag)


@pytest.mark.parametrize("inserts", INSERTS)
@pytest.mark.parametrize("case", ["R3", "R4"])
def test_every_policy_with_copies_thrown_with_dice(case: MergeCase, inserts: str) -> None:
    for adjusts, lag in zip(ADJUSTS, LAGS):
        check_history(case, "any", inserts=inserts, adjusts=adjusts, lag=lag)


@pytest.mark.parametrize("seed", ["1/247", "10/466"])
def test_a_copy_that_missed_what_has_ended_decides_what_goes_on(seed: str) -> None:
    check_history("R4", seed)


def test_who_joins_between_two_promises_of_a_batch_makes_final_what_another_misses() -> None:
    check_history("R3", "2/470")


@pytest.mark.parametrize("case", ["R2", "R3", "R4"])
def test_payloads_under_one_id_are_told_apart(
    case: MergeCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = Random(f"one id {case}")
    monkeypatch.setattr(merge, "key_ids", lambda _, rows: np.full(rows, 7, np.uint64))
    monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", 0)
    forget_rows()
    for _ in range(5):
        script = make_script(case, dice.randrange, max_inputs=3)
        assert_merges(script, MergePolicy.of())
    forget_rows()


@pytest.mark.parametrize(("identities", "copies"), [(3, 2), (30, 3), (2, 200), (9, 40)])
def test_ties_pass_once_however_many_there_are(
    identities: int, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = identities * copies
    # One identity after the other: the first row of the last one comes late.
    ids = np.repeat(np.arange(identities, dtype=np.uint64), copies)
    start, check = np.zeros(rows, np.int64), np.zeros(rows, np.uint64)
    start[-copies:] = 1
    passed = []
    for many in (0, 10_000):
        monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", many)
        passed.append(np.sort(first_ones(start, ids, check, "r2")).tolist())
    assert passed[0] == passed[1] == list(range(0, rows, copies))
