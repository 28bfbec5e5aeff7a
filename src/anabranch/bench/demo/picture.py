"""A picture of the demo's replicas: who lives and leads, stable points, output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anabranch.bench.demo.timeline import LogBatch, Mark, Timeline
from anabranch.bench.plots import BLUE, GREEN, GREY, RED, STYLE
from anabranch.model.time import SECOND, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PURPLE, BLACK = "#7a4fa0", "#222222"
COLOURS: Final = (BLUE, RED, GREEN, PURPLE)
_MARKS: Final = {
    "killed": ("X", "killed with kill -9"),
    "caught": ("v", "contradicts what is settled: ignored"),
    "joins": ("o", "joins"),
}
"""The sign of what happens to a replica, and the words."""

_THICK: Final = 0.5


def write_picture(timeline: Timeline, *paths: Path) -> None:
    """Draw a timeline into files, whose names say in which form."""
    # Only who asks for a picture waits for matplotlib.
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        for path in paths:
            # Without a date, the same timeline gives the same picture.
            dates = {"Date": None} if path.suffix == ".svg" else None
            draw(timeline).savefig(path, dpi=150, metadata=dates)


def draw(timeline: Timeline) -> Figure:
    """Three panels over the same seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 6.6), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True, height_ratios=(1.25, 2.3, 1))
    lives, stables, rate = panels
    # Until there is a first answer nothing is to be seen.
    first = min(step.second for lane in timeline.lanes for step in lane.steps)
    room = (timeline.over - first) / 30
    rate.set_xlim(max(0.0, first - room), timeline.over + room)
    _draw_lives(lives, timeline)
    _draw_stables(stables, timeline)
    _draw_rate(rate, timeline)
    for panel in panels:
        for mark in (mark for lane in timeline.lanes for mark in lane.marks):
            panel.axvline(mark.second, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    return figure


def _draw_lives(panel: Axes, timeline: Timeline) -> None:
    panel.set_title("Replicas: alive (light), leading the merge (dark)", loc="left")
    lanes = timeline.lanes
    for row, (lane, colour) in enumerate(zip(lanes, COLOURS)):
        heard = lane.ended if lane.unheard is None else lane.unheard
        _bar(panel, row, lane.began, heard, color=colour, alpha=0.25)
        if heard < lane.ended:
            hatched = {"facecolor": "none", "edgecolor": colour, "hatch": "////", "alpha": 0.45}
            _bar(panel, row, heard, lane.ended, **hatched)
        for since, until in lane.led:
            _bar(panel, row, since, until, color=colour)
        for mark in lane.marks:
            _draw_mark(panel, row, mark)
    panel.set_yticks(range(len(lanes)), [f"{lane.name}\n{lane.plan}" for lane in lanes])
    panel.tick_params(axis="both", length=0)
    panel.set_ylim(len(lanes) - 0.5, -0.6)
    panel.spines["left"].set_visible(False)
    panel.spines["bottom"].set_visible(False)


def _bar(panel: Axes, row: int, since: float, until: float, **look: Any) -> None:
    panel.barh(row, until - since, _THICK, left=since, linewidth=0, **look)


def _draw_mark(panel: Axes, row: int, mark: Mark) -> None:
    """A sign, and words on the side where there is more room."""
    sign, text = _MARKS[mark.text]
    panel.plot(mark.second, row, sign, color=BLACK, markersize=7)
    right = mark.second < sum(panel.get_xlim()) / 2
    panel.annotate(
        text,
        (mark.second, row),
        xytext=(10 if right else -10, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        fontsize=8,
        color=BLACK,
        bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none"},
    )


def _draw_stables(panel: Axes, timeline: Timeline) -> None:
    panel.set_title("Stable points: what is before them no longer changes", loc="left")
    lines = [(lane.name, lane.steps, lane.ended) for lane in timeline.lanes]
    for (name, steps, ended), colour in zip(lines, COLOURS):
        seconds, reach = _stairs(steps, timeline, ended)
        panel.plot(seconds, reach, drawstyle="steps-post", color=colour, linewidth=1.4, label=name)
    seconds, reach = _stairs(timeline.output, timeline, timeline.over)
    panel.plot(
        seconds,
        reach,
        drawstyle="steps-post",
        color="#c4c4c4",
        linewidth=4.5,
        label="merged",
        zorder=1,
    )
    panel.set_ylabel("time of the bids")
    panel.set_ylim(timeline.begin, timeline.end + 5 * SECOND)
    minutes = range(timeline.begin, timeline.end + SECOND, 60 * SECOND)
    panel.set_yticks(minutes, [format_time(at, timestamps=True)[11:19] for at in minutes])
    panel.legend(fontsize=8, loc="upper left")


def _stairs(
    steps: Sequence[LogBatch], timeline: Timeline, until: float
) -> tuple[list[float], list[int]]:
    """How far somebody has come, up to the end of the bids, and for as long as it lives."""
    known = [step for step in steps if step.stable > timeline.begin]
    seconds = [step.second for step in known]
    reach = [min(step.stable, timeline.end) for step in known]
    return [*seconds, *([until] if known else [])], [*reach, *reach[-1:]]


def _draw_rate(panel: Axes, timeline: Timeline) -> None:
    panel.set_title("Output of the merge", loc="left")
    counts: dict[int, int] = {}
    for step in timeline.output:
        counts[int(step.second)] = counts.get(int(step.second), 0) + step.rows
    panel.bar([at + 0.5 for at in counts], list(counts.values()), 0.9, color=GREY)
    panel.set_ylabel("elements per second")
    panel.set_xlabel("seconds since the first bids were delivered")
    panel.yaxis.set_major_formatter("{x:,.0f}")
