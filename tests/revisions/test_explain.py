"""`explain` tells what late rows of a source with LATE REVISE lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch as ab
from anabranch.errors import PlanError
from anabranch.planning import plan_queries

ROW = '{"k": "a", "n": 1, "m": 2, "t": "2024-01-01T00:00:00"}\n'
GROUPED = "SELECT k, SUM(n) AS s FROM Bid WINDOW(RANGE 5 MINUTES SLIDE 5 MINUTES) GROUP BY k"
JOINED = (
    "SELECT b.k, n, m FROM Bid WINDOW(RANGE 5 MINUTES) b, Ask WINDOW(RANGE 1 MINUTE) a "
    "WHERE a.k = b.k"
)


def engine(folder: Path, archive: str = "") -> ab.Engine:
    for name in ("bid", "ask"):
        (folder / name).mkdir()
        (folder / name / "a.json").write_text(ROW)
    made = ab.Engine()
    made.sql(
        f"CREATE STREAM Bid (k TEXT, n BIGINT, t TIMESTAMP) SOURCE '{folder}/bid/*.json' "
        f"ORDERED BY t DELAY 5 SECONDS LATE REVISE {archive}"
    )
    made.sql(
        f"CREATE STREAM Ask (k TEXT, m BIGINT, t TIMESTAMP) SOURCE '{folder}/ask/*.json' "
        "ORDERED BY t DELAY 5 SECONDS"
    )
    return made


def revisions(text: str) -> str:
    """The section about revisions, without its indentation."""
    parts = [part for part in text.split("\n\n") if part.startswith("Revisions\n")]
    assert len(parts) == 1, text
    return "\n".join(line.removeprefix("  ") for line in parts[0].splitlines()[1:])


def test_a_group_is_replayed_by_its_window_and_its_key(tmp_path: Path) -> None:
    assert revisions(engine(tmp_path).sql(GROUPED).explain()) == (
        "Bid: direct, all state that depends on Bid is of single instants\n"
        "  a change of Bid at t reaches the answers of [t, t + 10m) and needs Bid from t - 5m to "
        "t + 5m\n"
        "  replays RW, what the windows of the plan reach\n"
        "  reads only rows with the values of the correction in Bid.k\n"
        "  archive of Bid: by reference, index in the checkpoint, keeps everything"
    )


@pytest.mark.parametrize(
    ("keep", "is_short"), [("1 MINUTE", True), ("4 MINUTES", True), ("5 MINUTES", False)]
)
def test_an_archive_that_is_too_short_is_warned_of(
    tmp_path: Path, keep: str, *, is_short: bool
) -> None:
    query = engine(tmp_path, f"ARCHIVE '{tmp_path}/kept' KEEP {keep}").sql(GROUPED)
    found = revisions(query.explain())
    assert f"archive of Bid: copied, {tmp_path}/kept, keeps {keep[0]}m" in found
    warned = f"WARNING: KEEP {keep[0]}m of Bid is shorter than what a revision needs: 5m"
    assert (warned in found) == is_short


def test_a_join_needs_the_archive_of_both_sides(tmp_path: Path) -> None:
    (found,) = engine(tmp_path, "KEEP 1 HOUR").sql(JOINED).explain_json()["revisions"]
    assert found["source"] == "Bid"
    assert found["way"] == "direct"
    assert found["strategy"] == "RW"
    assert found["restricted"]["Ask"] == ["k"]
    assert "k" in found["restricted"]["Bid"]
    assert found["archives"] == {
        "Bid": "by reference, index in the checkpoint, keeps 1h",
        "Ask": "by reference, index in the checkpoint, keeps everything",
    }
    assert found["warnings"] == {}


def test_windows_of_rows_need_everything(tmp_path: Path) -> None:
    made = engine(tmp_path, "KEEP 9 ROWS")
    found = revisions(made.sql("SELECT SUM(n) AS s FROM Bid WINDOW(ROWS 10)").explain())
    assert "Bid: swap, the state of 'CountWindow 10' depends on earlier rows" in found
    assert "replays RA, all that is archived; the state of the query is exchanged" in found
    assert "reads only" not in found
    assert "WARNING: KEEP 9 rows of Bid is shorter than what a revision needs: all of Bid" in found


@pytest.mark.parametrize(
    ("keep", "kept"), [("KEEP 9 ROWS", "keeps 9 rows"), ("KEEP 1 HOUR", "keeps 1h")]
)
def test_windows_of_rows_are_refused_where_rows_are_forgotten(
    tmp_path: Path, keep: str, kept: str
) -> None:
    """Their state could be exchanged once at most: then the archive would be cut."""
    query = engine(tmp_path, keep).sql("SELECT SUM(n) AS s FROM Bid WINDOW(ROWS 10)")
    planned = plan_queries([query])
    with pytest.raises(PlanError) as refused:
        planned.refuse()
    words = str(refused.value)
    assert "KEEP of source 'Bid' leaves out rows that a correction needs" in words
    assert f"in the checkpoint, {kept}; a correction replays all rows: the state of" in words
    assert "declare the source without KEEP" in words
    # Nobody corrects answers then.
    planned.refuse(emits_revisions=False)


def test_windows_of_time_may_forget_rows(tmp_path: Path) -> None:
    plan_queries([engine(tmp_path, "KEEP 9 ROWS").sql(GROUPED)]).refuse()


def test_a_window_without_bound_replays_everything(tmp_path: Path) -> None:
    made = engine(tmp_path)
    query = "SELECT k, SUM(n) AS s FROM Bid WINDOW(RANGE UNBOUNDED) GROUP BY k"
    (found,) = made.sql(query).explain_json()["revisions"]
    assert (found["way"], found["strategy"]) == ("direct", "RA")
    assert found["restricted"] == {"Bid": ["k"]}


def test_what_is_not_read_restricts_nothing(tmp_path: Path) -> None:
    (found,) = engine(tmp_path).sql("SELECT n FROM Bid WHERE n > 3").explain_json()["revisions"]
    assert found["restricted"] == {"Bid": ["n"]}


def test_sources_without_revisions_are_not_spoken_of(tmp_path: Path) -> None:
    query = engine(tmp_path).sql("SELECT m FROM Ask")
    assert "Revisions" not in query.explain()
    assert query.explain_json()["revisions"] == []
