"""Windows that wait for their end are told of once, whatever runs they lie in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.testing.physical import elements_of
from tests.kernels.plans import SCHEMA
from tests.runtime.test_rescale import WINDOWED

pytestmark = pytest.mark.usefixtures("eagerness")


def points(*starts: int, stable: int = BEGINNING) -> EventBatch:
    payload = pa.RecordBatch.from_arrays(
        [pa.nulls(len(starts), kind) for kind in SCHEMA.types], schema=SCHEMA
    )
    start = np.array(starts, np.int64)
    return EventBatch(payload, start, start, start + 1, Time(stable))


@pytest.mark.parametrize("name", ["lists of points", "states of points"])
def test_a_window_that_was_told_of_is_not_told_of_again(name: str) -> None:
    runner = LocalRunner(WINDOWED[name])
    said = [
        element
        for batch in (
            points(0),
            points(0, 1, 2, stable=1),
            points(FOREVER - 7),
            points(FOREVER - 6),
        )
        for element in elements_of(runner.step({"S": batch}))
    ]
    spans = [(element.start, element.new_end) for element in said if element.end == element.start]
    assert len(spans) == len(set(spans))
