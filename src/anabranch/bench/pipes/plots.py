"""One drawing per experiment, out of what the benchmark said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from anabranch.bench.plots import BLUE, GREEN, GREY, RED, draw_all, panels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line: TypeAlias = Mapping[str, Any]


@final
@dataclass(frozen=True, slots=True)
class PipesReport:
    """What the benchmark said, by kind."""

    runs: Mapping[str, Line]
    windows: Sequence[Line]
    latencies: Sequence[Line]
    figures: Mapping[str, float]

    @staticmethod
    def of(lines: Sequence[Line]) -> PipesReport:
        """Sort the lines of one run."""
        kinds: dict[str, list[Line]] = {}
        for line in lines:
            kinds.setdefault(line.get("measurement", "figures"), []).append(line)
        return PipesReport(
            {line["plan"]: line for line in kinds["run"]},
            kinds["window"],
            kinds["latency"],
            kinds["figures"][-1]["figures"],
        )


def write_plots(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Draw every experiment of one run of the benchmark, as `e1.svg` to `e11.svg`.

    Raises:
        QueryError: matplotlib is not installed.
    """
    return draw_all(PLOTS, PipesReport.of(lines), folder)


def _curves(panel: Axes, report: PipesReport, plans: Mapping[str, tuple[str, str, str]]) -> None:
    """Results over CPU time: plan -> label, colour, line style."""
    for plan, (label, colour, style) in plans.items():
        run = report.runs[plan]
        seconds = [0.0, *(point[0] for point in run["curve"])]
        results = [0, *(point[1] for point in run["curve"])]
        scale = run["median_s"] / seconds[-1]
        panel.plot(
            [value * scale for value in seconds],
            results,
            style,
            color=colour,
            label=f"{label} ({run['median_s']:.3g} s)",
        )
    panel.set_xlabel("CPU seconds")
    panel.set_ylabel("results")
    panel.set_xlim(left=0)
    panel.set_ylim(bottom=0)
    panel.locator_params(nbins=6)
    panel.yaxis.set_major_formatter("{x:,.0f}")
    panel.legend(fontsize=8)


def _overview(report: PipesReport, path: Path) -> None:
    queries = ["q1", "q2", "q3", "q4", "q5"]
    kinds = {"tia": ("TIA", BLUE), "pna": ("PNA", RED), "product": ("Anabranch's kernels", GREEN)}
    with panels_of(path, "E1: runtime of the NEXMark queries") as (panel,):
        for index, (kind, (label, colour)) in enumerate(kinds.items()):
            heights = [report.runs[f"{query}/{kind}"]["median_s"] for query in queries]
            at = [number + (index - 1) * 0.27 for number in range(len(queries))]
            panel.bar(at, heights, 0.25, color=colour, label=label)
        panel.set_xticks(range(len(queries)), [query.upper() for query in queries])
        panel.set_yscale("log")
        panel.set_ylabel("CPU seconds")
        panel.legend(fontsize=8)


def _stateless(experiment: str, query: str, about: str) -> Callable[[PipesReport, Path], None]:
    def draw(report: PipesReport, path: Path) -> None:
        with panels_of(path, f"{experiment}: {about}") as (panel,):
            _curves(
                panel,
                report,
                {f"{query}/tia": ("TIA", BLUE, "-"), f"{query}/pna": ("PNA", RED, "-")},
            )

    return draw


def _window_state(report: PipesReport, path: Path) -> None:
    with panels_of(path, "E4: elements held by a time window") as (panel,):
        colours = {"now": GREY, "10min": BLUE, "5h": RED}
        for line in report.windows:
            if line["kind"] != "pna":
                continue
            hours = [point[0] / 3.6e9 for point in line["curve"]]
            held = [point[1] for point in line["curve"]]
            label = f"PNA {line['size']} (average {line['average']:.1f})"
            panel.plot(hours, held, color=colours[line["size"]], label=label)
        panel.plot([], [], " ", label="TIA, any size (0)")
        panel.set_yscale("log")
        panel.set_ylim(bottom=1)
        panel.set_xlabel("application time in hours")
        panel.set_ylabel("elements")
        panel.legend(fontsize=8, loc="center right", bbox_to_anchor=(1, 0.4))


def _short_auctions(report: PipesReport, path: Path) -> None:
    with panels_of(path, "E5: short auctions, hash join", "nested loops") as panels:
        _curves(panels[0], report, {"q3/tia": ("TIA", BLUE, "-"), "q3/pna": ("PNA", RED, "-")})
        _curves(
            panels[1],
            report,
            {"q3/tia nested": ("TIA", BLUE, "-"), "q3/pna nested": ("PNA", RED, "-")},
        )


def _highest_bid(report: PipesReport, path: Path) -> None:
    with panels_of(path, "E6: highest bid") as (panel,):
        _curves(
            panel,
            report,
            {
                "q4/tia coalesce": ("TIA with coalesce", BLUE, "--"),
                "q4/tia": ("TIA", BLUE, "-"),
                "q4/pna": ("PNA, sorted list", RED, "-"),
                "q4/pna recomputed": ("PNA, recomputation", RED, "--"),
            },
        )


def _closing_price(report: PipesReport, path: Path) -> None:
    with panels_of(path, "E7: closing price, two plans") as (panel,):
        _curves(
            panel,
            report,
            {
                "q5/tia": ("TIA, group first", BLUE, "-"),
                "q5/tia plan 2": ("TIA, group last", BLUE, "--"),
                "q5/pna": ("PNA, group first", RED, "-"),
                "q5/pna plan 2": ("PNA, group last", RED, "--"),
            },
        )


def _count_windows(report: PipesReport, path: Path) -> None:
    with panels_of(path, "E8: results of a count window of N rows") as (panel,):
        styles = {1: ":", 10: "-.", 50: "--", 100: "-"}
        for line in report.latencies:
            seconds = [number / line["per_second"] for number in range(len(line["results"]))]
            given = [positives for positives, _ in line["results"]]
            if line["kind"] == "tia":
                panel.plot(
                    seconds,
                    given,
                    styles[line["rows"]],
                    color=BLUE,
                    label=f"TIA, N = {line['rows']}",
                )
            elif line["rows"] == 100:
                panel.plot(seconds, given, color=RED, label="PNA positives, any N")
        panel.set_xlabel("seconds since the first number")
        panel.set_ylabel("results")
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.legend(fontsize=8)


def _sweep_areas(report: PipesReport, path: Path) -> None:
    with panels_of(path, "E9: hash join of numbers, eviction by") as (panel,):
        _curves(
            panel,
            report,
            {
                "e9/join/list": ("a list", BLUE, "-"),
                "e9/join/heap": ("a priority queue", BLUE, "--"),
            },
        )


def _placement(experiment: str, about: str, *, sweep: bool) -> Callable[[PipesReport, Path], None]:
    name = experiment.lower()

    def draw(report: PipesReport, path: Path) -> None:
        titles = [f"{experiment}: {about}", "waiting in the queue"]
        with panels_of(path, *titles, *(["output over input"] if sweep else [])) as panels:
            _curves(
                panels[0],
                report,
                {
                    f"{name}/join/input": ("queue at the input", GREEN, "-"),
                    f"{name}/join/output": ("at the output", BLUE, "-"),
                },
            )
            sizes = [report.figures[f"{name}_queue_{index}"] for index in ("input", "output")]
            bars = panels[1].bar(["input", "output"], sizes, 0.6, color=[GREEN, BLUE])
            panels[1].bar_label(bars, fmt="%.2f", fontsize=8)
            panels[1].margins(y=0.12)
            panels[1].set_ylabel("elements on average")
            if sweep:
                _draw_sweep(panels[2], report)

    return draw


def _draw_sweep(panel: Axes, report: PipesReport) -> None:
    points = []
    for plan, run in report.runs.items():
        if plan.startswith("sweep") and plan.endswith("/output"):
            label = plan.removesuffix("/join/output")
            other = report.runs[f"{label}/join/input"]["median_s"]
            points.append((500 / int(label.split()[1]), run["median_s"] / other))
    points.sort()
    panel.axhline(1, color=GREY, linewidth=0.8)
    panel.plot([at for at, _ in points], [share for _, share in points], "o-", color=BLUE)
    panel.set_xscale("log")
    panel.set_xticks([at for at, _ in points], [f"{at:g}" for at, _ in points])
    panel.minorticks_off()
    panel.set_xlabel("matches per arrival")
    panel.set_ylabel("runtime ratio")


PLOTS: Final[Mapping[str, Callable[[PipesReport, Path], None]]] = {
    "e1": _overview,
    "e2": _stateless("E2", "q1", "currency conversion"),
    "e3": _stateless("E3", "q2", "bids on five items"),
    "e4": _window_state,
    "e5": _short_auctions,
    "e6": _highest_bid,
    "e7": _closing_price,
    "e8": _count_windows,
    "e9": _sweep_areas,
    "e10": _placement("E10", "selective join", sweep=False),
    "e11": _placement("E11", "expansive join", sweep=True),
}
