"""Run one way to migrate over the streams of the experiment, and look at it all the time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import process_time
from typing import Final, TypeAlias, final

import numpy as np

from anabranch.bench.migration.pieces import Stretch, differences, doubled, lost
from anabranch.bench.migration.plan_pairs import PlanPair
from anabranch.bench.migration.ways import WAYS, PlanChange
from anabranch.bench.report import Report

SECOND: Final = 1_000
"""The streams count milliseconds."""

Arrival: TypeAlias = tuple[str, Stretch]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationSize:
    """How much is measured.

    Attributes:
        elements: Of each of the four streams, of which 100 come per second.
        window: Seconds; the migration begins after two of them.
        numbers: How many different values A and B have; C and D have twice as many.
        rounds: How expensive the predicate of the last experiment is.
        repeats: Runs of the last experiment.
        trials: Random streams per pair of plans.
        product_batches: Batches per second of stream, of the product's own kernels.
    """

    elements: int
    window: int
    numbers: int
    rounds: int
    repeats: int
    trials: int
    product_batches: int = 10


@final
@dataclass(slots=True)
class Observed:
    """One run, sampled every tenth of a window.

    Attributes:
        way: How it migrated.
        seconds: Of stream time, when each sample was taken.
        results: Results since the sample before.
        elements: Elements in states and buffers then.
        tuples: The tuples of sources that these are made of.
        cpu: Seconds of the processor up to then.
        output: All results.
        duration: Of the migration, in seconds of stream.
        evaluations: Of join predicates.
        buffered: Results that waited at once, at most.
    """

    way: str
    seconds: list[float] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    elements: list[int] = field(default_factory=list)
    tuples: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    output: list[Stretch] = field(default_factory=list)
    duration: float = 0.0
    evaluations: int = 0
    buffered: int = 0

    def between(self, first: float, last: float) -> list[int]:
        """The samples of a stretch of stream time, by index."""
        return [at for at, second in enumerate(self.seconds) if first < second <= last]

    def rate(self, first: float, last: float) -> float:
        """Results per second in a stretch of stream time."""
        return sum(self.results[at] for at in self.between(first, last)) / (last - first)


@final
@dataclass(slots=True)
class MigrationLab:
    """What the experiments share: the report, the streams, and the verdicts so far."""

    report: Report
    size: MigrationSize
    streams: list[Arrival]
    checks: dict[str, list[bool]] = field(default_factory=dict)

    @property
    def begin(self) -> float:
        """When migrations begin, in seconds of stream."""
        return 2.0 * self.size.window

    @property
    def last(self) -> float:
        """The end of the streams, in seconds."""
        return self.size.elements / 100

    def verdict(self, row: str, statement: str, holds: bool, **figures: float) -> None:
        """A statement, what was measured, and whether it holds; `ours` is not of the paper."""
        self.checks[row] = [*self.checks.get(row, []), holds]
        self.report.measured(
            "verdict",
            row=row,
            statement=statement,
            holds=holds,
            **{name: round(value, 4) for name, value in figures.items()},
        )
        for name, value in figures.items():
            prefix = f"{row.lower().replace('-', '')}_" if row != "ours" else ""
            self.report.figure(f"{prefix}{name}", value)


def join_streams(size: MigrationSize, seed: int = 30) -> list[Arrival]:
    """Random numbers of four streams, each for a window, in the order of their starts."""
    random = np.random.default_rng(seed)
    window = size.window * SECOND
    found: list[Arrival] = []
    for position, name in enumerate("ABCD"):
        several = size.numbers if position < 2 else 2 * size.numbers
        values = random.integers(0, several + 1, size.elements)
        starts = np.arange(size.elements) * 10 + 10 * position // 4
        found += [
            (name, Stretch((value,), start, start + window))
            for value, start in zip(values.tolist(), starts.tolist())
        ]
    return sorted(found, key=lambda arrival: arrival[1].start)


def observe(
    way: str,
    pair: PlanPair,
    streams: list[Arrival],
    *,
    begin: float,
    window: float,
    every: float,
) -> Observed:
    """Migrate in one way; times are those of the streams."""
    seen = Observed(way)
    change = WAYS[way](pair.old(), pair.new(), window, seen.output.append)
    started = process_time()
    counted, due = 0, every

    def sample(until: float) -> None:
        nonlocal counted
        seen.seconds.append(until / SECOND)
        seen.results.append(len(seen.output) - counted)
        counted = len(seen.output)
        rows, tuples = change.size()
        seen.elements.append(rows)
        seen.tuples.append(tuples)
        seen.cpu.append(process_time() - started)

    for name, piece in streams:
        while piece.start >= due:
            sample(due)
            due += every
        if change.began is None and piece.start >= begin:
            change.begin(begin)
        change.take(name, piece)
    sample(due)
    change.finish()
    assert change.began is not None
    assert change.ended is not None
    seen.duration = (change.ended - change.began) / SECOND
    seen.evaluations = change.evaluations
    seen.buffered = change.most_buffered
    return seen


def alone(pair: PlanPair, streams: list[Arrival]) -> list[Stretch]:
    """What the new plan says of the streams by itself."""
    found: list[Stretch] = []
    box = pair.new()
    box.emit = found.append
    for name, piece in streams:
        box.advance(piece.start)
        box.take(name, piece)
    box.finish()
    return found


def wrong_trials(pair: PlanPair, trials: int, seed: int = 28) -> Mapping[str, int]:
    """By way to migrate, for how many random streams the answer is wrong."""
    random = np.random.default_rng(seed)
    wrong = dict.fromkeys(WAYS, 0)
    window = 20
    for _ in range(trials):
        streams = sorted(_few(pair.sources, random, window), key=lambda each: each[1].start)
        wanted = alone(pair, streams)
        for way in WAYS:
            output: list[Stretch] = []
            change = WAYS[way](pair.old(), pair.new(), window, output.append)
            _run(change, streams, begin=25)
            wrong[way] += bool(differences(wanted, output))
    return wrong


def _few(sources: tuple[str, ...], random: np.random.Generator, window: int) -> Iterator[Arrival]:
    for name in sources:
        starts = random.choice(90, 14, replace=False)
        for value, start in zip(random.integers(0, 3, 14).tolist(), starts.tolist()):
            yield name, Stretch((value,), start, start + window)


def _run(change: PlanChange, streams: list[Arrival], *, begin: float) -> None:
    for name, piece in streams:
        if change.began is None and piece.start >= begin:
            change.begin(begin)
        change.take(name, piece)
    change.finish()


def errors_of(wanted: list[Stretch], found: list[Stretch]) -> tuple[float, float]:
    """Lost and doubled results, by the seconds for which they should hold or not."""
    excess = differences(wanted, found)
    return lost(excess) / SECOND, doubled(excess) / SECOND
