"""Merges on Spark: three copies in files on one core, and feedback between two queries."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from anabranch.bench.job_process import run_job
from anabranch.bench.merge.lab import MergeLab
from anabranch.bench.report import speed
from anabranch.model.files.stream_file import write_stream
from anabranch.workloads.lmerge import LMerge, copy_batches

COPIES = 3


def feedback_on_spark(lab: MergeLab) -> None:
    """How much sooner a query has caught up that a merge has told what is settled already."""
    files, rows = lab.size.feedback
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    # The first file is read before, and the batch of the second brings the feedback.
    words = [str(files), str(rows)]
    try:
        found, _ = run_job("anabranch.bench.merge.feedback_job", str(root), *words)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    told, alone = found["with"], found["without"]
    lab.report.measured("feedback_spark", **found)
    lab.report.figure("feedback_spark", alone["seconds"] / max(told["seconds"], 1e-3))
    lab.report.figure("feedback_spark_skipped", told["skipped"] / max(1, told["rows"]))
    lab.report.figure("feedback_spark_diverged", found["diverged"])


def on_spark(lab: MergeLab) -> None:
    """Elements per second from files to the log of results, in a process of its own."""
    files, rows = lab.size.spark
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    config = LMerge(events=files * rows, text=16, live=lab.size.live)
    try:
        folders = []
        for copy in range(COPIES):
            folder = root / f"copy{copy + 1}"
            folder.mkdir()
            for number, batch in enumerate(copy_batches(config, copy, rows)):
                write_stream(folder / f"part-{number:05}.parquet", [batch], timestamps=True)
            folders.append(str(folder))
        batches, memory = run_job("anabranch.bench.merge.job", str(root / "work"), *folders)
        full = [batch for batch in batches if batch["rows"] >= COPIES * rows // 2]
        rate = speed(full, warm_up=2)
        lab.report.measured("spark", batches=batches, memory_mb=max(memory), per_s=round(rate))
        lab.report.figure("spark_per_s_core", rate)
    finally:
        shutil.rmtree(root, ignore_errors=True)
