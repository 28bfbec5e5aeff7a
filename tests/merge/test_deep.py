"""Long fuzzing: a hundred thousand histories through the merge kernel."""

from __future__ import annotations

import os

import pytest

from anabranch.testing import MERGE_CASES, MergeCase
from tests.merge.histories import check_history
from tests.merge.test_repeats import check_repeats

HISTORIES = int(os.environ.get("ANABRANCH_CASES", "102000"))
PIECES = 20
"""Each case is cut so that several processes share it."""


@pytest.mark.deep
@pytest.mark.parametrize("piece", range(PIECES))
@pytest.mark.parametrize("case", MERGE_CASES)
def test_a_merge_follows_its_copies(case: MergeCase, piece: int) -> None:
    for number in range(HISTORIES // (PIECES * len(MERGE_CASES))):
        check_history(case, f"{piece}/{number}")


@pytest.mark.deep
@pytest.mark.parametrize("piece", range(PIECES))
@pytest.mark.parametrize("case", MERGE_CASES)
def test_copies_that_repeat_themselves_do_no_harm(case: MergeCase, piece: int) -> None:
    for number in range(HISTORIES // (20 * PIECES * len(MERGE_CASES))):
        check_repeats(case, f"{piece}/{number}", asserted=number % 3 > 0)
