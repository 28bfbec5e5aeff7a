"""A query on Spark keeps what it reads, and others read it from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.engine import Engine
from anabranch.errors import PlanError
from anabranch.runtime.archive.finding import archives_at

pytestmark = pytest.mark.spark


def rows(*times: int) -> str:
    return "".join(f'{{"k": "{"ab"[at % 2]}", "n": {at}, "at": {at}}}\n' for at in times)


def test_what_a_query_has_read_is_a_source_for_others(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jsonl").write_text(rows(0, 1, 2, 3))
    engine.sql(f"""
        CREATE STREAM Copied (k TEXT, n BIGINT, at BIGINT) SOURCE '{tmp_path / "in"}'
          ORDERED BY at DELAY 2 ARCHIVE '{tmp_path / "kept"}' KEEP 100 ROWS;
        CREATE STREAM Referred (k TEXT, n BIGINT, at BIGINT) SOURCE '{tmp_path / "in"}'
          ORDERED BY at DELAY 2 KEEP 100 ROWS;
    """)
    query = engine.sql("""
        SELECT c.k, COUNT(*) AS both FROM Copied WINDOW(RANGE 3) c
        JOIN Referred WINDOW(RANGE 3) r ON c.k = r.k GROUP BY c.k
    """)
    query.start(tmp_path / "out", available_now=True).await_end()
    (tmp_path / "in" / "1.jsonl").write_text(rows(7, 5, 9, 4))
    query.start(tmp_path / "out", available_now=True).await_end()
    copied, referred = archives_at(str(tmp_path / "out"))
    assert copied.folder.path == str(tmp_path / "kept")
    for archive in (copied, referred):
        stats = archive.stats()
        assert (stats.rows, stats.first, stats.last, stats.promised) == (8, 0, 10, 7)
        assert stats.copied == (archive is copied)
    # Those that came too late are kept as well.
    found = [row for each in copied.read() for row in each.payload.column("n").to_pylist()]
    assert sorted(found) == [0, 1, 2, 3, 4, 5, 7, 9]

    again = Engine()
    again.sql(f"CREATE STREAM Again SOURCE '{tmp_path / 'kept'}' WITH (ends = TRUE)")
    run = again.sql("SELECT n FROM Again WHERE k = 'b'").run_local("memory")
    answer = [row["n"] for row in run.table().to_pylist() if row["kind"] == "insert"]
    assert sorted(answer) == [1, 3, 5, 7, 9]
    with pytest.raises(PlanError, match="archive of another query"):
        query.start(tmp_path / "other", available_now=True)
