"""A hot key with a long history is not scanned: only what is near a stretch is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.join import interval_trace
from anabranch.kernels.join.interval_trace import interval_rows, overlapping
from anabranch.model.time import FOREVER

EVENTS = 50_000


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen: list[int] = []
    ranges = interval_trace._ranges

    def counted(*given: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for begin, stop in ranges(*given):
            seen.append(int((stop - begin).sum()))
            yield begin, stop

    monkeypatch.setattr(interval_trace, "_ranges", counted)
    return seen


def run_of(start: np.ndarray, end: np.ndarray) -> SortedRun:
    number = pa.array(np.arange(len(start)))
    ids = np.full(len(start), 7, np.uint64)
    return SortedRun(interval_rows(ids, start, start, end, [("key0", number)]))


@pytest.mark.parametrize("odd_ones", [0, 20])
def test_few_rows_are_looked_at_beside_those_that_overlap(
    looked_at: list[int], odd_ones: int
) -> None:
    random = np.random.default_rng(1)
    start = random.integers(0, 1_000_000, EVENTS)
    end = start + random.integers(50, 400, EVENTS)
    # Some events of the same key hold for ever.
    end[:odd_ones] = FOREVER
    probes = random.integers(0, 1_000_000, 300)
    ids = np.full(len(probes), 7, np.uint64)
    held = run_of(start, end)
    found = list(overlapping([held], ids, probes, probes + 10))
    overlapped = sum(len(each.owner) for each in found)
    wanted = int(np.sum([(start < p + 10) & (end > p) for p in probes]))
    assert overlapped == wanted
    assert sum(looked_at) < 12 * overlapped + len(probes) * odd_ones
    assert sum(looked_at) < len(probes) * EVENTS / 100
