"""Bursts and congestion: copies that falter at different times, and what leaves their merge.

Time is simulated: a copy has 5,000 elements a second, which leave it late where it falters, and
then as fast as it can. The merge gets what has come every twentieth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt

from anabranch.bench.merge.lab import MergeLab, Plain
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING
from anabranch.workloads.lmerge import LMerge, copy_batches

Floats = npt.NDArray[np.float64]

PER_SECOND: Final = 5_000
CATCH_UP: Final = 8
"""So many times as fast a copy sends what has piled up."""

STEP: Final = 0.05
TEXT: Final = 16
"""Bytes of a payload: nothing here depends on it."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Faltering:
    """A copy, its stable point after each element, and when each element leaves it."""

    elements: EventBatch
    stable: npt.NDArray[np.int64]
    leaves: Floats


def bursty(lab: MergeLab) -> None:
    """Four copies, each with short random stops."""
    random = np.random.default_rng(3)
    seconds = lab.size.seconds
    copies = []
    for number in range(4):
        many = seconds * PER_SECOND
        stops = random.random(many) < random.uniform(0.003, 0.005)
        length = np.clip(random.normal(0.020, 0.005, many), 0, None)
        copies.append(_copy(number, seconds, np.where(stops, length, 0.0)))
    into, out = _rates(copies, seconds)
    _tell(lab, "bursty", into, out)
    jitter = [_variation(rates) for rates in into]
    left = _variation(out)
    lab.state(
        "bursty",
        "output smooth",
        left < 0.5 * min(jitter),
        f"standard deviation of the rate over its mean: inputs {min(jitter):.2f} to "
        f"{max(jitter):.2f}, output {left:.2f}",
    )
    lab.report.figure("bursty_in_over_out", min(jitter) / max(left, 1e-9))


def congestion(lab: MergeLab) -> None:
    """Three copies that are congested one after the other, and in the end two at once."""
    seconds = lab.size.seconds
    random = np.random.default_rng(4)
    # Shares of the time in which each copy is congested.
    when = (((0.1, 0.2), (0.7, 0.8)), ((0.3, 0.4),), ((0.5, 0.6), (0.68, 0.78)))
    copies = []
    for number, periods in enumerate(when):
        many = seconds * PER_SECOND
        slow = np.clip(random.normal(5 / PER_SECOND, 1 / PER_SECOND, many), 0, None)
        delay = np.zeros(many)
        for low, high in periods:
            # At a sixth of the rate, few elements pass in that time.
            first = int(low * many)
            last = first + int((high - low) * many / 6)
            delay[first:last] = slow[first:last]
        copies.append(_copy(number, seconds, delay))
    into, out = _rates(copies, seconds)
    _tell(lab, "congestion", into, out)
    worst = [float(_by(rates, 4).min() / rates.mean()) for rates in into]
    least = float(_by(out, 4).min() / out.mean())
    lab.state(
        "congestion",
        "unaffected",
        least > 0.9 and max(worst) < 0.5,
        f"the least rate in a fifth of a second over the mean: inputs {min(worst):.2f} to "
        f"{max(worst):.2f}, output {least:.2f}",
    )


def _copy(number: int, seconds: int, delay: Floats) -> Faltering:
    many = seconds * PER_SECOND
    config = LMerge(events=many, live=2_000, text=TEXT)
    batches = list(copy_batches(config, number, 50))
    elements = EventBatch.concat(batches)
    stable = np.repeat([int(b.stable) for b in batches], [len(b) for b in batches])
    # A stable point counts once all of its batch is there.
    stable = np.concatenate([np.full(50, BEGINNING), stable])[: len(elements)]
    nominal = np.arange(len(elements)) / PER_SECOND
    spent = np.cumsum(1 / (CATCH_UP * PER_SECOND) + delay[: len(elements)])
    before = np.concatenate([[0.0], spent[:-1]])
    # Nothing leaves before it is there, or before what is in front of it has left.
    leaves = spent + np.maximum.accumulate(nominal - before)
    return Faltering(elements, stable, leaves)


def _rates(copies: Sequence[Faltering], seconds: int) -> tuple[list[Floats], Floats]:
    """Elements per second, step by step: of every input, and inserts out."""
    merger = Plain("r3", len(copies))
    edges = np.arange(1, round(seconds / STEP) + 1) * STEP
    ends = [np.searchsorted(copy.leaves, edges) for copy in copies]
    begins = [np.concatenate([[0], each[:-1]]) for each in ends]
    out = []
    for step in range(len(edges)):
        batches, stables = [], []
        for copy, low, high in zip(copies, begins, ends, strict=True):
            last = int(high[step])
            batches.append(copy.elements.take(np.arange(int(low[step]), last)))
            stables.append(int(copy.stable[last - 1]) if last else int(BEGINNING))
        output = merger.step(batches, stables)
        out.append(int((output.end == output.start).sum()))
    into = [np.diff(each, prepend=0) / STEP for each in ends]
    # In the beginning everybody is on time.
    return [rates[1:] for rates in into], np.array(out[1:]) / STEP


def _tell(lab: MergeLab, row: str, into: Sequence[Floats], out: Floats) -> None:
    for name, rates in (*((f"input {n}", r) for n, r in enumerate(into, 1)), ("output", out)):
        lab.report.measured("rates", row=row, series=name, step=STEP, per_s=rates.tolist())


def _variation(rates: Floats) -> float:
    return float(rates.std() / rates.mean())


def _by(rates: Floats, many: int) -> Floats:
    """Means over so many steps at a time."""
    whole = len(rates) // many * many
    return np.asarray(rates[:whole].reshape(-1, many).mean(axis=1))
