"""A change reads the sources as the running query does; the size of batches is no part of that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.engine import Engine
from anabranch.errors import PlanError
from anabranch.migrate.in_force import refuse_other_sources
from anabranch.planning import plan_queries
from anabranch.runtime.query.switching import load_work, seal_work
from anabranch.runtime.query.work import Work
from anabranch.runtime.sources.spec import FileSource, Limits
from anabranch.runtime.store.migrations import MigrationFolder

DECLARED = (
    "CREATE STREAM Bid (item INT, price INT, t BIGINT) SOURCE '{folder}/bids.csv' "
    "ORDERED BY t DELAY {delay}{more}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bids.csv").write_text("item,price,t\n1,5,3\n")
    return tmp_path


def planned(folder: Path, delay: int = 4, more: str = "") -> Any:
    engine = Engine()
    engine.sql(DECLARED.format(folder=folder, delay=delay, more=more))
    return plan_queries([engine.sql("SELECT item, price FROM Bid WHERE price > 3")])


def work_of(queries: Any) -> Work:
    return Work(plan=queries.physical, files=queries.files, nodes=queries.workers)


def refuse(folder: Path, new: Any) -> None:
    opened = SimpleNamespace(path=str(folder / "checkpoint"))
    assembly: Any = SimpleNamespace(work=work_of(planned(folder)), opened=opened)
    refuse_other_sources(assembly, new, "it")


def test_the_size_of_batches_may_be_another_one(folder: Path) -> None:
    for option in ("max_files_per_batch", "max_rows_per_batch"):
        refuse(folder, planned(folder, more=f" WITH ({option} = 7)"))


def test_what_a_source_promises_may_not(folder: Path) -> None:
    with pytest.raises(PlanError, match="the source 'Bid' is declared in another way"):
        refuse(folder, planned(folder, delay=5))


def test_the_next_start_counts_for_the_size_of_batches(folder: Path) -> None:
    running = work_of(planned(folder))
    changes = MigrationFolder.of(str(folder / "checkpoint"))
    stored = changes.write_plan(*seal_work(running))
    asked = work_of(planned(folder, more=" WITH (max_files_per_batch = 7)"))
    [found] = load_work(changes, stored, asked).files
    assert found.limits.files == 7
    # A source that only the stored plan reads stays as it is.
    none: tuple[FileSource, ...] = ()
    [found] = load_work(changes, stored, replace(asked, files=none)).files
    assert found.limits == Limits()
