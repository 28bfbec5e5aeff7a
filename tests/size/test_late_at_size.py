"""Hundreds of thousands of rows, many of them late: the same ones in every cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine import Engine
from anabranch.model.time import BEGINNING

pytestmark = [pytest.mark.size, pytest.mark.spark]

FILES, ROWS = 8, 50_000
DELAY = 400


def write(folder: Path, form: str) -> np.ndarray:
    """Times that go on by one per row, up to a thousand out of order; all of them, in order."""
    folder.mkdir()
    every = []
    for number in range(FILES):
        random = np.random.default_rng(number)
        times = np.arange(number * ROWS, (number + 1) * ROWS) - random.integers(0, 1000, ROWS)
        table = pa.table({"k": times % 7, "t": times})
        if form == "json":
            lines = zip((times % 7).tolist(), times.tolist(), strict=True)
            text = "".join(f'{{"k": {k}, "t": {t}}}\n' for k, t in lines)
            (folder / f"{number}.jsonl").write_text(text)
        else:
            pq.write_table(table, folder / f"{number}.parquet", row_group_size=6_000)
        every.append(times)
    return np.concatenate(every)


@pytest.fixture(scope="module")
def engine(spark: object) -> Iterator[Engine]:
    with Engine(spark) as made:
        yield made


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_the_same_rows_are_late_in_every_cut(engine: Engine, tmp_path: Path, form: str) -> None:
    times = write(tmp_path / "in", form)
    latest = np.maximum.accumulate(np.r_[BEGINNING, times[:-1]])
    kept = times[~((np.arange(len(times)) > 0) & (times < latest - DELAY))]
    assert len(times) - len(kept) > 100_000
    for rows, files in ((None, None), (70_000, None), (None, 3)):
        stream = engine.stream(
            tmp_path / "in",
            name=f"rows_{form}_{rows}_{files}",
            start="t",
            delay=DELAY,
            max_rows_per_batch=rows,
            max_files_per_batch=files,
        )
        run = stream.select("k").start(available_now=True)
        assert run.await_end(600)
        assert sum(batch["late"] for batch in run.metrics()) == len(times) - len(kept)
        assert run.stable == times.max() - DELAY
        starts = np.sort(np.concatenate([batch.start for batch in run._sink.batches()]))
        assert np.array_equal(starts, np.sort(kept))
