"""A copy of a checkpoint goes on as its query does, without what was asked of that query."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.merging.jumpstart import _copied
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord, PlanInForce
from anabranch.runtime.store.query_record import QueryRecord, write_query_record


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """One of a query that has done a batch."""
    home = tmp_path / "checkpoint"
    for part in ("commits", "offsets"):
        (home / "spark" / part).mkdir(parents=True)
        (home / "spark" / part / "0").write_text("{}")
    return home


def test_changes_that_wait_are_not_made_by_a_copy_too(checkpoint: Path, tmp_path: Path) -> None:
    asked = MigrationFolder.of(str(checkpoint))
    over = asked.add(MigrationRecord(number=0, state="finished", text="SELECT 1"))
    # Its process has not written down yet that its plan is in force.
    begun = asked.add(MigrationRecord(number=0, text="SELECT 2"))
    waits = asked.add(MigrationRecord(number=0, text="SELECT 3"))
    in_force = PlanInForce(migration=begun.number, file="plan", asked=())
    about = QueryRecord(query="q", shards=1, in_force=in_force)
    write_query_record(Folder.at(str(checkpoint)), about)

    assert _copied(checkpoint, tmp_path / "copy") == 0

    copied = MigrationFolder.of(str(tmp_path / "copy"))
    assert copied.records()[:2] == [over, begun]
    assert copied.records()[2].state == "refused"
    assert "asked of the query that this one is a copy of" in copied.records()[2].reason
    assert copied.waiting() == [begun]
    assert asked.records() == [over, begun, waits]
