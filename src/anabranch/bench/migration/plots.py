"""Drawings of the experiments of plan migration, and a page that shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final, final

from anabranch.bench.migration.page import PLOTTED, Line, write_page
from anabranch.bench.plots import BLUE, GREEN, GREY, RED, draw_all, panels_of

LOOKS: Final[Mapping[str, tuple[str, str, str]]] = {
    "parallel track": ("Parallel Track", RED, "-"),
    "genmig": ("GenMig", GREEN, "-"),
    "reference point": ("GenMig, reference point", GREY, "--"),
    "clip": ("clip", BLUE, "--"),
    "product": ("clip, product's kernels", BLUE, "-"),
}
"""By way to migrate: label, colour, line."""


@final
@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What the benchmark said of each way to migrate, by experiment."""

    runs: Mapping[str, Line]
    costs: Mapping[str, Line]
    rewrites: Sequence[Line]
    window: float

    @staticmethod
    def of(lines: Sequence[Line]) -> MigrationReport:
        """Pick the lines of one run."""
        kinds: dict[str, list[Line]] = {"run": [], "cost": [], "trials": []}
        for line in lines:
            kinds.setdefault(line.get("measurement", "figures"), []).append(line)
        (setup,) = kinds["setup"]
        return MigrationReport(
            {line["way"]: line for line in kinds["run"]},
            {line["way"]: line for line in kinds["cost"]},
            kinds["trials"],
            setup["window"],
        )


def write_plots(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Draw one run, and write a page beside the folder that shows it.

    Raises:
        QueryError: matplotlib is not installed.
    """
    written = draw_all(PLOTS, MigrationReport.of(lines), folder)
    write_page(lines, folder)
    return written


def _output(report: MigrationReport, path: Path) -> None:
    with panels_of(path, PLOTTED["output"], "without the burst") as panels:
        for panel in panels:
            for way, line in report.runs.items():
                label, colour, style = LOOKS[way]
                seconds = line["seconds"]
                step = seconds[1] - seconds[0]
                rates = [each / step for each in line["results"]]
                panel.plot(seconds, rates, style, color=colour, label=label, linewidth=1)
            panel.axvspan(2 * report.window, 3 * report.window, color="#eeeeee")
            panel.set_xlabel("seconds of stream")
            panel.set_ylabel("results/s")
        steady = max(report.runs["clip"]["results"]) * 10 / report.window
        panels[1].set_ylim(0, 1.1 * steady)
        panels[0].legend(fontsize=6)


def _memory(report: MigrationReport, path: Path) -> None:
    with panels_of(path, PLOTTED["memory"], "tuples of sources in them") as panels:
        for panel, value in zip(panels, ("elements", "tuples")):
            for way, line in report.runs.items():
                # The product's state is counted in rows only.
                if not line[value]:
                    continue
                label, colour, style = LOOKS[way]
                thousands = [each / 1000 for each in line[value]]
                panel.plot(line["seconds"], thousands, style, color=colour, label=label)
            panel.axvspan(2 * report.window, 3 * report.window, color="#eeeeee")
            panel.set_xlabel("seconds of stream")
            panel.set_ylabel("thousands")
        panels[0].legend(fontsize=6)


def _cost(report: MigrationReport, path: Path) -> None:
    with panels_of(path, PLOTTED["cost"]) as (panel,):
        for way, line in report.costs.items():
            label, colour, style = LOOKS[way]
            results = list(accumulate(line["results"]))
            panel.plot(line["cpu"], results, style, color=colour, label=label)
        panel.set_xlabel("seconds of a core")
        panel.set_ylabel("results so far")
        panel.legend(fontsize=7)


def _right(report: MigrationReport, path: Path) -> None:
    with panels_of(path, PLOTTED["right"]) as (panel,):
        names = [line["rewrite"] for line in report.rewrites]
        ways = list(report.rewrites[0]["wrong"])
        for number, way in enumerate(ways):
            label, colour, _ = LOOKS[way]
            at = [index + 0.2 * (number - 1.5) for index in range(len(names))]
            shares = [100 * line["wrong"][way] / line["trials"] for line in report.rewrites]
            panel.bar(at, shares, 0.18, color=colour, label=label)
        panel.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names])
        panel.tick_params("x", labelsize=6)
        panel.set_ylabel("% of random streams")
        panel.legend(fontsize=6)


PLOTS: Final[Mapping[str, Callable[[MigrationReport, Path], None]]] = {
    "output": _output,
    "memory": _memory,
    "cost": _cost,
    "right": _right,
}
