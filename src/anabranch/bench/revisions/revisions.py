"""The experiment on revisions by replay, on Spark: every strategy beside state that stays for ever.

Maskey and Cherniack stream a million quotes over an archive of 17.25 million, and correct some of
the archived ones. STP is the time of normal rows, RTP that of corrections, COM the sum.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from anabranch.bench.report import Form, Report
from anabranch.bench.revisions.index_growth import index_growth
from anabranch.bench.revisions.lab import PER_FILE, RevisionLab, RevisionSize, Way
from anabranch.bench.revisions.overhead import overhead
from anabranch.bench.revisions.recompute import recompute
from anabranch.bench.revisions.strategies import Spent, strategies
from anabranch.engine import Engine
from anabranch.workloads.quotes import Quotes

_REPLAY: Final[tuple[Way, ...]] = ("RA", "RM", "RW")
_ALL: Final[tuple[Way, ...]] = (*_REPLAY, "direct")

SIZES: Final[Mapping[Form, RevisionSize]] = {
    "full": RevisionSize(
        archived=17_250_000,
        chunk=100_000,
        chunks=10,
        ways={"Q1": _ALL, "Q2": _ALL, "Q3": _ALL},
        rates=("LOW", "MOD", "HIGH"),
        overhead=(16, 250_000, 5),
        recomputed=3,
        batches=525_600,
        hours=31,
        warm_ups=8,
    ),
    "quick": RevisionSize(
        archived=1_500_000,
        chunk=20_000,
        chunks=3,
        ways={"Q1": _ALL, "Q2": ("RA", "RW"), "Q3": ("RA", "RW")},
        rates=("HIGH",),
        overhead=(6, 250_000, 2),
        recomputed=2,
        batches=525_600,
        hours=31,
        warm_ups=3,
    ),
    "smoke": RevisionSize(
        archived=200_000,
        chunk=2_000,
        chunks=1,
        ways={"Q1": _REPLAY},
        rates=("HIGH",),
        overhead=(2, 1_000, 1),
        recomputed=1,
        batches=200,
        hours=1,
        warm_ups=1,
    ),
}


def revisions(report: Report) -> None:
    """Every query with every strategy, and what it costs to be able to correct anything.

    Figures: `archive_overhead` and `archive_overhead_copied`, the time of normal rows where the
    past is kept over that where it is not; `rm_vs_ra` and `rw_vs_ra`, how many times faster
    corrections are, for the query that gains least; `revision_ms`, of a correction in averages
    over 5 minutes, from its file to the revision in the log; `vs_recompute`, the time of all
    averages from scratch in Spark over that of the replay; `index_bytes_per_million_rows`;
    `planning_growth`, the mean time to plan and archive a batch after a year over that in the first
    hour, on a disk or in memory, whichever grows more.
    """
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    try:
        with Engine(report.spark) as engine:
            _measure(RevisionLab(engine, root, SIZES[report.form], report, Quotes()))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _measure(lab: RevisionLab) -> None:
    size = lab.size
    lab.report.measured(
        "setup",
        form=lab.report.form,
        archived=size.archived,
        chunk=size.chunk,
        streamed=size.chunk * size.chunks,
    )
    files = lab.quotes.write(
        lab.history, first=0, count=size.archived, per_file=min(PER_FILE, size.archived)
    )
    for _ in files:
        pass
    growth, index_bytes = index_growth(lab)
    kept = overhead(lab)
    scratch = recompute(lab)
    spent = strategies(lab)
    figure = lab.report.figure
    figure("archive_overhead", kept["reference"])
    figure("archive_overhead_copied", kept["copy"])
    for way in ("RM", "RW"):
        figure(f"{way.lower()}_vs_ra", _least_gain(spent, way))
    whole = [each.end_to_end for each in spent["Q1", "RW"] if each.end_to_end is not None]
    figure("revision_ms", 1000 * statistics.median(whole))
    figure("vs_recompute", scratch["Q1"] / _processing(spent, "Q1", "RW"))
    figure("index_bytes_per_million_rows", index_bytes)
    figure("planning_growth", growth)


def _processing(spent: Spent, query: str, way: Way) -> float:
    return statistics.median(each.processing for each in spent[query, way])


def _least_gain(spent: Spent, way: Way) -> float:
    queries = {query for query, each in spent if each == way and (query, "RA") in spent}
    return min(
        _processing(spent, query, "RA") / _processing(spent, query, way) for query in queries
    )
