"""Instants as users write them."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pytest

from anabranch.errors import QueryError
from anabranch.model.clock import INTEGERS, MICROSECONDS
from anabranch.model.time import BEGINNING, FOREVER


@pytest.mark.parametrize("when", [7, np.int64(7), " 7 ", "+7"])
def test_whole_numbers_of_any_kind_are_instants(when: Any) -> None:
    found = INTEGERS.instant(when)
    assert (found, type(found)) == (7, int)


def test_the_ends_of_time_are_instants() -> None:
    assert INTEGERS.instant("forever") == INTEGERS.instant(FOREVER) == FOREVER
    assert INTEGERS.instant(BEGINNING) == BEGINNING
    assert MICROSECONDS.instant(datetime(1970, 1, 1, 0, 0, 1)) == 1_000_000


@pytest.mark.parametrize(
    "when", [1.5, "1.5", None, date(2026, 11, 15), "yesterday", "", 10**30, -(10**30), str(10**30)]
)
def test_what_is_not_an_instant_is_refused_with_its_text(when: Any) -> None:
    with pytest.raises(QueryError, match="is not an instant") as raised:
        INTEGERS.instant(when)
    assert str(when) in raised.value.what
    assert raised.value.hint
