"""The names of the benchmarks and what each measures; loads nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ABOUT: Final[Mapping[str, str]] = {
    "tumbling": "windowed count, rows per second beside Spark and Python state",
    "latency": "time of a batch of a few rows, beside Spark's own stateful operator",
    "endtoend": "latency from writing a row to reading its result",
    "operators": "every kernel by itself, events per second beside DuckDB",
    "growth": "time of a batch while the state grows to 10M live events",
    "pipes": "the experiments of PIPES: intervals beside positive and negative elements",
    "merge": "the experiments of logical merge: every case beside naive ways",
    "revisions": "corrections of a day of quotes by replay, beside Spark from scratch",
    "migration": "the experiments of plan migration: clip beside Parallel Track and GenMig",
    "reoptimize": "a join order that is wrong after rates have changed corrects itself",
    "modules": "modules of every shape over windows, beside Spark's pandas UDFs",
    "start": "importing, a run in this process, and the first result on Spark beside plain Spark",
    "restart": "from a new process to the first result, with 10M live events",
    "scale": "more cores and many events: throughput, cost per event, memory",
    "nexmark": "the public benchmark, events per second beside Spark and Flink",
    "peers": "three jobs beside Spark, Flink SQL, Pathway and Bytewax",
}


def listed() -> str:
    """One line per benchmark."""
    width = max(map(len, ABOUT)) + 2
    return "\n".join(f"{name:<{width}}{about}" for name, about in ABOUT.items())
