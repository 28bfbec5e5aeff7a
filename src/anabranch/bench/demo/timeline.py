"""What happened to the demo's replicas, and when, as their logs and the merge tell it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, final

from anabranch.runtime.sources.files.listing import LOG
from anabranch.runtime.sources.files.log_folder import LogFolder


@final
@dataclass(frozen=True, slots=True)
class LogBatch:
    """A batch in a log: when it was there, how far it is settled, how many elements it has."""

    second: float
    stable: int
    rows: int


@final
@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened to a replica."""

    second: float
    text: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The life of a replica.

    Attributes:
        name: What it is called.
        plan: How it computes the answer.
        began: When it was given something to do.
        ended: When it was killed, or when everything was over.
        unheard: From when on the merge did not listen to it; None: it always did.
        led: When it led the merge, from and to.
        steps: What it wrote.
        marks: What happened to it.
    """

    name: str
    plan: str
    began: float
    ended: float
    unheard: float | None = None
    led: tuple[tuple[float, float], ...] = ()
    steps: tuple[LogBatch, ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def seconds_led(self) -> float:
        """For how long it led."""
        return sum(until - since for since, until in self.led)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All replicas and what came out. Seconds count from when the first bids were delivered.

    Attributes:
        begin: The instant at which the bids begin, as a timestamp.
        end: The instant at which they end.
        over: The second in which the answer was complete.
        lanes: The replicas.
        output: What the merge wrote.
    """

    begin: int
    end: int
    over: float
    lanes: tuple[Lane, ...]
    output: tuple[LogBatch, ...]

    @property
    def silence(self) -> tuple[float, float]:
        """The longest time between two batches with output: from and to."""
        seconds = [step.second for step in self.output if step.rows]
        return max(pairwise(seconds), key=lambda pair: pair[1] - pair[0], default=(0.0, 0.0))

    def write(self, path: Path) -> None:
        """Write it down as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def read(path: Path) -> Timeline:
        """What was written down."""
        content = json.loads(path.read_text())
        lanes = tuple(_lane(lane) for lane in content.pop("lanes"))
        return Timeline(**{**content, "lanes": lanes, "output": _steps(content["output"])})


def steps_of(log: LogFolder, since: float) -> tuple[LogBatch, ...]:
    """The batches of a log, in seconds since a time on the clock."""
    steps = []
    for entry in log.entries():
        there = (Path(log.path) / LOG / f"{entry.batch}.json").stat().st_mtime
        steps.append(LogBatch(round(there - since, 3), entry.stable, entry.rows))
    return tuple(steps)


def led_by(
    name: str, output: Sequence[LogBatch], leaders: Sequence[str | None], until: float
) -> tuple[tuple[float, float], ...]:
    """When a replica led, given the leader of every batch of the merge; at most until it ended."""
    spans: list[tuple[float, float]] = []
    ends = [step.second for step in output[1:]] + [until]
    for step, end, leader in zip(output, ends, leaders):
        if leader != name or step.second >= until:
            continue
        if spans and spans[-1][1] == step.second:
            spans[-1] = (spans[-1][0], min(end, until))
        else:
            spans.append((step.second, min(end, until)))
    return tuple(spans)


def per_copy(reports: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the shards of a merge say of its copies in one batch, added up."""
    copies: dict[str, dict[str, Any]] = {}
    for report in reports:
        for copy in report["copies"]:
            total = copies.setdefault(
                copy["name"], {"status": copy["status"], "rows": 0, "ignored": 0, "diverged": 0}
            )
            for key in ("rows", "ignored", "diverged"):
                total[key] += copy[key]
            if copy["status"] == "quarantined":
                total["status"] = copy["status"]
    return copies


def _lane(content: dict[str, Any]) -> Lane:
    led = tuple((since, until) for since, until in content["led"])
    marks = tuple(Mark(**mark) for mark in content["marks"])
    return Lane(**{**content, "led": led, "marks": marks, "steps": _steps(content["steps"])})


def _steps(contents: Sequence[dict[str, Any]]) -> tuple[LogBatch, ...]:
    return tuple(LogBatch(**step) for step in contents)
