"""What a query on Spark has kept answers what was known after each correction."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from anabranch.engine import Engine
from anabranch.errors import PlanError

pytestmark = pytest.mark.spark

QUERY = "SELECT k, SUM(n) AS s FROM Bid WINDOW(RANGE 10 SLIDE 10) GROUP BY k"


def put(folder: Path, name: str, *rows: tuple[str, int, int]) -> None:
    text = "".join(f'{{"k": "{k}", "n": {n}, "t": {t}}}\n' for k, n, t in rows)
    (folder / name).write_text(text)


def answers(found: Any) -> list[tuple[str, int]]:
    rows = found.to_pylist() if hasattr(found, "to_pylist") else found.collect()
    return sorted((row["k"], row["s"]) for row in rows)


def test_each_correction_has_a_before_and_an_after(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    put(tmp_path / "in", "0.json", ("a", 1, 3), ("b", 2, 5), ("a", 4, 25))
    engine.sql(f"""
        CREATE OR REPLACE STREAM Bid (k TEXT, n BIGINT, t BIGINT) SOURCE '{tmp_path / "in"}'
          ORDERED BY t DELAY 5 LATE REVISE ARCHIVE '{tmp_path / "kept"}'
    """)
    with engine.sql(QUERY).start(tmp_path / "out", checkpoint=tmp_path / "check") as run:
        run.drain()
        put(tmp_path / "in", "1.json", ("a", 10, 4), ("c", 7, 45))
        run.drain()
        between = datetime.now(UTC)
        time.sleep(0.01)
        put(tmp_path / "in", "2.json", ("b", 100, 6), ("c", 7, 46))
        run.drain()
        # What the output said, and what is computed from the archive as it was known.
        told = [answers(run.snapshot(12, known=number)) for number in range(3)]
        assert told == [
            [("a", 1), ("b", 2)],
            [("a", 11), ("b", 2)],
            [("a", 11), ("b", 102)],
        ]
        assert answers(run.snapshot(12)) == told[-1]
        with pytest.raises(PlanError, match="known must be the number of a revision"):
            run.snapshot(12, known=-1)
        for number, snapshot in enumerate(told):
            assert answers(engine.as_of(known=number, at=12).sql(QUERY)) == snapshot
        assert answers(engine.as_of(known=between, at=12).sql(QUERY)) == told[1]
        # Rows that came in time are known, whatever the revision.
        assert answers(engine.as_of(known=0, at=52).sql(QUERY)) == [("c", 14)]

        backfilled = engine.sql(QUERY).between(0, 20)
        assert backfilled.sources["Bid@0..20"].form == "archive"
        again = backfilled.start(tmp_path / "again", available_now=True)
        again.await_end()
        assert answers(again.snapshot(12)) == told[-1]
        assert answers(again.snapshot(32)) == []
