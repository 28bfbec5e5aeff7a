"""Workers of Spark that take every other path give the same answers, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e import small_thresholds_query
from tests.size.data import Shape, write
from tests.size.oracle import check_legal

from anabranch import Engine, read_batches
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.thresholds import VARIABLE
from anabranch.testing import assert_identical

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
def test_a_few_rows_cross_every_threshold_in_workers(tmp_path: Path) -> None:
    write(tmp_path / "in", Shape(rows=240, files=4, keys=30, elements=True))
    subprocess.run(
        [sys.executable, small_thresholds_query.__file__, str(tmp_path)],
        env={**os.environ, VARIABLE: "2", "PYSPARK_PYTHON": sys.executable},
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name, query in small_thresholds_query.queries(Engine(), tmp_path / "in").items():
        query.run_local(to=str(tmp_path / f"{name}.jsonl"))
        expected = list(read_batches(tmp_path / f"{name}.jsonl", query.schema))
        found = list(LogFolder(str(tmp_path / name)).read())
        check_legal(found)
        assert_identical(expected, found)
