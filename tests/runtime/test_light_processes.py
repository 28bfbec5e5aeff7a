"""Processes that Spark starts for us load what they need, and not what takes long to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.declare.describe import describe_files
from anabranch.runtime.spark.file_source import leave_job
from anabranch.runtime.workers.file_task import FileJob

_LOADED = """
import sys
def loaded(*names):
    return sorted({name for name in names if name in sys.modules})
"""

_PLAN = (
    _LOADED
    + """
import pyspark.sql.streaming.python_streaming_source_runner
from anabranch.runtime.spark.file_source import FileReader
reader = FileReader(FOLDER, NAME)
end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
print(end, len(reader.partitions(reader.initialOffset(), end)))
print(loaded("duckdb", "pandas", "sqlglot", "numba", "deltalake", "anabranch.algebra.node",
    "anabranch.kernels.plan.stage"))
"""
)

_WORK = (
    _LOADED
    + """
import pyspark.worker
from anabranch.runtime.spark import batch_tasks, frame_source, stages
from anabranch.runtime.workers.begin_task import begin_task
from anabranch.runtime.workers.source_task import send_source
from anabranch.runtime.workers.stage_task import run_level
begin_task()
import pyarrow as pa
pa.array([1])
print(loaded("duckdb", "pandas", "deltalake"))
"""
)


def _output(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_the_process_that_plans_files_loads_no_query_engine(tmp_path: Path, form: str) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    table = pa.table({"k": [1, 2, 3], "ts": pa.array([5, 6, 7], pa.timestamp("us"))})
    if form == "parquet":
        pq.write_table(table, rows / "0.parquet")
    elif form == "csv":
        pcsv.write_csv(table, rows / "0.csv")
    else:
        text = "".join(f'{{"k": {k}, "ts": "1970-01-01T00:00:0{k}"}}\n' for k in range(3))
        (rows / "0.json").write_text(text)
    declared = Declared(name="s", start="ts", delay="1 second", schema=table.schema)
    source, _ = describe_files(str(rows), declared)
    job = FileJob(
        sources=(source,),
        plan_folder=str(tmp_path / "plan"),
        parts=1,
        least=1,
        job=b"",
        control=str(tmp_path / "control"),
    )
    name = leave_job(job, str(tmp_path))
    code = _PLAN.replace("FOLDER", repr(str(tmp_path))).replace("NAME", repr(name))
    assert _output(code) == ["{'entry': 1} 1", "[]"]


def test_a_worker_loads_no_query_engine_before_it_is_asked() -> None:
    assert _output(_WORK) == ["[]"]
