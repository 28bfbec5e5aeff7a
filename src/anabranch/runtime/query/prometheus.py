"""Metrics of queries in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from anabranch.errors import EngineError
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.measure.running_plan import batch_size

if TYPE_CHECKING:
    from anabranch.runtime.query.run import Run

_SOURCE_TOTALS: Final[Mapping[str, str]] = {
    "rows": "Rows that a source has sent.",
    "late": "Rows of a source that were late and dropped.",
    "adjusted": "Rows of a source that were late and cut.",
    "rewritten": "Files of a source that were written again after they were read.",
}
_COPY_TOTALS: Final[Mapping[str, str]] = {
    "rows": "Rows that a copy of a source has sent.",
    "late": "Rows of a copy that were late and dropped.",
}
_STAGE_GAUGES: Final[Mapping[str, str]] = {
    "state_rows": "Rows in the state of a stage.",
    "state_bytes": "Bytes of the state of a stage, in files.",
    "state_runs": "Sorted runs in the state of a stage.",
}


@final
class QueryCollector(Collector):
    """All runs of an engine; counters count since a run was started in this process."""

    def __init__(self, runs: Callable[[], Sequence[Run]]) -> None:
        """Ask for the runs whenever somebody looks."""
        self._runs = runs

    def collect(self) -> Iterable[Metric]:
        """The families of metrics, each with a sample per query, source or stage."""
        runs = list(self._runs())
        last = {run.name: metrics[-1] for run in runs if (metrics := run.metrics())}
        totals = {run.name: run.totals for run in runs}
        yield _gauge(
            "anabranch_up",
            "1 while a query runs.",
            ((run.name, float(run.status == "running")) for run in runs),
        )
        yield _counter(
            "anabranch_batches",
            "Batches that a query has committed.",
            ((name, total["batches"]) for name, total in totals.items()),
        )
        yield _counter(
            "anabranch_rows_out",
            "Elements that a query has written.",
            ((name, total["rows_out"]) for name, total in totals.items()),
        )
        yield _counter(
            "anabranch_failed_windows",
            "Windows without results because a module failed.",
            ((name, total["failed_windows"]) for name, total in totals.items()),
        )
        for key, text in _SOURCE_TOTALS.items():
            family = CounterMetricFamily(
                f"anabranch_source_{key}", text, labels=["query", "source"]
            )
            for query, total in totals.items():
                for name, seen in total["sources"].items():
                    family.add_metric([query, name], seen.get(key, 0))
            yield family
        yield from _copies(totals, last)
        yield _gauge(
            "anabranch_stable",
            "The stable point of a query's output, in chronons.",
            _reported(last, "stable"),
        )
        yield _gauge(
            "anabranch_lag",
            "How far the output's stable point is behind the most advanced source, in chronons.",
            _reported(last, "lag"),
        )
        yield _gauge(
            "anabranch_batch_seconds",
            "Seconds that the last batch took.",
            (
                (name, batch["milliseconds"].get("triggerExecution", 0) / 1000)
                for name, batch in last.items()
            ),
        )
        yield _gauge(
            "anabranch_batch_rows_limit",
            "Rows of a source that a batch takes at the most while a query is behind.",
            (
                (run.name, float(size.rows))
                for run in runs
                if (size := batch_size(run.execution.checkpoint)) is not None
            ),
        )
        yield from _stages(last)


def _copies(
    totals: Mapping[str, Mapping[str, Any]], last: Mapping[str, Mapping[str, Any]]
) -> Iterator[Metric]:
    labels = ["query", "source", "copy"]
    for key, text in _COPY_TOTALS.items():
        family = CounterMetricFamily(f"anabranch_copy_{key}", text, labels=labels)
        for query, total in totals.items():
            for source, copies in total["copies"].items():
                for copy, seen in copies.items():
                    family.add_metric([query, source, copy], seen[key])
        yield family
    stable = GaugeMetricFamily(
        "anabranch_copy_stable",
        "The stable point of a copy of a source, in chronons.",
        labels=labels,
    )
    up = GaugeMetricFamily("anabranch_copy_up", "1 while a copy can be read.", labels=labels)
    for query, batch in last.items():
        for source, seen in batch["sources"].items():
            for copy, own in seen.get("copies", {}).items():
                up.add_metric([query, source, copy], float("problem" not in own))
                if BEGINNING < own["reached"] < FOREVER:
                    stable.add_metric([query, source, copy], float(own["reached"]))
    yield stable
    yield up


def _stages(last: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    for key, text in _STAGE_GAUGES.items():
        family = GaugeMetricFamily(f"anabranch_{key}", text, labels=["query", "stage"])
        for name, batch in last.items():
            for stage, counted in batch["stages"].items():
                family.add_metric([name, stage], counted[key])
        yield family
    spent = GaugeMetricFamily(
        "anabranch_stage_seconds",
        "Seconds that a step of a stage took in the last batch, in its slowest shard.",
        labels=["query", "stage", "step"],
    )
    for name, batch in last.items():
        for stage, counted in batch["stages"].items():
            for step, seconds in counted["seconds"].items():
                spent.add_metric([name, stage, step], seconds)
    yield spent


def _reported(last: Mapping[str, Mapping[str, Any]], key: str) -> Iterator[tuple[str, float]]:
    """Values that are instants or spans, without those that say that nothing is known."""
    for name, batch in last.items():
        value = batch[key]
        if value is not None and BEGINNING < value < FOREVER:
            yield name, float(value)


def _gauge(name: str, text: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["query"])
    for query, value in values:
        family.add_metric([query], value)
    return family


def _counter(name: str, text: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=["query"])
    for query, value in values:
        family.add_metric([query], value)
    return family


def serve_metrics(
    runs: Callable[[], Sequence[Run]], port: int, host: str
) -> tuple[int, Callable[[], None]]:
    """Answer at `http://host:port/metrics`; the port, and how to end it.

    Raises:
        EngineError: The port is taken.
    """
    registry = CollectorRegistry()
    registry.register(QueryCollector(runs))
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as problem:
        raise EngineError(
            f"metrics cannot be served: {problem.strerror or problem}",
            where=f"{host}, port {port}",
            hint="choose another port, or 0 for any that is free",
        ) from None

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, close
