"""Logs of one stream that promise more and less, without a query that writes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tests.e2e.revised_queries import assert_legal

from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.netting import net
from anabranch.model.time import Time
from anabranch.runtime.sources.files.log_folder import LogFolder, write_part
from anabranch.runtime.sources.files.log_records import LogProperties

KEYED = LogProperties(keyed=True)
IN_ORDER = LogProperties(insert_only=True, keyed=True, order="start")
SCHEMA = pa.schema([("a", pa.int64())])
AT_ONCE = 3
"""So many events begin at one instant, with different payloads."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class History:
    """Events of a stream, in chunks of time; copies tell them whole or with detours."""

    rows: int
    chunks: int

    def chunk(self, number: int) -> tuple[Ints, Ints, Ints]:
        """Payloads, starts and ends."""
        size = self.rows // self.chunks
        assert size % AT_ONCE == 0, "what begins at one instant is in one chunk"
        position = np.arange(number * size, (number + 1) * size)
        start = position // AT_ONCE
        return position % 97, start, start + 1 + position * 7919 % 50

    def instant(self, number: int) -> int:
        """What is settled once a chunk has been told."""
        return int(self.chunk(number)[1][-1]) + 1

    def tell(self, log: Path, known: LogProperties | None, chunks: range) -> None:
        """Add chunks to a log; one of which nothing is known tells ends that it corrects."""
        folder = LogFolder(str(log))
        folder.create(SCHEMA, query=log.name, clock=INTEGERS, properties=known)
        for number in chunks:
            a, start, end = self.chunk(number)
            moves = [(a, start, start, end)]
            if known is None:
                dice = np.random.default_rng(number)
                wrong = start + 1 + dice.integers(0, 60, len(start))
                some = np.flatnonzero(wrong != end)
                # Twice, and one of them is taken back: no two are alike in the end.
                moves = [
                    (a, start, start, wrong),
                    (a[some], start[some], wrong[some], end[some]),
                    (a, start, start, end),
                    (a, start, end, start),
                ]
                order = dice.permutation(len(start))
                moves[0] = (a[order], start[order], start[order], wrong[order])
            values, starts, ends, new_ends = map(np.concatenate, zip(*moves, strict=True))
            payload = pa.RecordBatch.from_arrays([pa.array(values)], schema=SCHEMA)
            rows = EventBatch(payload, starts, ends, new_ends, Time(self.instant(number)))
            file = write_part(str(log), number, 0, rows, clock=INTEGERS)
            folder.commit(number, int(rows.stable), [file])

    def assert_merged(self, merged: Path, chunks: int) -> None:
        """A merged log is legal, and DuckDB finds no event in it or in the history alone."""
        parts = [each for each in LogFolder(str(merged)).parts() if isinstance(each, EventBatch)]
        assert parts[-1].stable == self.instant(chunks - 1)
        left = net(EventBatch.concat(parts))
        told = [np.concatenate(each) for each in zip(*map(self.chunk, range(chunks)), strict=True)]
        names = ("a", "s", "e")
        left_columns = [left.payload.column(0), left.start, left.new_end]
        found = pa.table(dict(zip(names, map(pa.array, left_columns), strict=True)))
        wanted = pa.table(dict(zip(names, map(pa.array, told), strict=True)))
        database = duckdb.connect()
        database.register("found", found)
        database.register("wanted", wanted)
        for one, other in (("found", "wanted"), ("wanted", "found")):
            query = f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})"
            assert database.execute(query).fetchone() == (0,), one
        assert_legal(merged)
