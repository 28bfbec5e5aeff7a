"""Our own runs of the Nexmark queries: what they took, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from anabranch.bench.nexmark.scripts import script_of
from anabranch.engine import Engine
from anabranch.stream import Stream


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """One of our runs.

    Attributes:
        seconds: What its batches took.
        driver: How many of them the driver computed itself.
        tasks: How many ran as jobs of Spark.
        milliseconds: Where the time of a batch went, on average: `spark` (planning and logs of
            Spark) and `batch` (reading, computing, committing).
        stages: How much of `batch` each stage took in its slowest shard, by its name: to `gather`
            its input, to compute its `step` and to `store` its state.
    """

    seconds: float
    driver: int
    tasks: int
    milliseconds: Mapping[str, float]
    stages: Mapping[str, Mapping[str, float]]


def run_ours(engine: Engine, data: Path, query: str, work: Path, files_per_batch: int) -> OwnRun:
    """Run one of our queries over all files of a folder."""
    # The others let go of their results as well.
    run = _stream(engine, data, query, files_per_batch).start(
        to="nothing", checkpoint=work / "checkpoint", available_now=True
    )
    run.await_end()
    batches = [batch for batch in run.metrics() if batch["rows_in"]]
    spent = [batch["milliseconds"] for batch in batches]
    whole = sum(each["triggerExecution"] for each in spent)
    inside = sum(each["addBatch"] for each in spent)
    stages: dict[str, dict[str, float]] = {}
    for batch in batches:
        for name, stage in batch["stages"].items():
            own = stages.setdefault(name, {})
            for part, seconds in stage["seconds"].items():
                own[part] = own.get(part, 0.0) + 1_000 * seconds / len(batches)
    where = [batch["ran"] for batch in batches]
    return OwnRun(
        seconds=whole / 1_000,
        driver=where.count("driver"),
        tasks=where.count("tasks"),
        milliseconds={
            "spark": round((whole - inside) / len(batches), 1),
            "batch": round(inside / len(batches), 1),
        },
        stages={
            name: {part: round(spent, 1) for part, spent in own.items()}
            for name, own in stages.items()
        },
    )


def plan_of(engine: Engine, data: Path, query: str) -> list[str]:
    """The plan of a query, as `explain` prints it."""
    told = _stream(engine, data, query, files_per_batch=1).explain().splitlines()
    begin = told.index("Plan") + 1
    return [line.removeprefix("  ") for line in told[begin : told.index("", begin)]]


def _stream(engine: Engine, data: Path, query: str, files_per_batch: int) -> Stream:
    # Every script declares its streams anew, so it gets an engine of its own over the same Spark.
    script = script_of(query, data, files_per_batch=files_per_batch)
    made = Engine(engine.spark).sql(script, name=query)
    assert isinstance(made, Stream)
    return made
