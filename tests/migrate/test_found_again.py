"""The plan of a changed query is found again at its next start, by what it was chosen by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.bench.reoptimize import EARLY, LATER, QUERY, Feed, declare
from anabranch.engine import Engine
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.optimizer.statistics import PlanStatistics, SourceStatistics
from anabranch.planning import PlannedQueries, plan_queries
from anabranch.runs import Runs
from anabranch.runtime.query.checkpoint import Checkpoint
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.migrations import EXPECTED, MigrationFolder, PlanInForce
from anabranch.runtime.store.query_record import QueryRecord, write_query_record
from anabranch.runtime.store.query_statistics import (
    QueryStatistics,
    SourceRecord,
    keep_priced_with,
    read_priced_with,
    write_priced_with,
)

if TYPE_CHECKING:
    from anabranch.runtime.query.run import Run

SHARES = {'"A.k" = "B.k"': 0.01, '"B.j" = "C.j"': 0.0005}


def query(folder: Path, rates: Mapping[str, int] = EARLY) -> Any:
    """Three streams that are joined, declared with rates that may be wrong."""
    engine = Engine()
    declare(engine, folder, rates)
    return engine.sql(QUERY)


def measured(rates: Mapping[str, float], shares: Mapping[str, float] = SHARES) -> PlanStatistics:
    sources = {name: SourceStatistics(rate=float(rate)) for name, rate in rates.items()}
    return PlanStatistics(sources=sources, shares=shares)


def the_print(planned: PlannedQueries) -> str:
    return plan_fingerprint(planned.physical)


@pytest.fixture
def home(tmp_path: Path) -> str:
    Feed(tmp_path, 5).write(EARLY)
    return str(tmp_path / "home")


def put_in_force(home: str, *planned: PlannedQueries) -> tuple[str, ...]:
    """The record of a change after which a start finds any of these."""
    folder = MigrationFolder.of(home)
    expected = tuple(folder.write_expected(each.priced) for each in planned)
    asked = tuple(map(the_print, planned))
    in_force = PlanInForce(migration=1, file="plan", asked=asked, expected=expected)
    record = QueryRecord(query="q", shards=1, in_force=in_force)
    write_query_record(Folder.at(home), record)
    return expected


def test_the_plan_that_was_measured_for_is_found_again(home: str, tmp_path: Path) -> None:
    first = plan_queries([query(tmp_path)])
    write_priced_with(home, first.priced)
    changed = plan_queries([query(tmp_path)], statistics=measured(LATER))
    assert the_print(changed) != the_print(first)
    put_in_force(home, changed)
    # Whatever is declared by now.
    for rates in (EARLY, LATER, {"A": 7, "B": 1, "C": 9000}):
        found = plan_queries([query(tmp_path, rates)], checkpoint=home)
        assert the_print(found) == the_print(changed)
        assert found.priced == changed.priced


def test_while_both_plans_run_either_is_found(home: str, tmp_path: Path) -> None:
    first = plan_queries([query(tmp_path)])
    write_priced_with(home, first.priced)
    changed = plan_queries([query(tmp_path)], statistics=measured(LATER))
    folder = MigrationFolder.of(home)
    for asked in ([first, changed], [first]):
        in_force = PlanInForce(
            migration=1,
            file="plan",
            asked=tuple(map(the_print, asked)),
            expected=(folder.write_expected(changed.priced),),
        )
        record = QueryRecord(query="q", shards=1, in_force=in_force)
        write_query_record(Folder.at(home), record)
        found = plan_queries([query(tmp_path, LATER)], checkpoint=home)
        assert the_print(found) == the_print(asked[-1])


def test_a_damaged_file_leaves_what_the_query_began_with(home: str, tmp_path: Path) -> None:
    first = plan_queries([query(tmp_path)])
    write_priced_with(home, first.priced)
    [name] = put_in_force(home, first)
    Path(home, "migrations", name).write_bytes(b"{")
    assert the_print(plan_queries([query(tmp_path, LATER)], checkpoint=home)) == the_print(first)


def test_what_no_plan_in_force_was_chosen_by_is_removed(home: str, tmp_path: Path) -> None:
    folder = MigrationFolder.of(home)
    planned = plan_queries([query(tmp_path)])
    names = [folder.write_expected(each) for each in (planned.priced, measured(LATER))]
    assert names[0] != names[1]
    assert all(name.startswith(EXPECTED) for name in names)
    folder.remove_files("plan", names[1])
    assert folder.folder.names() == [names[1]]


_RATES = st.floats(1e-6, 1e6)
_MAYBE = st.none() | _RATES


@st.composite
def statistics(draw: st.DrawFn) -> PlanStatistics:
    names = draw(st.sets(st.sampled_from("ABC")))
    sources = {
        name: SourceStatistics(
            rate=draw(_MAYBE),
            lifetime=draw(_MAYBE),
            distinct=draw(st.dictionaries(st.sampled_from("kjv"), st.floats(1, 1e6))),
        )
        for name in sorted(names)
    }
    shares = draw(st.dictionaries(st.sampled_from(sorted(SHARES)), st.floats(1e-9, 1)))
    return PlanStatistics(sources=sources, shares=shares)


@given(statistics())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_a_plan_was_chosen_by_leads_to_it(
    home: str, tmp_path: Path, drawn: PlanStatistics
) -> None:
    planned = plan_queries([query(tmp_path)], statistics=drawn)
    put_in_force(home, planned)
    found = plan_queries([query(tmp_path, LATER)], checkpoint=home)
    assert the_print(found) == the_print(planned)
    assert found.priced == planned.priced


def test_a_query_that_begins_is_planned_by_what_others_have_measured(
    home: str, tmp_path: Path
) -> None:
    wrong = plan_queries([query(tmp_path)], checkpoint=home)
    right = plan_queries([query(tmp_path)], checkpoint=home, nearby=measured(LATER))
    assert the_print(right) != the_print(wrong)
    # Once it has begun, it keeps that plan, whoever measures what.
    Checkpoint(home, right.physical, 1, priced=right.priced).close()
    for nearby in (None, measured(EARLY)):
        found = plan_queries([query(tmp_path, EARLY)], checkpoint=home, nearby=nearby)
        assert the_print(found) == the_print(right)


def test_sources_that_are_added_at_a_start_are_noted_beside_the_others(home: str) -> None:
    first, more = measured({"A": 1.0}, {}), measured({"A": 2.0, "B": 3.0}, {})
    keep_priced_with(home, first, begins=True)
    keep_priced_with(home, more, begins=False)
    assert read_priced_with(home) == measured({"A": 1.0, "B": 3.0}, {})
    keep_priced_with(home, more, begins=True)
    assert read_priced_with(home) == more


class Measuring:
    """As much of a run as says what it has measured."""

    def __init__(self, over: Any, statistics: QueryStatistics, status: str = "running") -> None:
        measurements = SimpleNamespace(statistics=statistics)
        work = SimpleNamespace(files=tuple(over.sources.values()))
        self.assembly = SimpleNamespace(work=work, measurements=measurements)
        self.execution = self
        self.status = status


def test_only_queries_that_run_over_the_same_files_tell(home: str, tmp_path: Path) -> None:
    assert home
    other = tmp_path / "other"
    Feed(other, 5).write(EARLY)
    here, there = query(tmp_path), query(other)
    seen = QueryStatistics(batches=1, sources={"A": SourceRecord(rows=500.0, span=10.0)})
    runs = Runs()
    runs.each = cast("list[Run]", [Measuring(there, seen), Measuring(here, seen, "stopped")])
    assert runs.measured(here.sources) is None
    runs.each = cast("list[Run]", [Measuring(here, seen), Measuring(there, QueryStatistics())])
    found = runs.measured(query(tmp_path, LATER).sources)
    assert found is not None
    assert found.sources["A"].rate == 50
