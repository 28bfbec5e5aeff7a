"""Drawn scripts on Spark give what their texts say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.e2e.placement import share

from anabranch import Engine, LogicalStream, read_batches, write_stream
from anabranch.algebra.source import Source
from anabranch.model.time import FOREVER
from anabranch.runtime.query.run import Run
from anabranch.testing import PhysicalStream, assert_identical, meaning
from anabranch.testing.sql.cases import SOURCES, SqlCase, cases, difference_from_text

pytestmark = pytest.mark.spark

DEEP = settings.get_current_profile_name() == "nightly"
QUERIES = 60 if DEEP else 18
TOGETHER = 6
CUT = 12 if DEEP else 6
"""So many of them run once more, over files that are cut in another way."""


def drawn(count: int) -> list[SqlCase]:
    """The same scripts in every run, over streams that give them something to do."""
    found: list[SqlCase] = []

    @seed(2007)
    @settings(
        max_examples=count * 4,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(depth=1))
    def take(case: SqlCase) -> None:
        rows = sum(len(stream.elements) for stream in case.streams.values())
        if rows > 20 and len(found) < count and len(case.script.text) < 700:
            found.append(case)

    take()
    return found


def declare(engine: Engine, root: Path, source: Source, stream: PhysicalStream, parts: int) -> None:
    """Points as rows of files; lifetimes as elements in files, with corrections."""
    (root / source.name).mkdir()
    if not source.only_points:
        cuts = [len(stream.elements) * part // (parts + 1) for part in range(1, parts + 1)]
        for number, batch in enumerate(stream.batches(*cuts)):
            write_stream(root / source.name / f"{number}.jsonl", [batch])
        engine.stream(
            root / source.name, name=source.name, schema=source.schema, max_files_per_batch=1
        )
        return
    names = [*source.schema.names, "at"]
    rows = [(*row, start) for row, start, _ in stream.meaning().events()]
    for part in range(parts):
        lines = [f"{json.dumps(dict(zip(names, row)))}\n" for row in rows[part::parts]]
        (root / source.name / f"{part}.jsonl").write_text("".join(lines))
    path = root / source.name
    types = {"string": "STRING", "int64": "BIGINT", "double": "DOUBLE"}
    columns = ", ".join(f"{field.name} {types[str(field.type)]}" for field in source.schema)
    engine.sql(
        f"CREATE STREAM {source.name} ({columns}, at BIGINT) SOURCE '{path}' ORDERED BY at "
        f"WITH (ends = TRUE, max_files_per_batch = {parts})"
    )


def start(
    spark: Any, root: Path, case: SqlCase, shards: int = 2, parts: int = 1
) -> tuple[SqlCase, Any, Run]:
    root.mkdir()
    engine = Engine(spark, shards=shards)
    for name, stream in case.streams.items():
        declare(engine, root, SOURCES[name], stream, parts)
    query = engine.sql(case.script.text)
    run = query.start(to=root / "out.jsonl", available_now=True, allow_unbounded=True)
    return case, query, run


def test_drawn_scripts_on_spark(spark: object, tmp_path: Path) -> None:
    waiting = drawn(QUERIES)
    assert len(waiting) == QUERIES
    answered = 0
    for first in range(0, QUERIES, TOGETHER):
        runs = [
            start(spark, tmp_path / f"{number}", waiting[number])
            for number in range(first, min(first + TOGETHER, QUERIES))
        ]
        for number, (case, query, run) in enumerate(runs, start=first):
            run.await_end()
            out = list(read_batches(tmp_path / f"{number}" / "out.jsonl", query.schema))
            assert max(batch.stable for batch in out) == FOREVER
            got = LogicalStream.of_batches(out)
            given_ = {name: stream.meaning() for name, stream in case.streams.items()}
            want = meaning(query.node, given_)
            assert not got.difference(want), f"{case}\n{got.difference(want)}"
            wrong = difference_from_text(got, case.script, given_, most=4)
            assert not wrong, f"{case}\n{wrong}"
            answered += bool(got.steps)
    assert answered > QUERIES // 3


def test_drawn_scripts_give_the_same_however_their_files_are_cut_and_wherever_batches_run(
    spark: Any, tmp_path: Path
) -> None:
    in_driver = 0
    for number, case in enumerate(drawn(CUT)):
        outputs = []
        for shards, parts, driver_rows in ((1, 1, 0), (3, 3, 0), (3, 3, 1_000_000)):
            root = tmp_path / f"{number}-{shards}-{driver_rows}"
            with share(spark, driver_rows):
                _, query, run = start(spark, root, case, shards, parts)
                run.await_end()
            places = {each["ran"] for each in run.metrics() if each["rows_in"]}
            in_driver += places == {"driver"}
            assert driver_rows or "driver" not in places
            outputs.append(list(read_batches(root / "out.jsonl", query.schema)))
        assert_identical(outputs[0], outputs[1])
        assert_identical(outputs[0], outputs[2])
    assert in_driver >= CUT // 2
