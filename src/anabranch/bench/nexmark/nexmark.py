"""The public Nexmark benchmark: Anabranch beside Spark Structured Streaming and Flink SQL."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from anabranch.bench.nexmark.flink import CANNOT as FLINK_CANNOT
from anabranch.bench.nexmark.flink import flink, why_no_flink, write_csv
from anabranch.bench.nexmark.scripts import QUERIES, script_of
from anabranch.bench.nexmark.spark import CANNOT as SPARK_CANNOT
from anabranch.bench.nexmark.spark import run_spark
from anabranch.bench.report import Form, Report
from anabranch.engine import Engine
from anabranch.errors import QueryError
from anabranch.runtime.spark.session import parallelism
from anabranch.stream import Stream
from anabranch.workloads.nexmark_arrival import write_event_rows
from anabranch.workloads.nexmark_events import NexmarkEvents

PEERS: Final[Mapping[str, Mapping[str, str]]] = {"spark": SPARK_CANNOT, "flink": FLINK_CANNOT}
"""Whom we are measured beside, and which queries they cannot run."""

# Spark keeps the state of its own queries in its process, for some time after they have ended.
_MEMORY: Final = {"spark.driver.memory": "6g"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkSize:
    """How much is measured. The first run of a query is warm-up, for everyone."""

    events: int
    files: int
    files_per_batch: int
    repeats: int
    queries: tuple[str, ...]


_SOME: Final = ("q0", "q5", "q12")
SIZES: Final[Mapping[Form, NexmarkSize]] = {
    "full": NexmarkSize(events=2_000_000, files=4, files_per_batch=2, repeats=3, queries=QUERIES),
    "quick": NexmarkSize(events=100_000, files=2, files_per_batch=2, repeats=1, queries=_SOME),
    # The first run is the only one, and counts.
    "smoke": NexmarkSize(events=1_000, files=1, files_per_batch=1, repeats=0, queries=_SOME),
}
_QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""In the shorter forms nothing runs for so long that a thorough compiler pays, for anyone."""


def nexmark(
    report: Report, *, queries: Sequence[str] = (), peers: Sequence[str] | None = None
) -> None:
    """Measure all queries, or some.

    An event is a person, an auction or a bid; events per second are those of all streams, whichever
    of them a query reads, by the seconds that it takes to process them.

    Figures: `<query>_events_per_s`, `<query>_vs_spark`, `<query>_vs_flink`; the shares of queries
    in which we are ahead, `ahead_of_spark` and `ahead_of_flink`, of those that the other can run;
    and `worst_ratio`. Without `peers` we are measured beside all that are there: a Flink that
    cannot be installed is left out with a note, and the smoke form does not install it.

    Raises:
        QueryError: There is no such query, or nobody of that name to be measured beside.
    """
    size = SIZES[report.form]
    chosen = tuple(queries) or size.queries
    _check(chosen, QUERIES, "query", "queries")
    _check(peers or (), tuple(PEERS), "peer", "peers")
    present = tuple(PEERS) if peers is None else tuple(peers)
    if peers is None and (absent := why_no_flink(install=report.form != "smoke")):
        report.measured("peer", engine="flink", left_out=absent)
        present = tuple(peer for peer in present if peer != "flink")
    report.measured("setup", form=report.form, events=size.events, peers=list(present))
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    speeds: dict[tuple[str, str], list[float]] = {}
    try:
        write_event_rows(root / "rows", NexmarkEvents(events=size.events), files=size.files)
        for query, who, repeat, seconds in _runs(report, root, size, chosen, present):
            rate = size.events / seconds
            counts = repeat > 0 or not size.repeats
            if counts:
                speeds.setdefault((query, who), []).append(rate)
            report.measured(
                query,
                engine=who,
                repeat=repeat,
                counts=counts,
                events_per_s=round(rate),
                seconds=round(seconds, 3),
            )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    _figures(report, {key: statistics.median(rates) for key, rates in speeds.items()}, present)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """One of our runs.

    Attributes:
        seconds: What its batches took.
        driver: How many of them the driver computed itself.
        tasks: How many ran as jobs of Spark.
        milliseconds: Where the time of a batch went, on average: `spark` (planning and logs of
            Spark), `batch` (reading, computing, committing) and of that the steps of each stage,
            by its name, in the slowest shard.
    """

    seconds: float
    driver: int
    tasks: int
    milliseconds: Mapping[str, float]


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
    parts = {"spark": float(whole - inside), "batch": float(inside)}
    for batch in batches:
        for name, stage in batch["stages"].items():
            parts[name] = parts.get(name, 0.0) + 1_000 * stage["seconds"]["step"]
    where = [batch["ran"] for batch in batches]
    return OwnRun(
        seconds=whole / 1_000,
        driver=where.count("driver"),
        tasks=where.count("tasks"),
        milliseconds={name: round(total / len(batches), 1) for name, total in parts.items()},
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


def _runs(
    report: Report,
    root: Path,
    size: NexmarkSize,
    queries: Sequence[str],
    peers: Sequence[str],
) -> Iterator[tuple[str, str, int, float]]:
    """Query, engine, number of the run, seconds; those of one query beside each other.

    In the shorter forms Flink gets ready while others run.
    """
    rows = root / "rows"
    short = report.form != "full"
    java = _QUICK_JAVA if short else ""
    with ExitStack() as stack:
        early = stack.enter_context(flink(java)) if short and "flink" in peers else None
        if short:
            os.environ.setdefault("SPARK_SUBMIT_OPTS", java)
        tasks = yield from _on_spark(report, root, size, queries, peers)
        for peer, cannot in PEERS.items():
            for query in queries:
                if peer in peers and query in cannot:
                    report.measured(query, engine=peer, cannot=cannot[query])
        if "flink" in peers:
            write_csv(rows, root / "csv", tasks)
            running = early or stack.enter_context(flink())
            repeats = size.repeats + 1
            for line in running.run(root / "csv", queries, tasks=tasks, repeats=repeats):
                if "problem" in line:
                    report.measured(line["job"], engine="flink", problem=line["problem"])
                else:
                    yield line["job"], "flink", line["repeat"], line["seconds"]


def _on_spark(
    report: Report, root: Path, size: NexmarkSize, queries: Sequence[str], peers: Sequence[str]
) -> Generator[tuple[str, str, int, float], None, int]:
    """Our own runs and Spark's, in one session; gives how many tasks run at once."""
    rows = root / "rows"
    settings = None if report.spark is not None else _MEMORY
    with Engine(report.spark, settings=settings) as engine:
        tasks = parallelism(engine.spark)
        for query in queries:
            for repeat in range(size.repeats + 1):
                work = root / f"{query}-{repeat}"
                own = run_ours(engine, rows, query, work / "own", size.files_per_batch)
                yield query, "anabranch", repeat, own.seconds
                if "spark" in peers and query not in SPARK_CANNOT:
                    batches = run_spark(
                        engine.spark, rows, query, work / "spark", size.files_per_batch
                    )
                    yield query, "spark", repeat, sum(batch["seconds"] for batch in batches)
                shutil.rmtree(work, ignore_errors=True)
            report.measured(
                "way",
                query=query,
                driver=own.driver,
                tasks=own.tasks,
                batch_ms=dict(own.milliseconds),
                plan=plan_of(engine, rows, query),
            )
    return tasks


def _figures(report: Report, speeds: Mapping[tuple[str, str], float], peers: Sequence[str]) -> None:
    ratios: dict[str, list[float]] = {peer: [] for peer in peers}
    for (query, who), own in speeds.items():
        if who != "anabranch":
            continue
        report.figure(f"{query}_events_per_s", own)
        for peer in peers:
            if (query, peer) in speeds:
                ratios[peer].append(own / speeds[query, peer])
                report.figure(f"{query}_vs_{peer}", ratios[peer][-1])
    for peer, found in ratios.items():
        if found:
            report.figure(f"ahead_of_{peer}", sum(ratio > 1 for ratio in found) / len(found))
    everything = [ratio for found in ratios.values() for ratio in found]
    if everything:
        report.figure("worst_ratio", min(everything))


def _check(chosen: Sequence[str], known: Sequence[str], one: str, many: str) -> None:
    for name in chosen:
        if name not in known:
            raise QueryError(
                f"there is no {one} '{name}'",
                where=f"option --{many} {','.join(chosen)}",
                hint=f"{many} are: {', '.join(known)}",
            )
