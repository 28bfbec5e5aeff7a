"""How drawings of benchmarks look, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from anabranch.errors import QueryError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Report = TypeVar("Report")

BLUE, RED, GREEN, GREY = "#1f6fb4", "#c8502e", "#2b8a57", "#6b6b6b"
STYLE: Final[dict[Any, Any]] = {
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "anabranch",
}


def draw_all(
    plots: Mapping[str, Callable[[Report, Path], None]], report: Report, folder: Path
) -> list[Path]:
    """Draw every plot into a file of its name.

    Raises:
        QueryError: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise QueryError(
            "plots need matplotlib",
            where=f"plots for {folder}",
            hint="install it with the extra: pip install 'anabranch[bench]'",
        )
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in plots.items():
        written.append(folder / f"{name}.svg")
        draw(report, written[-1])
    return written


@contextmanager
def panels_of(path: Path, *titles: str) -> Iterator[list[Axes]]:
    """Panels side by side, written to a file when they are drawn."""
    # Only who asks for plots waits for matplotlib.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.2 if len(titles) == 1 else 3.5 * len(titles), 3.1))
        panels = [figure.add_subplot(1, len(titles), index + 1) for index in range(len(titles))]
        for panel, title in zip(panels, titles):
            panel.set_title(title, loc="left")
        yield panels
        figure.tight_layout()
        # Without a date, the same numbers give the same file.
        figure.savefig(path, format="svg", metadata={"Date": None})
