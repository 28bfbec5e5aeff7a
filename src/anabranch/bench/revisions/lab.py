"""What the measurements of revisions share: queries, sizes, and a running query to be corrected."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, final

import numpy as np

from anabranch.bench.report import Report
from anabranch.engine import Engine
from anabranch.errors import EngineError
from anabranch.model.record import REPORT
from anabranch.runtime.query.run import Run
from anabranch.runtime.revisions.records import CorrectionFolder, CorrectionRecord
from anabranch.runtime.store.folder import Folder
from anabranch.workloads.quotes import FIRST_SYMBOL, Quotes, put

Rate = Literal["LOW", "MOD", "HIGH"]
Way = Literal["RA", "RM", "RW", "direct"]
"""A strategy of replay, or `direct`: nothing is ever settled, so all state stays for ever."""

QUERIES: Final[Mapping[str, str]] = {
    "Q1": "SELECT symbol, AVG(price) AS mean FROM Quote "
    "WINDOW(RANGE 5 MINUTES SLIDE 5 MINUTES) GROUP BY symbol",
    "Q2": "SELECT symbol, AVG(price) AS mean FROM Quote "
    "WINDOW(RANGE 5 MINUTES SLIDE 1 MINUTE) GROUP BY symbol",
    "Q3": "SELECT CASE WHEN s.mean > l.mean THEN 'BUY' ELSE 'SELL' END AS advice FROM "
    "(SELECT AVG(price) AS mean FROM Quote WINDOW(RANGE 1 MINUTE SLIDE 1 MINUTE) "
    f"WHERE symbol = '{FIRST_SYMBOL}') AS s, "
    "(SELECT AVG(price) AS mean FROM Quote WINDOW(RANGE 5 MINUTES SLIDE 1 MINUTE) "
    f"WHERE symbol = '{FIRST_SYMBOL}') AS l",
}
"""Averages over 5 minutes, every 5 minutes and every minute; advice by two averages of IBM's."""

EVERY: Final[Mapping[Rate, int]] = {"LOW": 10, "MOD": 5, "HIGH": 1}
"""A correction comes after so many chunks of normal rows, of which ten are streamed."""

PER_FILE: Final = 250_000
_NEVER: Final = "36500 days"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionSize:
    """How much is measured.

    Attributes:
        archived: Rows before the first measurement; they are replayed from the archive.
        chunk: Normal rows that come together.
        chunks: How many times they come, at each rate of revisions.
        ways: By query what is measured.
        rates: The rates of revisions.
        overhead: Files of the measurement without revisions, rows per file, and repeats.
        recomputed: By how many repeats in Spark; the first one more is warm-up.
        batches: Of the archive index, in a simulated year.
        hours: Hours of it that are measured, at the beginning and at the end.
        warm_ups: The first corrections of every query, which do not count.
    """

    archived: int
    chunk: int
    chunks: int
    ways: Mapping[str, tuple[Way, ...]]
    rates: tuple[Rate, ...]
    overhead: tuple[int, int, int]
    recomputed: int
    batches: int
    hours: int
    warm_ups: int


@final
@dataclass(frozen=True, slots=True)
class Corrected:
    """What one correction took, in seconds.

    Attributes:
        processing: Of the replay; of a query that settles nothing, of its operators.
        end_to_end: From the file with the late row to the answer in the log; None where the
            answers stay as they are.
        noticed: From that file to the note that the row is late.
        rows: How many rows were replayed.
        ran: Where: in the driver, or as a job of Spark.
    """

    processing: float
    end_to_end: float | None
    noticed: float
    rows: int = 0
    ran: str = ""


@final
@dataclass(frozen=True, slots=True)
class RevisionLab:
    """Where it is measured."""

    engine: Engine
    root: Path
    size: RevisionSize
    report: Report
    quotes: Quotes

    @property
    def history(self) -> Path:
        """The folder with the rows that are archived."""
        return self.root / "history"

    @contextmanager
    def started(self, query: str, way: Way) -> Iterator[CorrectedQuery]:
        """A query that has read the history, and is warm: it has been corrected some times."""
        work = self.root / f"{query}-{way}"
        rows = work / "rows"
        rows.mkdir(parents=True)
        for file in sorted(self.history.iterdir()):
            (rows / file.name).symlink_to(file)
        settles = way != "direct"
        self.engine.stream(
            rows,
            name="Quote",
            replace=True,
            start="at",
            delay="2 seconds" if settles else _NEVER,
            late="revise" if settles else "drop",
        )
        said = self.engine.sql(QUERIES[query])
        out, checkpoint = work / "log", work / "checkpoint"
        if way == "direct":
            run = said.start(to=out, checkpoint=checkpoint)
        else:
            run = said.start(to=out, checkpoint=checkpoint, replay=way)
        with run:
            run.drain()
            running = CorrectedQuery(self, run, work, settles)
            for _ in range(self.size.warm_ups):
                running.correct()
            yield running


@final
class CorrectedQuery:
    """A query, fed with rows and late rows by turns."""

    def __init__(self, lab: RevisionLab, run: Run, work: Path, settles: bool) -> None:
        """It has read the history."""
        self._lab = lab
        self._run = run
        self._work = work
        self._settles = settles
        self._next = lab.size.archived
        self._corrections = 0
        self._random = np.random.default_rng(3)

    def stream(self, rows: int) -> float:
        """Let normal rows come; seconds until their results are in the log."""
        chunk = self._lab.quotes.rows(self._next, rows)
        began = time.time()
        put(self._work / "rows" / f"normal-{self._next:010}.parquet", chunk)
        self._next += rows
        self._run.drain()
        return self._logged(self._last_batch()) - began

    def correct(self) -> Corrected:
        """Let one late row of the archived ones come; what it took."""
        symbols = self._lab.quotes.symbols
        # IBM, because one of the queries is about nothing else; not at the ends of the history.
        seconds = self._lab.size.archived // symbols
        second = int(self._random.integers(seconds // 10, seconds - seconds // 10))
        late = self._lab.quotes.late(np.array([second * symbols]))
        began = time.time()
        put(self._work / "rows" / f"late-{self._corrections:04}.parquet", late)
        self._corrections += 1
        self._run.drain()
        return self._replayed(began) if self._settles else self._adjusted(began)

    def _replayed(self, began: float) -> Corrected:
        record = self._records()[-1]
        steps = record.emissions
        batches = [step.committed for step in steps if step.committed is not None]
        if len(self._records()) != self._corrections or len(batches) < max(1, len(steps)):
            raise EngineError(
                "a late row has not become a revision", where=str(self._work), hint=REPORT
            )
        return Corrected(
            processing=sum(step.seconds for step in steps),
            end_to_end=self._logged(max(batches)) - began
            if any(number for step in steps for number in step.numbers)
            else None,
            noticed=record.known_at / 1e6 - began,
            rows=sum(step.replayed for step in steps),
            ran=steps[-1].ran,
        )

    def _adjusted(self, began: float) -> Corrected:
        batch = self._run.metrics()[-1]
        logged = self._logged(batch["batch"])
        work = sum(sum(stage["seconds"].values()) for stage in batch["stages"].values())
        return Corrected(work, logged - began if batch["rows_out"] else None, logged - began)

    def _records(self) -> Sequence[CorrectionRecord]:
        folder = CorrectionFolder(Folder.at(str(self._work / "checkpoint" / "revisions")))
        return sorted(folder.read(), key=lambda each: each.id)

    def _last_batch(self) -> int:
        batch: int = self._run.metrics()[-1]["batch"]
        return batch

    def _logged(self, batch: int) -> float:
        """When a batch was in the log."""
        return (self._work / "log" / "_log" / f"{batch}.json").stat().st_mtime
