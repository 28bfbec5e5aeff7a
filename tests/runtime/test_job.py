from __future__ import annotations

import pickle
import threading

import pytest

from anabranch.errors import PlanError
from anabranch.runtime.job import seal


def test_code_is_sent_along_with_a_job() -> None:
    more = 3
    sent = pickle.loads(seal(lambda x: x + more))  # type: ignore[arg-type]
    assert sent(4) == 7


def test_what_cannot_be_sent_is_named() -> None:
    lock = threading.Lock()
    with pytest.raises(PlanError, match="cannot be sent to workers") as caught:
        seal(lambda: lock)  # type: ignore[arg-type]
    assert "lock" in caught.value.where
