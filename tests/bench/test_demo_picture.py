"""What the demo records of its replicas, and the picture of it."""

from __future__ import annotations

import os
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from matplotlib.axis import Axis
from matplotlib.text import Text

from anabranch.bench.demo.picture import draw, write_picture
from anabranch.bench.demo.replicas import caught_in, heir_of, in_words, leader_of
from anabranch.bench.demo.timeline import (
    Lane,
    LogBatch,
    Mark,
    Timeline,
    led_by,
    per_copy,
    steps_of,
)
from anabranch.model.clock import MICROSECONDS
from anabranch.model.time import FOREVER, SECOND, format_time
from anabranch.runtime.messages.heads import LogFile
from anabranch.runtime.sources.files.listing import LOG
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.workloads.nexmark import Nexmark

BEGIN = int(Nexmark().begin)


def steps(*pairs: tuple[float, float]) -> tuple[LogBatch, ...]:
    return tuple(LogBatch(at, BEGIN + round(reach * SECOND), 100) for at, reach in pairs)


@pytest.fixture
def timeline() -> Timeline:
    """Three replicas and a fourth, in a hurry: what happens to them happens close together."""
    one = Lane(
        name="replica-1",
        plan="as written",
        began=0.0,
        ended=9.0,
        led=((6.0, 9.0),),
        steps=steps((5.5, 20), (7.0, 40), (8.5, 60)),
        marks=(Mark(9.0, "killed"),),
    )
    two = Lane(
        name="replica-2",
        plan="items in two halves",
        began=0.0,
        ended=30.0,
        unheard=15.0,
        steps=steps((6.5, 21), (14.0, 60), (22.0, 120)),
        marks=(Mark(15.0, "caught"),),
    )
    three = Lane(
        name="replica-3",
        plan="by bidder, then by item",
        began=0.0,
        ended=30.0,
        led=((9.5, 25.0),),
        steps=steps((6.4, 24), (9.3, 63), (19.0, 161)),
    )
    four = Lane(
        name="replica-4",
        plan="two aggregates, joined",
        began=16.0,
        ended=30.0,
        led=((25.0, 30.0),),
        steps=(*steps((18.0, 81), (24.5, 190)), LogBatch(29.5, int(FOREVER), 50)),
        marks=(Mark(18.0, "joins"),),
    )
    output = (LogBatch(5.8, -(2**63), 0), *steps((6.0, 20), (9.0, 60), (19.5, 161), (25.0, 190)))
    return Timeline(
        begin=BEGIN,
        end=BEGIN + 240 * SECOND,
        over=30.0,
        lanes=(one, two, three, four),
        output=(*output, LogBatch(30.0, int(FOREVER), 70)),
    )


def test_a_timeline_can_be_written_down(timeline: Timeline, tmp_path: Path) -> None:
    timeline.write(tmp_path / "timeline.json")
    assert Timeline.read(tmp_path / "timeline.json") == timeline


def test_a_timeline_knows_the_longest_silence_and_who_took_over(timeline: Timeline) -> None:
    assert timeline.silence == (9.0, 19.5)
    assert heir_of(timeline) == "replica-3"
    assert [lane.seconds_led for lane in timeline.lanes] == [3.0, 0.0, 15.5, 5.0]


def test_steps_come_from_a_log(tmp_path: Path) -> None:
    log = LogFolder(str(tmp_path / "log"))
    log.create(pa.schema([("a", pa.int64())]), query="q", clock=MICROSECONDS)
    for batch, stable in enumerate((7, 9)):
        files = [LogFile(name=f"{batch}-{shard}", rows=batch + 3, bytes=1) for shard in (0, 1)]
        log.commit(batch, stable, files)
        os.utime(tmp_path / "log" / LOG / f"{batch}.json", (0, 100.5 + batch))
    assert steps_of(log, 100.0) == (LogBatch(0.5, 7, 6), LogBatch(1.5, 9, 8))


def test_who_led_is_told_by_the_batches() -> None:
    output = steps((1, 1), (2, 2), (3, 3), (4, 4), (6, 5))
    leaders = [None, "a", "a", "b", "a"]
    assert led_by("a", output, leaders, 9.0) == ((2, 4), (6, 9.0))
    assert led_by("b", output, leaders, 9.0) == ((4, 6),)
    assert led_by("b", output, leaders, 5.0) == ((4, 5.0),)
    assert led_by("a", output, leaders, 1.5) == ()


def copy(name: str, status: str, *counts: int) -> dict[str, Any]:
    return {"name": name, "status": status, **dict(zip(("rows", "ignored", "diverged"), counts))}


def test_reports_of_shards_are_added_up() -> None:
    note = {"copy": "b", "event": "..."}
    shards: list[dict[str, Any]] = [
        {"leader": None, "divergent": [], "copies": [copy("a", "joined", 5, 1, 0)]},
        {
            "leader": "a",
            "divergent": [note],
            "copies": [copy("a", "joined", 2, 1, 0), copy("b", "quarantined", 9, 0, 4)],
        },
    ]
    assert leader_of(shards) == "a"
    assert leader_of(shards[:1]) is None
    assert caught_in([shards[:1], shards, shards]) == 1
    assert per_copy(shards) == {
        "a": {"status": "joined", "rows": 7, "ignored": 2, "diverged": 0},
        "b": {"status": "quarantined", "rows": 9, "ignored": 0, "diverged": 4},
    }


def test_contradictions_are_told_without_the_day() -> None:
    start, end = (format_time(time, timestamps=True) for time in (BEGIN, BEGIN + 5))
    event = f"(1, 2.5) from {start}: settled that there is none, but 'b' says until {end}"
    assert in_words(event).splitlines() == [
        "(1, 2.5) from 10:00:00:",
        "     settled that there is none, but 'b' says until 10:00:00.000005",
    ]


def test_the_picture_is_written(timeline: Timeline, tmp_path: Path) -> None:
    paths = [tmp_path / "r.svg", tmp_path / "again.svg", tmp_path / "r.png"]
    write_picture(timeline, *paths)
    svg = paths[0].read_text()
    for words in ("replica-4", "two aggregates, joined", "killed with kill -9", "10:03:00"):
        assert words in svg
    (drawn, numbers), (again, others) = (_parts(path.read_text()) for path in paths[:2])
    assert drawn == again
    assert numbers == pytest.approx(others, abs=1e-3)
    assert paths[2].read_bytes().startswith(b"\x89PNG")


def _parts(svg: str) -> tuple[str, list[float]]:
    """A drawing in text without its numbers, and these.

    What is clipped is named after places in memory. The layout's solver goes through its terms in
    the order of such places, too: the last of the digits differ.
    """
    svg = re.sub(r"(#|id=\")p[0-9a-f]{10}", "", svg)
    number = re.compile(r"(?<![\w.#])-?\d+(?:\.\d+)?")
    return number.sub("", svg), [float(each) for each in number.findall(svg)]


def test_no_words_of_the_picture_cover_others(timeline: Timeline) -> None:
    figure = draw(timeline)
    figure.draw_without_rendering()
    shown = [
        text
        for panel in figure.axes
        for text in (*panel.texts, *inside(panel.yaxis), panel.title, panel.yaxis.label)
    ]
    assert len(shown) > 15
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown if text.get_text()]
    assert [(a, b) for (a, one), (b, two) in combinations(boxes, 2) if one.overlaps(two)] == []


def inside(axis: Axis) -> list[Text]:
    """The labels of ticks that are drawn."""
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
