"""The plan of a running query, as `explain --running` shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.errors import PlanError
from anabranch.optimizer.statistics import PlanStatistics, SourceStatistics
from anabranch.runtime.measure.running_plan import explain_running, running_text
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord
from anabranch.runtime.store.query_record import QueryRecord, write_query_record
from anabranch.runtime.store.query_statistics import (
    STATISTICS,
    BetterPlan,
    OperatorRecord,
    PlanLine,
    QueryStatistics,
    SourceRecord,
    read_priced_with,
    read_statistics,
    write_priced_with,
    write_statistics,
)

MEASURED = QueryStatistics(
    batch=7,
    batches=8,
    in_driver=3,
    chronon=1_000_000,
    sources={"Bid": SourceRecord(rows=500.0, span=50.0, values={"item": 40.0}, last=9)},
    operators={
        "abc": OperatorRecord(
            label="Filter price > 80",
            rows_in=(500.0,),
            rows_out=125.0,
            span=50.0,
            seconds=0.05,
            batches=5.0,
            share=0.25,
            condition='"Bid.price" > 80',
        )
    },
    plans=(
        (
            PlanLine(depth=0, label="Filter price > 80", signature="abc", rate=33.3, state=0.0),
            PlanLine(depth=1, label="Source Bid", signature="Bid", rate=100.0, state=0.0),
        ),
    ),
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write_query_record(Folder.at(str(tmp_path)), QueryRecord(query="q", shards=2))
    return tmp_path


def test_expected_and_measured_figures_stand_side_by_side() -> None:
    lines = running_text(MEASURED).splitlines()
    assert lines[1].split() == ["Filter", "price", ">", "80", "33.3/s", "2.5/s", "0.25", "10"]
    assert lines[2].split() == ["Source", "Bid", "100/s", "10/s", "item", "40"]
    assert "measured in 8 batches" in lines[-2]
    assert lines[-1] == "3 of them ran in the driver, 5 in tasks of Spark"


def test_the_command_reads_the_checkpoint(checkpoint: Path) -> None:
    write_statistics(str(checkpoint), MEASURED)
    assert read_statistics(str(checkpoint)) == MEASURED
    said = CliRunner().invoke(app, ["explain", "--running", str(checkpoint)])
    assert said.exit_code == 0, said.output
    assert "Filter price > 80" in said.output
    said = CliRunner().invoke(app, ["explain", "--running", "--json", str(checkpoint)])
    (plan,) = json.loads(said.output)["plans"]
    assert plan[0]["expected"]["rate"] == 33.3
    assert plan[0]["measured"]["selectivity"] == 0.25
    assert plan[1]["measured"]["distinct"] == {"item": 40.0}


def test_the_output_of_a_query_names_its_checkpoint(tmp_path: Path) -> None:
    home = tmp_path / "out.jsonl.checkpoint"
    home.mkdir()
    write_query_record(Folder.at(str(home)), QueryRecord(query="q", shards=2))
    write_statistics(str(home), MEASURED)
    said = CliRunner().invoke(app, ["explain", "--running", str(tmp_path / "out.jsonl")])
    assert said.exit_code == 0, said.output
    assert "Filter price > 80" in said.output


def test_a_change_that_waits_does_not_hide_the_one_in_progress(checkpoint: Path) -> None:
    write_statistics(str(checkpoint), MEASURED)
    changes = MigrationFolder.of(str(checkpoint))
    changes.add(MigrationRecord(number=0, state="switched", how="clip", at=70))
    changes.add(MigrationRecord(number=0))
    assert "\n\nchange 1 by clip: the old answer before " in explain_running(str(checkpoint))


def test_a_change_in_progress_is_shown_below(checkpoint: Path) -> None:
    write_statistics(str(checkpoint), MEASURED)
    changes = MigrationFolder.of(str(checkpoint))
    first = changes.add(MigrationRecord(number=0))
    assert explain_running(str(checkpoint)).endswith("\n\nchange 1: begins with the next batch")
    changes.write(replace(first, state="switched", how="clip", at=70))
    assert "\n\nchange 1 by clip: the old answer before " in explain_running(str(checkpoint))
    changes.write(replace(first, state="finished"))
    assert "change 1" not in explain_running(str(checkpoint))


def test_a_folder_without_a_query_and_a_query_without_batches_are_refused(
    checkpoint: Path, tmp_path: Path
) -> None:
    with pytest.raises(PlanError, match="there is no query"):
        explain_running(str(tmp_path / "nothing"))
    with pytest.raises(PlanError, match="has not measured anything yet"):
        explain_running(str(checkpoint))
    assert CliRunner().invoke(app, ["explain", "--running", str(checkpoint)]).exit_code != 0


@pytest.mark.parametrize("damage", [b"", b"{", b'{"format": 99}', b'{"format": 1, "odd": 2}'])
def test_a_damaged_file_is_as_good_as_none(checkpoint: Path, damage: bytes) -> None:
    (checkpoint / STATISTICS).write_bytes(damage)
    assert read_statistics(str(checkpoint)) is None


def test_what_a_plan_was_chosen_by_is_kept(checkpoint: Path) -> None:
    assert read_priced_with(str(checkpoint)) is None
    expected = PlanStatistics(sources={"Bid": SourceStatistics(rate=2.5, distinct={"item": 7.0})})
    write_priced_with(str(checkpoint), expected)
    assert read_priced_with(str(checkpoint)) == expected
    # Also what conditions and operators let through.
    expected = replace(expected, shares={"a = b": 0.1}, ratios={"abc": 0.5})
    write_priced_with(str(checkpoint), expected)
    assert read_priced_with(str(checkpoint)) == expected


def test_too_few_rows_tell_nothing() -> None:
    assert MEASURED.for_plans().shares == {'"Bid.price" > 80': 0.25}
    assert MEASURED.for_plans().sources["Bid"].rate == 10
    assert MEASURED.for_plans(least_rows=1000) == PlanStatistics()


def test_a_better_plan_is_told_of_until_the_query_changes(checkpoint: Path) -> None:
    gain = BetterPlan(output=0, gain=3.1, reason="another plan is estimated to cost 3.1 times less")
    write_statistics(str(checkpoint), replace(MEASURED, better=(gain,)))
    said = CliRunner().invoke(app, ["explain", "--running", str(checkpoint)])
    assert said.output.endswith(
        "\n\nas measured when the query resumed:\n"
        "another plan is estimated to cost 3.1 times less\n"
        "a running query takes it by run.migrate(), or anabranch migrate CHECKPOINT --reoptimize\n"
    )
    said = CliRunner().invoke(app, ["explain", "--running", "--json", str(checkpoint)])
    assert json.loads(said.output)["better"] == [
        {"output": 0, "gain": 3.1, "reason": "another plan is estimated to cost 3.1 times less"}
    ]
    MigrationFolder.of(str(checkpoint)).add(MigrationRecord(number=0))
    assert "as measured when" not in explain_running(str(checkpoint))


def test_of_several_outputs_a_better_plan_names_its_own() -> None:
    gain = BetterPlan(output=1, gain=2.0, reason="another plan is estimated to cost 2 times less")
    several = replace(MEASURED, plans=MEASURED.plans * 2, better=(gain,))
    assert "\noutput 1: another plan is" in running_text(several)
