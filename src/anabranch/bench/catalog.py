"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from anabranch.bench.endtoend import endtoend
from anabranch.bench.growth import growth
from anabranch.bench.latency import latency
from anabranch.bench.merge import merge
from anabranch.bench.merge_plots import write_plots as write_merge_plots
from anabranch.bench.modules import modules
from anabranch.bench.nexmark import nexmark
from anabranch.bench.operators import operators
from anabranch.bench.pipes import pipes
from anabranch.bench.pipes_plots import write_plots
from anabranch.bench.restart import restart
from anabranch.bench.scale import scale
from anabranch.bench.tumbling import tumbling


@final
@dataclass(frozen=True, slots=True)
class Bench:
    """A named benchmark.

    Attributes:
        about: What it measures.
        measure: Says what it measures to a report; with `quick` in under a minute.
        plot: Draws what was said to a folder, if anything does.
        options: The names of further arguments of `measure`, each a list of names.
    """

    about: str
    measure: Callable[..., None]
    plot: Callable[[Sequence[Mapping[str, Any]], Path], object] | None = None
    options: tuple[str, ...] = ()


BENCHES: Final[Mapping[str, Bench]] = {
    "tumbling": Bench("windowed count, rows per second beside Spark and Python state", tumbling),
    "latency": Bench("time of a batch of a few rows beside Spark's stateful floor", latency),
    "endtoend": Bench("from a row that is written to a result that is read", endtoend),
    "operators": Bench("every kernel by itself, events per second beside DuckDB", operators),
    "growth": Bench("time of a batch while the state grows to 10M live events", growth),
    "pipes": Bench(
        "the experiments of PIPES: intervals beside positive and negative elements",
        pipes,
        write_plots,
    ),
    "merge": Bench(
        "the experiments of logical merge: copies of a stream by every case, beside naive ways",
        merge,
        write_merge_plots,
    ),
    "modules": Bench("modules of every shape over windows, beside Spark's pandas UDFs", modules),
    "restart": Bench("from a new process to the first result, with 10M live events", restart),
    "scale": Bench("more cores and many events: throughput, cost per event, memory", scale),
    "nexmark": Bench(
        "the public benchmark, events per second beside Spark and Flink",
        nexmark,
        options=("queries", "peers"),
    ),
}
