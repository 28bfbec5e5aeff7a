"""Drawings of the experiment on revisions, and a page that shows them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from anabranch.bench.plots import BLUE, GREEN, GREY, RED, draw_all, panels_of
from anabranch.bench.revisions.page import PLOTTED, Line, write_page

COLOURS: Final[Mapping[str, str]] = {"RA": RED, "RM": GREEN, "RW": BLUE, "direct": GREY}


@final
@dataclass(frozen=True, slots=True)
class RevisionReport:
    """What the benchmark said of the strategies, at the highest rate."""

    high: Sequence[Line]

    @staticmethod
    def of(lines: Sequence[Line]) -> RevisionReport:
        """Pick the lines of one run."""
        return RevisionReport([line for line in lines if line.get("rate") == "HIGH"])

    @property
    def queries(self) -> list[str]:
        """Their names, in order."""
        return list(dict.fromkeys(line["query"] for line in self.high))

    def of_way(self, way: str) -> dict[int, Line]:
        """By the index of the query, what was measured of a strategy."""
        own = {line["query"]: line for line in self.high if line["way"] == way}
        return {at: own[query] for at, query in enumerate(self.queries) if query in own}


def write_plots(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Draw one run, and write a page beside the folder that shows it.

    Raises:
        QueryError: matplotlib is not installed.
    """
    written = draw_all(PLOTS, RevisionReport.of(lines), folder)
    write_page(lines, folder)
    return written


def _processing(report: RevisionReport, path: Path) -> None:
    with panels_of(path, PLOTTED["processing"]) as (panel,):
        for number, (way, colour) in enumerate(COLOURS.items()):
            own = report.of_way(way)
            at = [index + 0.2 * (number - 1.5) for index in own]
            heights = [statistics.median(line["processing_ms"]) for line in own.values()]
            panel.bar(at, heights, 0.18, color=colour, label=way)
        panel.set_xticks(range(len(report.queries)), report.queries)
        panel.set_yscale("log")
        panel.set_ylabel("ms")
        panel.legend(fontsize=7)


def _complete(report: RevisionReport, path: Path) -> None:
    with panels_of(path, PLOTTED["complete"]) as (panel,):
        for number, (way, colour) in enumerate(COLOURS.items()):
            own = report.of_way(way)
            at = [index + 0.2 * (number - 1.5) for index in own]
            normal = [line["stp_s"] for line in own.values()]
            late = [line["rtp_s"] for line in own.values()]
            panel.bar(at, normal, 0.18, color=colour, alpha=0.4)
            panel.bar(at, late, 0.18, bottom=normal, color=colour, label=way)
        panel.set_xticks(range(len(report.queries)), report.queries)
        panel.set_ylabel("seconds (light: normal rows)")
        panel.legend(fontsize=7)


def _way(report: RevisionReport, path: Path) -> None:
    with panels_of(path, PLOTTED["way"]) as (panel,):
        own = {at: line for at, line in report.of_way("RW").items() if line["all_end_to_end_ms"]}
        names = [report.queries[at] for at in own]
        noticed = [statistics.median(line["noticed_ms"]) for line in own.values()]
        replay = [statistics.median(line["processing_ms"]) for line in own.values()]
        whole = [statistics.median(line["all_end_to_end_ms"]) for line in own.values()]
        bottom = [0.0] * len(own)
        rest = [
            max(0.0, all_of_it - a - b)
            for all_of_it, a, b in zip(whole, noticed, replay, strict=True)
        ]
        for label, heights, colour in (
            ("batch with the late row", noticed, GREY),
            ("replay", replay, BLUE),
            ("batch with the revision", rest, GREEN),
        ):
            panel.barh(names, heights, 0.5, left=bottom, color=colour, label=label)
            bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
        panel.set_xlabel("ms, RW")
        panel.legend(fontsize=7)


PLOTS: Final[Mapping[str, Callable[[RevisionReport, Path], None]]] = {
    "processing": _processing,
    "complete": _complete,
    "way": _way,
}
