"""A drawing of the ratios of Nexmark, and a page that shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from anabranch.bench.nexmark.page import PLOTTED, Line, write_page
from anabranch.bench.nexmark.scripts import QUERIES
from anabranch.bench.plots import BLUE, GREY, RED, draw_all, panels_of

_LOOKS: Final = {"spark": ("over Spark", BLUE), "flink": ("over Flink", RED)}


def write_plots(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Draw one run, and write a page beside the folder that shows it.

    Raises:
        QueryError: matplotlib is not installed.
    """
    figures = next(line["figures"] for line in reversed(lines) if "figures" in line)
    written = draw_all(PLOTS, figures, folder)
    write_page(lines, folder)
    return written


def _ratios(figures: Mapping[str, float], path: Path) -> None:
    queries = [query for query in QUERIES if f"{query}_events_per_s" in figures]
    with panels_of(path, PLOTTED) as (panel,):
        for number, (peer, (label, colour)) in enumerate(_LOOKS.items()):
            found = {at: figures.get(f"{query}_vs_{peer}") for at, query in enumerate(queries)}
            heights = {at: ratio for at, ratio in found.items() if ratio is not None}
            at = [index + 0.4 * (number - 0.5) for index in heights]
            panel.bar(at, list(heights.values()), 0.38, color=colour, label=label)
        panel.axhline(1, color=GREY, linewidth=0.8)
        panel.set_xticks(range(len(queries)), queries, fontsize=5)
        panel.set_yscale("log")
        panel.legend(fontsize=7)


PLOTS: Final[Mapping[str, Callable[[Mapping[str, float], Path], None]]] = {"ratios": _ratios}
