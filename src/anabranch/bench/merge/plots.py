"""One drawing per row of the table of experiments on merging, and a page that says what holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from anabranch.bench.merge.page import write_page
from anabranch.bench.plots import BLUE, GREEN, GREY, RED, draw_all, panels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line: TypeAlias = Mapping[str, Any]

PURPLE, OCHRE = "#7b4fa3", "#b8860b"
LOOKS: Final[Mapping[str, tuple[str, str, str]]] = {
    "r0": ("R0", GREY, "-"),
    "r1": ("R1", GREY, "--"),
    "r2": ("R2", GREY, ":"),
    "r3": ("R3+", BLUE, "-"),
    "r4": ("R4", GREEN, "-"),
    "r3-": ("R3-", RED, "-"),
    "c+r1": ("C+R1", PURPLE, "-"),
    "no merge": ("no merge", RED, "-"),
    "no merge, batched": ("no merge, in batches", OCHRE, "-"),
    "output": ("output", BLUE, "-"),
    "input 1": ("input 1", RED, "-"),
    "input 2": ("input 2", OCHRE, "-"),
    "input 3": ("input 3", PURPLE, "-"),
    "input 4": ("input 4", GREEN, "-"),
}
MEGA: Final = 1e6


@final
@dataclass(frozen=True, slots=True)
class MergeReport:
    """What the benchmark said, by kind."""

    points: Sequence[Line]
    rates: Sequence[Line]

    @staticmethod
    def of(lines: Sequence[Line]) -> MergeReport:
        """Sort the lines of one run."""
        kinds: dict[str, list[Line]] = {"point": [], "rates": []}
        for line in lines:
            kinds.setdefault(line.get("measurement", "figures"), []).append(line)
        return MergeReport(kinds["point"], kinds["rates"])

    def curves(self, row: str, value: str) -> dict[str, list[tuple[float, float]]]:
        """The points of a row, by series."""
        found: dict[str, list[tuple[float, float]]] = {}
        for line in self.points:
            if line["row"] == row and value in line:
                found.setdefault(line["series"], []).append((line["at"], line[value]))
        return found


def write_plots(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Draw every row of one run, and write a page beside the folder that shows them.

    Raises:
        QueryError: matplotlib is not installed.
    """
    written = draw_all(PLOTS, MergeReport.of(lines), folder)
    write_page(lines, folder)
    return written


def _curves(
    panel: Axes,
    report: MergeReport,
    row: str,
    value: str,
    *,
    scale: float = 1.0,
    x: str,
    y: str,
    log: bool = False,
) -> None:
    for name, points in report.curves(row, value).items():
        label, colour, style = LOOKS[name]
        at, heights = zip(*sorted(points), strict=True)
        panel.plot(
            at, [height / scale for height in heights], style, color=colour, marker=".", label=label
        )
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    if log:
        panel.set_yscale("log")
    else:
        panel.set_ylim(bottom=0)
    panel.legend(fontsize=7)


def _one(
    row: str, value: str, title: str, x: str, y: str, *, scale: float = 1.0, log: bool = False
) -> Callable[[MergeReport, Path], None]:
    def draw(report: MergeReport, path: Path) -> None:
        with panels_of(path, title) as (panel,):
            _curves(panel, report, row, value, scale=scale, x=x, y=y, log=log)

    return draw


def _stables(report: MergeReport, path: Path) -> None:
    with panels_of(path, "Memory over stable points", "throughput") as panels:
        x = "share of stable points"
        _curves(panels[0], report, "stables", "bytes", scale=MEGA, x=x, y="MB", log=True)
        _curves(panels[1], report, "stables", "per_s", scale=MEGA, x=x, y="million elements/s")
        for panel in panels:
            panel.set_xscale("log")


def _cleanse(report: MergeReport, path: Path) -> None:
    titles = ("Order first, or merge: memory", "throughput", "latency")
    with panels_of(path, *titles) as panels:
        _curves(panels[0], report, "cleanse", "bytes", scale=MEGA, x="inputs", y="MB")
        _curves(
            panels[1], report, "cleanse", "per_s", scale=MEGA, x="inputs", y="million elements/s"
        )
        waits = report.curves("cleanse wait", "wait_s")
        names = [LOOKS[name][0] for name in waits]
        heights = [points[0][1] for points in waits.values()]
        bars = panels[2].bar(names, heights, 0.5, color=[LOOKS[name][1] for name in waits])
        panels[2].bar_label(bars, fmt="{:,.0f}", fontsize=8)
        panels[2].set_yscale("log")
        panels[2].set_ylabel("seconds of the stream")


def _rates(row: str, title: str) -> Callable[[MergeReport, Path], None]:
    def draw(report: MergeReport, path: Path) -> None:
        lines = [line for line in report.rates if line["row"] == row]
        # One bursty input is enough to see.
        inputs = [line for line in lines if line["series"] != "output"]
        inputs = inputs[:1] if row == "bursty" else inputs
        with panels_of(path, title, "output of the merge") as panels:
            for panel, some in ((panels[0], inputs), (panels[1], lines[-1:])):
                for line in some:
                    label, colour, style = LOOKS[line["series"]]
                    at = [index * line["step"] for index in range(len(line["per_s"]))]
                    panel.plot(at, line["per_s"], style, color=colour, label=label, linewidth=0.8)
                panel.set_xlabel("seconds")
                panel.set_ylabel("elements/s")
                panel.set_ylim(0, 1.05 * max(max(line["per_s"]) for line in inputs))
                panel.legend(fontsize=7, loc="upper right")

    return draw


def _feedback(report: MergeReport, path: Path) -> None:
    with panels_of(path, "Two plans that take turns at being slow") as (panel,):
        found = {
            name: points[0][1] for name, points in report.curves("feedback", "seconds").items()
        }
        bars = panel.bar(list(found), list(found.values()), 0.6, color=[GREY, GREY, RED, BLUE])
        panel.bar_label(bars, fmt="%.1f", fontsize=8)
        panel.set_ylabel("seconds")
        panel.tick_params("x", labelsize=8)


PLOTS: Final[Mapping[str, Callable[[MergeReport, Path], None]]] = {
    "memory": _one("inputs", "bytes", "Memory", "inputs", "MB", scale=MEGA, log=True),
    "throughput": _one(
        "inputs", "per_s", "Throughput", "inputs", "million elements/s", scale=MEGA, log=True
    ),
    "output": _one("output", "adjusts", "Adjusts that leave", "share of disorder", "adjusts"),
    "lag": _one(
        "lag",
        "per_s",
        "Two of three inputs lag",
        "lag in seconds",
        "million elements/s",
        scale=MEGA,
    ),
    "stables": _stables,
    "cleanse": _cleanse,
    "bursty": _rates("bursty", "Four bursty inputs, one of them"),
    "congestion": _rates("congestion", "Three congested inputs"),
    "feedback": _feedback,
}
