"""The first minute: importing the package, a run in this process, the first result on Spark."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from anabranch.bench.job_process import run_job
from anabranch.bench.report import Form, Report

REPEATS: Final[Mapping[Form, int]] = {"full": 5, "quick": 2, "smoke": 1}
"""How often each is measured; the first result costs two starts of Spark each time."""

_QUERY: Final = """CREATE STREAM Sale (product STRING, amount DOUBLE, time TIMESTAMP)
  SOURCE '{rows}' ORDERED BY time DELAY 1 HOUR;
SELECT product, MAX(amount) AS most FROM Sale WINDOW(RANGE 1 HOUR) GROUP BY product;
"""


def start(report: Report) -> None:
    """Start processes that import the package, run a small query, and run it on Spark.

    Figures: `import_s`, what `import anabranch` takes beyond an empty Python; `local_s`, a whole
    `anabranch run --engine local` over a hundred rows; `first_result_s`, from a new process to the
    first result on Spark; `first_result_vs_spark`, that over the same query in plain Spark.
    """
    repeats = REPEATS[report.form]
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as name:
        folder = Path(name)
        rows = folder / "sales" / "1.jsonl"
        rows.parent.mkdir()
        rows.write_text("".join(f"{_row(number)}\n" for number in range(100)), encoding="utf-8")
        query = folder / "query.sql"
        query.write_text(_QUERY.format(rows=rows), encoding="utf-8")
        environment = _with_bytecode(folder / "bytecode")
        python, run = [sys.executable, "-c"], [sys.executable, "-m", "anabranch", "run", str(query)]
        empty = _median(repeats, environment, [*python, "pass"])
        imported = _median(repeats, environment, [*python, "import anabranch"])
        report.figure("import_s", max(imported - empty, 0.0))
        report.figure("local_s", _median(repeats, environment, [*run, "--engine", "local"]))
        firsts: dict[str, list[float]] = {"spark": [], "anabranch": []}
        for number in range(repeats):
            for engine, times in firsts.items():
                words = (engine, str(rows.parent), str(folder / f"{engine}{number}"))
                began = time.time()
                found, _ = run_job("anabranch.bench.start_job", *words)
                times.append(found["first_result_at"] - began)
                report.measured("first result", engine=engine, seconds=times[-1])
    spark, own = (statistics.median(firsts[engine]) for engine in ("spark", "anabranch"))
    report.figure("first_result_s", own)
    report.figure("first_result_vs_spark", own / spark)


def _row(number: int) -> str:
    at = f"2026-11-15T08:{number // 60:02}:{number % 60:02}"
    return json.dumps({"product": f"p{number % 5}", "amount": float(number), "time": at})


def _with_bytecode(cache: Path) -> dict[str, str]:
    """Environment of a process that keeps compiled modules, as an installed package has them."""
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(cache)}


def _median(repeats: int, environment: Mapping[str, str], words: list[str]) -> float:
    """Seconds of a process, after one that is not counted: it fills caches."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        subprocess.run(words, check=True, capture_output=True, env=environment)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])
