"""Modules that fail on Spark: a clear error, or the query goes on without those windows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import anabranch as ab
from anabranch.cli.app import app
from anabranch.engine import Engine, Stream
from anabranch.errors import OperatorError
from anabranch.runtime.query.run import Run

pytestmark = pytest.mark.spark

UNLUCKY = 13
NUMBERS = count()


@ab.uda
def total(v: list[int]) -> int:
    return sum(v)


@ab.uda
def raising(v: list[int]) -> int:
    if UNLUCKY in v:
        raise ValueError("unlucky")
    return sum(v)


@ab.uda
def mistyped(v: list[int]) -> int:
    return "thirteen" if UNLUCKY in v else sum(v)  # type: ignore[return-value]


@ab.udo
def early(events: list[ab.Event[int]], window: ab.Window) -> Iterator[ab.Event[int]]:
    values = [event.value for event in events]
    start = window.start - 5 if UNLUCKY in values else window.start
    yield ab.Event(sum(values), start, window.end)


@ab.uda
def fickle(v: list[int]) -> int:
    return next(NUMBERS) + len(v)


def write_rows(folder: Path, number: int, *, unlucky: bool) -> None:
    """Thirty instants with a row of each of two keys; one of them may be unlucky."""
    folder.mkdir(exist_ok=True)
    times = [time for time in range(30 * number, 30 * number + 30) for _ in range(2)]
    keys = [place % 2 for place in range(60)]
    values = [100 * key + time % 10 for key, time in zip(keys, times)]
    if unlucky:
        values[51] = UNLUCKY
    table = pa.table({"k": keys, "v": values, "t": times})
    pq.write_table(table, folder / f"{number}.parquet")


def windows(engine: Engine, folder: Path, name: str, **options: Any) -> Any:
    rows = engine.stream(folder, name=name, start="t", delay=0, max_files_per_batch=1)
    return rows.tumbling(10, by="k", **options)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (raising, "raising raised ValueError: unlucky"),
        (mistyped, "mistyped returned 'thirteen', which is not of type int64"),
        (early, "early returned an event from 15 on, before its window"),
    ],
)
def test_a_failing_module_names_window_group_and_event(
    engine: Engine, tmp_path: Path, module: Any, reason: str
) -> None:
    write_rows(tmp_path / "in", 0, unlucky=True)
    write_rows(tmp_path / "in", 1, unlucky=False)
    options = {"timestamps": "unchanged"} if module is early else {}
    over = windows(engine, tmp_path / "in", f"{module.name}_rows", **options)
    run = over.apply(module, "v", name="said").start(tmp_path / "log", available_now=True)
    with pytest.raises(OperatorError) as caught:
        run.await_end()
    what, window, group, event, hint = str(caught.value).splitlines()
    assert what == reason
    assert window == "  in the window [20, 30)"
    assert group == "  of the group (k) = (1)"
    # The one that it raises for; where nothing was raised, the first of the window.
    shown = "(13) during [25, 26)" if module is raising else "(100) during [20, 21)"
    assert event == f"  first event: {shown}"
    assert hint.startswith("  hint: correct the module and test it with ")
    assert run.status == "failed"


def test_a_module_that_is_not_deterministic_is_found_out(engine: Engine, tmp_path: Path) -> None:
    write_rows(tmp_path / "in", 0, unlucky=False)
    over = windows(engine, tmp_path / "in", "fickle_rows")
    run = over.apply(fickle, "v", name="said").start(tmp_path / "log", available_now=True)
    with pytest.raises(OperatorError, match="fickle is not deterministic") as caught:
        run.await_end()
    what, window, group, event, _ = str(caught.value).splitlines()
    assert " for the same events it returned " in what
    assert window == "  in the window [0, 10)"
    assert (group, event) in [
        (f"  of the group (k) = ({k})", f"  first event: ({100 * k}) during [0, 1)") for k in (0, 1)
    ]


def queries(engine: Engine, folder: Path) -> dict[str, Stream]:
    found = {"total": windows(engine, folder, "rows").apply(total, "v", name="said")}
    for errors in ("skip", "quarantine"):
        over = windows(engine, folder, "rows", errors=errors)
        timed = windows(engine, folder, "rows", errors=errors, timestamps="unchanged")
        found[f"raising {errors}"] = over.apply(raising, "v", name="said")
        found[f"mistyped {errors}"] = over.apply(mistyped, "v", name="said")
        found[f"early {errors}"] = timed.apply(early, "v", name="said")
    return found


def go_on(engine: Engine, folder: Path) -> tuple[Engine, dict[str, Run]]:
    """What there is in files, by all queries together, from where they were."""
    own = Engine(engine.spark, shards=2)
    every = queries(own, folder / "in")
    places = [folder / name.replace(" ", "-") for name in every]
    checkpoint = folder / "checkpoint"
    runs = own.start_all([*every.values()], places, checkpoint=checkpoint, available_now=True)
    assert runs[0].await_end()
    return own, dict(zip(every, runs, strict=True))


def rows(run: Run) -> set[tuple[Any, ...]]:
    found = run.elements().toArrow().to_pylist()
    assert {row["kind"] for row in found} == {"insert"}
    return {(row["k"], row["start"], row["end"], row["said"]) for row in found}


def test_a_query_goes_on_without_windows_that_fail(engine: Engine, tmp_path: Path) -> None:
    write_rows(tmp_path / "in", 0, unlucky=True)
    write_rows(tmp_path / "in", 1, unlucky=False)
    own, runs = go_on(engine, tmp_path)
    with own:
        wanted = {row for row in rows(runs["total"]) if row[:2] != (1, 20)}
        assert len(wanted) == len(rows(runs["total"])) - 1 == 9
        for name, run in runs.items():
            if name != "total":
                assert rows(run) == wanted, name
        run = runs["total"]
        # They share every batch, and what is counted.
        assert [batch["failed_windows"] for batch in run.metrics()] == [0, 6]
        assert run.totals["failed_windows"] == 6
        told = {(each["module"], each["reason"]) for each in run.failures()}
        assert told == {
            ("raising", "raising raised ValueError: unlucky"),
            ("mistyped", "mistyped returned 'thirteen', which is not of type int64"),
            ("early", "early returned an event from 15 on, before its window"),
        }
        assert {tuple(each["window"]) for each in run.failures()} == {("20", "30")}
        port = own.serve_metrics()
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        assert f'anabranch_failed_windows_total{{query="{run.name}"}} 6.0' in lines
    write_rows(tmp_path / "in", 2, unlucky=True)
    write_rows(tmp_path / "in", 3, unlucky=False)
    own, runs = go_on(engine, tmp_path)
    with own:
        wanted = {row for row in rows(runs["total"]) if row[:2] not in [(1, 20), (1, 80)]}
        assert {name for name, run in runs.items() if rows(run) == wanted} == {*runs} - {"total"}
        kept = runs["total"].quarantine()
    assert len(kept) == 6
    assert [each["batch"] for each in kept] == [1, 1, 1, 3, 3, 3]
    first = next(each for each in kept if each["module"] == "raising")
    assert first["group"] == "(1)"
    assert first["event"] == "(13) during [25, 26)"
    assert first["count"] == len(first["events"]) == 10
    assert first["events"][5] == {"values": "(13)", "start": "25", "end": "26"}
    shown = CliRunner().invoke(app, ["state", str(tmp_path / "checkpoint"), "--quarantine"])
    assert "raising raised ValueError: unlucky" in shown.output
    assert "6 windows in quarantine" in shown.output
    words = ["state", str(tmp_path / "checkpoint"), "--quarantine", "--json"]
    lines = CliRunner().invoke(app, words).output.splitlines()
    assert [json.loads(line) for line in lines] == kept
