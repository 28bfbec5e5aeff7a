"""Copies are merged on Spark: compatible after every batch, whoever comes and goes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from anabranch import Engine, LogicalStream, Run, Stream, cutover, jumpstart
from anabranch.algebra.merge import CASES, Case
from anabranch.merging.feedback import tell
from anabranch.merging.logs import merge_logs
from anabranch.model.elements import Adjust, Insert, Stable, element_json
from anabranch.model.stream_file import read_batches
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.log_folder import LogFolder
from anabranch.testing import MERGE_CASES, MergeCase, MergeScript, MergeWatch, make_script
from anabranch.testing.physical import Element, Move, elements_of, stable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("payload", pa.string())])
QUERY = """
CREATE OR REPLACE STREAM rows (k INT, v INT, ts INT)
  SOURCE '{folder}/rows/*.jsonl' ORDERED BY ts DELAY 5;
SELECT k, COUNT(*) AS n, SUM(v) AS total FROM rows WINDOW(RANGE 20 SLIDE 10) GROUP BY k
"""


def line(element: Element) -> str:
    """An element as a line of a stream file."""
    plain: Any
    if not isinstance(element, Move):
        plain = Stable(element.time)
    elif element.end == element.start:
        plain = Insert(dict(zip(SCHEMA.names, element.payload)), element.start, element.new_end)
    else:
        payload = dict(zip(SCHEMA.names, element.payload))
        plain = Adjust(payload, element.start, element.end, element.new_end)
    return json.dumps(element_json(plain)) + "\n"


def one_life_each(case: MergeCase, seed: int) -> MergeScript:
    """A script in which copies come once, from the beginning on."""
    while True:
        script = make_script(case, Random(seed).randrange, max_inputs=3)
        attached = [(each[1], each[2]) for each in script.actions if each[0] == "attach"]
        names = [name for name, _ in attached]
        whole = len(names) == len(set(names)) and all(t == BEGINNING for _, t in attached)
        if whole and len(names) > 1 and len(script.actions) > 12:
            return script
        seed += 1000


class Log:
    """What a run has written since it was last looked at."""

    def __init__(self, folder: Path) -> None:
        self.log = LogFolder(str(folder))
        self.seen = 0
        self.stable = int(BEGINNING)

    def news(self) -> list[Element]:
        found: list[Element] = []
        batches = list(self.log.read())
        for batch in batches[self.seen :]:
            found += elements_of(batch)
            if batch.stable > self.stable:
                self.stable = int(batch.stable)
                found.append(stable(self.stable))
        self.seen = len(batches)
        return found


@pytest.mark.parametrize(("case", "seed"), [("R3", 1), ("R3", 2), ("R4", 3), ("R2", 4)])
def test_the_output_is_compatible_after_every_batch(
    engine: Engine, tmp_path: Path, case: MergeCase, seed: int
) -> None:
    script = one_life_each(case, seed)
    folder = tmp_path / "copies"
    folder.mkdir()
    copies = engine.stream(f"{folder}/*.jsonl", name=f"c{seed}", copies=True, schema=SCHEMA)
    kind: Case = CASES[MERGE_CASES.index(case)]
    run = copies.merge(case=kind).start(to=tmp_path / "log", checkpoint=tmp_path / "checkpoint")
    watch = MergeWatch(multiset=case == "R4", laconic=case == "R3")
    log, waiting, dice = Log(tmp_path / "log"), 0, Random(seed)
    for action in script.actions:
        name = action[1]
        file = folder / f"{name}.jsonl"
        if action[0] == "attach":
            watch.attach(name)
            file.touch()
        elif action[0] == "detach":
            _look(run, log, watch)
            watch.detach(name)
            run.control.detach(f"c{seed}", copy=file.name)
        else:
            watch.take(name, action[2])
            with file.open("a") as out:
                out.write(line(action[2]))
            waiting += 1
        if waiting > dice.randrange(2, 9):
            _look(run, log, watch)
            waiting = 0
    _look(run, log, watch)
    run.stop()


def _look(run: Run, log: Log, watch: MergeWatch) -> None:
    run.drain()
    for element in log.news():
        watch.emit(element)
    assert [str(each) for each in watch.violations()] == []


def rows(folder: Path, number: int, seed: int) -> None:
    """One more file of rows."""
    dice = Random(seed * 1000 + number)
    (folder / "rows").mkdir(exist_ok=True)
    begin = number * 10
    lines = [
        {"k": dice.randrange(3), "v": dice.randrange(9), "ts": begin + dice.randrange(12)}
        for _ in range(15)
    ]
    text = "".join(json.dumps(each) + "\n" for each in lines)
    hidden = folder / "rows" / f".{number}"
    hidden.write_text(text)
    hidden.replace(folder / "rows" / f"{number:03}.jsonl")


def right(folder: Path) -> LogicalStream:
    """What the query means."""
    Engine().sql(QUERY.format(folder=folder)).run_local(to=folder / "right.jsonl")
    return LogicalStream.of_batches(list(read_batches(folder / "right.jsonl")))


def copy_of(engine: Engine, folder: Path, name: str, text: str = QUERY) -> Run:
    """A copy of the query, that goes on where it was."""
    query: Stream = engine.sql(text.format(folder=folder))
    return query.canonical().start(to=folder / "copies" / name, share=False)


def test_a_copy_begins_where_another_is_and_takes_its_place(engine: Engine, tmp_path: Path) -> None:
    for number in range(6):
        rows(tmp_path, number, 1)
    first = copy_of(engine, tmp_path, "first")
    first.drain()
    merged = merge_logs(engine, tmp_path / "copies", tmp_path / "merged", case="r3")
    merged.drain()
    since = jumpstart(tmp_path / "copies" / "first", tmp_path / "copies" / "second")
    assert since == LogFolder(str(tmp_path / "copies" / "first")).stable()
    second = copy_of(engine, tmp_path, "second")
    for number in range(6, 9):
        rows(tmp_path, number, 1)
    second.drain()
    merged.drain()
    reached = cutover(
        tmp_path / "merged", tmp_path / "copies" / "first", tmp_path / "copies" / "second"
    )
    assert reached == LogFolder(str(tmp_path / "merged")).stable()
    first.stop()
    for number in range(9, 13):
        rows(tmp_path, number, 1)
    second.drain()
    merged.drain()
    second.stop()
    merged.stop()
    got = LogicalStream.of_batches(list(LogFolder(str(tmp_path / "merged")).read()))
    assert merged.stable == second.stable > reached
    assert got.difference(right(tmp_path), merged.stable) == ""
    (stage,) = merged.metrics()[-1]["stages"].values()
    statuses = [{c["name"]: c["status"] for c in each["copies"]} for each in stage["reports"]]
    assert statuses == [{"first": "left", "second": "joined"}] * 2


def test_a_copy_that_is_behind_skips_what_is_settled(engine: Engine, tmp_path: Path) -> None:
    for number in range(4):
        rows(tmp_path, number, 2)
    # Rows that are let through one by one can be left out one by one.
    stream, _ = QUERY.split(";")
    slow = copy_of(engine, tmp_path, "slow", f"{stream}; SELECT k, v FROM rows WHERE v > 3")
    slow.drain()
    told: dict[str, int] = {}
    reached = int(slow.stable) + 25
    tell(reached, str(tmp_path / "copies"), told)
    assert told == {"slow": reached}
    tell(reached, str(tmp_path / "copies"), told)
    # It counts from the batch on that follows the one in which it is heard.
    rows(tmp_path, 4, 2)
    slow.drain()
    for number in range(5, 9):
        rows(tmp_path, number, 2)
    slow.drain()
    commands = [each for batch in slow.metrics() for each in batch.get("control", ())]
    assert [(each["verb"], each["value"]) for each in commands] == [("feedback", reached)]
    before, after = _rows(tmp_path, range(5)), _rows(tmp_path, range(5, 9))
    skipped = sum(batch["sources"]["rows"].get("skipped", 0) for batch in slow.metrics())
    assert skipped == sum(row["ts"] + 1 < reached for row in after) > 0
    slow.stop()
    # What ends later is all there.
    got = LogicalStream.of_batches(list(LogFolder(str(tmp_path / "copies" / "slow")).read()))
    there = [row for row in before + after if row["v"] > 3 and row["ts"] >= reached]
    for time in {row["ts"] for row in there}:
        wanted = Counter((row["k"], row["v"]) for row in there if row["ts"] == time)
        assert got.snapshot(Time(time)) == wanted


def _rows(folder: Path, numbers: range) -> list[dict[str, int]]:
    files = [folder / "rows" / f"{number:03}.jsonl" for number in numbers]
    return [json.loads(each) for file in files for each in file.read_text().splitlines()]
