"""Flink SQL beside us: the public Nexmark queries, in an environment of its own.

Flink is no dependency: the versions it pins do not go with ours. The first run makes a virtual
environment in `build/flink-venv`. Its PyPI package has no Parquet format, so it gets the same
events as CSV, one file per task. The queries are those of github.com/nexmark/nexmark, with these
changes: no processing time (q12), a plain join with the side input (q13), count_char in SQL
(q14), no rank in the result (q19). Settings are those of the benchmark as well (mini batches,
split distinct aggregates), but that nothing is checkpointed, that operators hand on their objects
without copies, and that there is as much memory as for Spark.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from anabranch.bench.nexmark.flink_sql import QUERIES
from anabranch.errors import PlanError
from anabranch.runtime.spark.java import use_java
from anabranch.workloads.nexmark_events import SCHEMAS

PACKAGES: Final = (
    "apache-flink==2.3.0",
    "apache-flink-libraries==2.3.0",
    "py4j==0.10.9.7",
    "ruamel.yaml==0.18.14",
    "typing-extensions==4.15.0",
)
"""All that SQL jobs need; what Flink needs for functions in Python is left out."""

CANNOT: Final[Mapping[str, str]] = {
    "q6": "an OVER window cannot take rows back, and the winning bids below it change",
}
"""The queries that Flink SQL cannot run, and why."""

_SETTINGS: Final = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "pipeline.object-reuse": "true",
    # Of the memory of its process, for windows; the default is 128 MB.
    "taskmanager.memory.managed.size": "1g",
    "table.local-time-zone": "UTC",
}
_ENVIRONMENT: Final = {
    "JAVA_TOOL_OPTIONS": "-Xmx6g",
    # There are no functions in Python, so nothing is started for them.
    "_python_worker_execution_mode": "process",
}
ROOT: Final = Path("build/flink-venv")
_DONE: Final = ".installed"
_JOB: Final = Path(__file__).with_name("flink_job.py")
_TYPES: Final = {pa.int64(): "BIGINT", pa.string(): "STRING"}


def flink_python(root: Path = ROOT) -> Path:
    """The interpreter of Flink's environment, which is made if needed.

    Raises:
        PlanError: Flink cannot be installed.
    """
    python = root / "bin" / "python"
    if _is_installed(root):
        return python
    venv.create(root, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    made = subprocess.run(
        [*command, "--no-deps", *PACKAGES], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise PlanError(
            "Flink cannot be installed",
            where=made.stderr.strip().splitlines()[-1][:200],
            hint="it needs PyPI and Python 3.9 to 3.12; leave it out with --peers spark",
        )
    (root / _DONE).write_text("\n".join(PACKAGES))
    return python


def why_no_flink(*, install: bool, root: Path = ROOT) -> str | None:
    """Why there is no Flink here; None if there is one."""
    if not install:
        return None if _is_installed(root) else f"Flink is not installed in {root}"
    try:
        flink_python(root)
    except PlanError as problem:
        return f"Flink cannot be installed: {problem.where}"
    return None


def _is_installed(root: Path) -> bool:
    done = root / _DONE
    return done.exists() and done.read_text() == "\n".join(PACKAGES)


def write_csv(rows: Path, folder: Path, tasks: int) -> None:
    """The events of a folder as CSV: every task gets every so-many-th row, in order."""
    for stream in SCHEMAS:
        table = pq.read_table(rows / stream)
        for field in table.schema:
            if pa.types.is_timestamp(field.type):
                index = table.schema.get_field_index(field.name)
                text = pc.strftime(table.column(index), "%Y-%m-%d %H:%M:%S")
                # Seconds come with six digits; Flink's TIMESTAMP(3) takes three.
                short = pc.utf8_slice_codeunits(text, 0, 23)
                table = table.set_column(index, field.name, short)
        for task in range(tasks):
            part = table.take(pa.array(np.arange(task, table.num_rows, tasks)))
            index = folder / stream / f"part-{task}.csv"
            index.parent.mkdir(parents=True, exist_ok=True)
            pcsv.write_csv(part, index, pcsv.WriteOptions(include_header=False))
    side = pcsv.read_csv(rows / "side_input.csv")
    pcsv.write_csv(side, folder / "side_input.csv", pcsv.WriteOptions(include_header=False))


@contextmanager
def flink(java: str = "") -> Iterator[Flink]:
    """A Flink that gets ready while others are busy; `java` are more options for its JVM."""
    use_java()
    environment = {**os.environ, **_ENVIRONMENT}
    environment["JAVA_TOOL_OPTIONS"] += f" {java}"
    with tempfile.TemporaryFile("w+") as talk:
        process = subprocess.Popen(
            [str(flink_python().absolute()), str(_JOB)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=talk,
            text=True,
            env=environment,
        )
        with process:
            try:
                yield Flink(process, talk)
            finally:
                process.kill()


class FlinkQueryError(Exception):
    """Flink has not run a query, and this is what it said; it runs others."""


@final
@dataclass(frozen=True, slots=True)
class Flink:
    """A Flink in a process of its own, which runs what it is told."""

    process: subprocess.Popen[str]
    talk: IO[str]

    def prepare(self, folder: Path, tasks: int) -> None:
        """Declare the streams of a folder of CSV; jobs will have so many tasks."""
        settings = {**_SETTINGS, "parallelism.default": str(tasks)}
        self._tell({"settings": settings, "tables": _tables(folder)})

    def run(self, query: str) -> float:
        """Run a query once; the seconds that its job took.

        Raises:
            FlinkQueryError: It has failed.
            PlanError: Flink has ended.
        """
        self._tell({"name": query, "query": QUERIES[query]})
        said = self._hear()
        if "problem" in said:
            raise FlinkQueryError(said["problem"])
        return float(said["seconds"])

    def _tell(self, order: Mapping[str, object]) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    def _hear(self) -> Mapping[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                said: Mapping[str, Any] = json.loads(line)
                return said
        self.talk.seek(0)
        raise PlanError(
            "Flink has failed",
            where=(self.talk.read().strip().splitlines() or ["without a word"])[-1][:200],
            hint="remove build/flink-venv to install it again, or leave Flink out: --peers spark",
        )


def _tables(folder: Path) -> list[str]:
    index = folder.absolute().as_uri()
    statements = []
    for stream, schema in SCHEMAS.items():
        columns = ", ".join(f"`{f.name}` {_TYPES.get(f.type, 'TIMESTAMP(3)')}" for f in schema)
        statements.append(
            f"CREATE TABLE {stream} ({columns}, "
            "WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND) "
            f"WITH ('connector' = 'filesystem', 'path' = '{index}/{stream}', 'format' = 'csv')"
        )
    statements.append(
        "CREATE TABLE side_input (key BIGINT, `value` STRING) "
        f"WITH ('connector' = 'filesystem', 'path' = '{index}/side_input.csv', 'format' = 'csv')"
    )
    return statements
