"""The public Nexmark benchmark: Anabranch beside Spark Structured Streaming and Flink SQL."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from anabranch.bench.nexmark.flink import CANNOT as FLINK_CANNOT
from anabranch.bench.nexmark.flink import FlinkQueryError, flink, why_no_flink, write_csv
from anabranch.bench.nexmark.own import OwnRun, plan_of, run_ours
from anabranch.bench.nexmark.scripts import QUERIES
from anabranch.bench.nexmark.spark import CANNOT as SPARK_CANNOT
from anabranch.bench.nexmark.spark import SparkForm, faster_form, run_spark
from anabranch.bench.nexmark.warm_up import is_warm
from anabranch.bench.report import Form, Report
from anabranch.engine import Engine
from anabranch.errors import QueryError
from anabranch.runtime.spark.session import parallelism
from anabranch.workloads.nexmark_arrival import write_event_rows
from anabranch.workloads.nexmark_events import NexmarkEvents

PEERS: Final[Mapping[str, Mapping[str, str]]] = {"spark": SPARK_CANNOT, "flink": FLINK_CANNOT}
"""Whom we are measured beside, and which queries they cannot run."""

# Spark keeps the state of its own queries in its process, for some time after they have ended.
_MEMORY: Final = {"spark.driver.memory": "6g"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkSize:
    """How much is measured: a query warms up `warm_ups` times at the most, for everyone."""

    events: int
    files: int
    files_per_batch: int
    warm_ups: int
    repeats: int
    queries: tuple[str, ...]


_SOME: Final = ("q0", "q5", "q12")
SIZES: Final[Mapping[Form, NexmarkSize]] = {
    "full": NexmarkSize(
        events=4_000_000, files=8, files_per_batch=2, warm_ups=5, repeats=3, queries=QUERIES
    ),
    "quick": NexmarkSize(
        events=100_000, files=2, files_per_batch=2, warm_ups=1, repeats=1, queries=_SOME
    ),
    "smoke": NexmarkSize(
        events=1_000, files=1, files_per_batch=1, warm_ups=0, repeats=1, queries=_SOME
    ),
}
_QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""In the shorter forms nothing runs for so long that a thorough compiler pays, for anyone."""


def nexmark(
    report: Report, *, queries: Sequence[str] = (), peers: Sequence[str] | None = None
) -> None:
    """Measure all queries, or some.

    An event is a person, an auction or a bid; events per second are those of all streams, whichever
    of them a query reads, by the seconds that it takes to process them. Every engine runs a query
    until it is warm; the runs after that count.

    Figures: `<query>_events_per_s`, `<query>_vs_spark`, `<query>_vs_flink`; the shares of queries
    in which we are ahead, `ahead_of_spark` and `ahead_of_flink`, of those that the other can run;
    `worst_ratio`, and `pairs`, the number of pairs of a query and a peer that were compared.
    Without `peers` we are measured beside all that are there: a Flink that cannot be installed is
    left out with a note, and the smoke form does not install it.

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
    report.measured(
        "setup",
        form=report.form,
        events=size.events,
        peers=list(present),
        warm_ups=size.warm_ups,
        repeats=size.repeats,
    )
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    measured = QueryRate(report, size)
    try:
        write_event_rows(root / "rows", NexmarkEvents(events=size.events), files=size.files)
        _measure(measured, root, chosen, present)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    rates = {key: statistics.median(rates) for key, rates in measured.rates.items()}
    _figures(report, rates, present)


@final
@dataclass(frozen=True, slots=True)
class QueryRate:
    """Runs queries until they are warm, and then for their rates, which it collects."""

    report: Report
    size: NexmarkSize
    rates: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def run(self, query: str, engines: Mapping[str, Callable[[], float]]) -> None:
        """Measure a query: first everyone warms up, then all run it in turns."""
        for who, run in engines.items():
            spent: list[float] = []
            while not is_warm(spent, self.size.warm_ups):
                number = len(spent)
                spent.append(run())
                self._say(query, who, spent[-1], warm_up=number)
        for repeat in range(self.size.repeats):
            for who, run in engines.items():
                seconds = run()
                self.rates.setdefault((query, who), []).append(self.size.events / seconds)
                self._say(query, who, seconds, repeat=repeat)

    def _say(self, query: str, who: str, seconds: float, **number: int) -> None:
        rate = round(self.size.events / seconds)
        self.report.measured(
            query, engine=who, **number, events_per_s=rate, seconds=round(seconds, 3)
        )


def _measure(measured: QueryRate, root: Path, queries: Sequence[str], peers: Sequence[str]) -> None:
    """Ours and Spark's in one session, then Flink's.

    In the shorter forms Flink gets ready while others run.
    """
    report = measured.report
    short = report.form != "full"
    java = _QUICK_JAVA if short else ""
    with ExitStack() as stack:
        early = stack.enter_context(flink(java)) if short and "flink" in peers else None
        if short:
            os.environ.setdefault("SPARK_SUBMIT_OPTS", java)
        tasks = _on_spark(measured, root, queries, with_spark="spark" in peers)
        for peer, cannot in PEERS.items():
            for query in queries:
                if peer in peers and query in cannot:
                    report.measured(query, engine=peer, cannot=cannot[query])
        if "flink" in peers:
            write_csv(root / "rows", root / "csv", tasks)
            running = early or stack.enter_context(flink())
            running.prepare(root / "csv", tasks)
            for query in queries:
                if query in FLINK_CANNOT:
                    continue
                try:
                    measured.run(query, {"flink": partial(running.run, query)})
                except FlinkQueryError as problem:
                    report.measured(query, engine="flink", problem=str(problem))


def _on_spark(measured: QueryRate, root: Path, queries: Sequence[str], *, with_spark: bool) -> int:
    """Our own runs and Spark's, in one session; gives how many tasks run at once."""
    report, rows, per_batch = measured.report, root / "rows", measured.size.files_per_batch
    settings = None if report.spark is not None else _MEMORY
    with Engine(report.spark, settings=settings) as engine:
        for query in queries:
            own: list[OwnRun] = []
            engines = {"anabranch": partial(_run_ours, engine, root, query, per_batch, own)}
            if with_spark and query not in SPARK_CANNOT:
                of_spark = partial(_run_spark, engine.spark, root, per_batch)
                form = faster_form(query, of_spark, report.measured, measured.size.repeats)
                engines["spark"] = partial(of_spark, form)
            measured.run(query, engines)
            report.measured(
                "way",
                query=query,
                driver=own[-1].driver,
                tasks=own[-1].tasks,
                batch_ms=dict(own[-1].milliseconds),
                stages_ms={name: dict(spent) for name, spent in own[-1].stages.items()},
                plan=plan_of(engine, rows, query),
            )
        return parallelism(engine.spark)


def _run_ours(engine: Engine, root: Path, query: str, per_batch: int, runs: list[OwnRun]) -> float:
    with _folder(root) as work:
        runs.append(run_ours(engine, root / "rows", query, work, per_batch))
    return runs[-1].seconds


def _run_spark(spark: Any, root: Path, per_batch: int, form: SparkForm) -> float:
    with _folder(root) as work:
        return run_spark(spark, root / "rows", form, work, per_batch)


@contextmanager
def _folder(root: Path) -> Iterator[Path]:
    """A folder for a run, which is gone after it."""
    work = Path(tempfile.mkdtemp(dir=root))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


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
    report.figure("pairs", len(everything))
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
