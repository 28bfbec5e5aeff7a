"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from anabranch.bench.endtoend import endtoend
from anabranch.bench.growth import growth
from anabranch.bench.latency import latency
from anabranch.bench.merge.merge import merge
from anabranch.bench.merge.plots import write_plots as write_merge_plots
from anabranch.bench.migration.migration import migration
from anabranch.bench.migration.plots import write_plots as write_migration_plots
from anabranch.bench.modules.modules import modules
from anabranch.bench.nexmark.nexmark import nexmark
from anabranch.bench.nexmark.plots import write_plots as write_nexmark_plots
from anabranch.bench.operators import operators
from anabranch.bench.peers.page import write_page as write_peers_page
from anabranch.bench.peers.peers import peers
from anabranch.bench.pipes.pipes import pipes
from anabranch.bench.pipes.plots import write_plots
from anabranch.bench.reoptimize import reoptimize
from anabranch.bench.restart import restart
from anabranch.bench.revisions.plots import write_plots as write_revision_plots
from anabranch.bench.revisions.revisions import revisions
from anabranch.bench.scale.scale import scale
from anabranch.bench.start import start
from anabranch.bench.tumbling import tumbling


@final
@dataclass(frozen=True, slots=True)
class Bench:
    """A named benchmark.

    Attributes:
        measure: Says what it measures to a report, which also says how much to measure.
        plot: Draws what was said to a folder, if anything does.
        options: The names of further arguments of `measure`, each a list of names.
    """

    measure: Callable[..., None]
    plot: Callable[[Sequence[Mapping[str, Any]], Path], object] | None = None
    options: tuple[str, ...] = ()


BENCHES: Final[Mapping[str, Bench]] = {
    "tumbling": Bench(tumbling),
    "latency": Bench(latency),
    "endtoend": Bench(endtoend),
    "operators": Bench(operators),
    "growth": Bench(growth),
    "pipes": Bench(pipes, write_plots),
    "merge": Bench(merge, write_merge_plots),
    "revisions": Bench(revisions, write_revision_plots),
    "migration": Bench(migration, write_migration_plots),
    "reoptimize": Bench(reoptimize),
    "modules": Bench(modules),
    "start": Bench(start),
    "restart": Bench(restart),
    "scale": Bench(scale),
    "nexmark": Bench(nexmark, write_nexmark_plots, options=("queries", "peers")),
    "peers": Bench(peers, write_peers_page, options=("peers",)),
}
