"""Spark answers with the revisions of a log applied."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.runtime.revised_streams import Round, meaning, revision

from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Adjust, Insert, batch_of
from anabranch.model.time import Time
from anabranch.runtime.elements.elements import element_table
from anabranch.runtime.sources.files.log_folder import LogFolder, write_part, write_revision
from anabranch.runtime.spark.snapshots import read_elements, snapshot_of

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64())])
ROUNDS = [
    Round(batch_of([Insert((1,), 15, 40), Insert((1,), 18, 25)], SCHEMA).with_stable(Time(30))),
    Round(
        batch_of([Adjust((1,), 15, 40, 35), Insert((2,), 31)], SCHEMA).with_stable(Time(31)),
        (
            revision(1, [Adjust((1,), 20, 30, 20), Insert((3,), 17, 29)], SCHEMA),
            revision(2, [Adjust((3,), 20, 22, 20)], SCHEMA),
        ),
    ),
]


def test_snapshots_of_a_log_have_its_revisions(spark: SparkSession, tmp_path: Path) -> None:
    log = LogFolder(str(tmp_path / "log"))
    log.create(SCHEMA, query="q", clock=INTEGERS)
    for number, each in enumerate(ROUNDS):
        files = [write_part(log.path, number, 0, each.rows, clock=INTEGERS)]
        revisions = [write_revision(log.path, number, r, clock=INTEGERS) for r in each.revisions]
        log.commit(number, each.rows.stable, files, revisions)
    changes = [f"{log.path}/{each.file.name}" for each in log.revisions()]
    elements = read_elements(spark, log.files(), changes)
    wanted = meaning(ROUNDS)
    for instant in (14, 16, 19, 21, 24, 26, 30, 34, 36):
        found = Counter(
            tuple(row) for row in snapshot_of(elements, SCHEMA, Time(instant)).collect()
        )
        assert found == wanted.snapshot(instant), instant
    table = spark.createDataFrame(element_table(log.parts(), SCHEMA))
    for instant in (19, 21, 26):
        found = Counter(tuple(row) for row in snapshot_of(table, SCHEMA, Time(instant)).collect())
        assert found == wanted.snapshot(instant), instant
    kinds = Counter(row.kind for row in elements.collect())
    assert kinds == {"insert": 3, "adjust": 1, "revise-insert": 1, "revise-adjust": 2}
