"""The experiments 30-A, 30-B and 30-C, and how often every way to migrate is wrong."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Final

from anabranch.bench.migration.lab import (
    SECOND,
    MigrationLab,
    Observed,
    alone,
    errors_of,
    observe,
    wrong_trials,
)
from anabranch.bench.migration.pieces import Stretch
from anabranch.bench.migration.plan_pairs import REWRITES, join_orders
from anabranch.bench.migration.product import observe_product
from anabranch.bench.migration.ways import WAYS

SAMPLES: Final = 10
"""Samples per window."""

PAPER_WAYS: Final = ("parallel track", "genmig", "reference point")


def output_and_memory(lab: MigrationLab) -> None:
    """30-A and 30-B: output rate and memory over time, and the end of the migration."""
    wanted = alone(join_orders(), lab.streams)
    window, begin = lab.size.window, lab.begin
    runs = {way: _observe(lab, way) for way in WAYS}
    runs["product"] = observe_product(
        lab.streams,
        begin=int(begin * SECOND),
        every=window * SECOND // SAMPLES,
        batches_per_sample=max(1, lab.size.product_batches * window // SAMPLES),
    )
    for run in runs.values():
        _tell(lab, run, wanted)
    _judge_output(lab, runs)
    _judge_memory(lab, runs)


def _observe(lab: MigrationLab, way: str, rounds: int = 0) -> Observed:
    window = lab.size.window * SECOND
    return observe(
        way,
        join_orders(rounds),
        lab.streams,
        begin=lab.begin * SECOND,
        window=window,
        every=window / SAMPLES,
    )


def _tell(lab: MigrationLab, run: Observed, wanted: list[Stretch]) -> None:
    lost, doubled = errors_of(wanted, run.output)
    lab.report.measured(
        "run",
        way=run.way,
        duration_over_window=round(run.duration / lab.size.window, 3),
        lost=lost,
        doubled=doubled,
        evaluations=run.evaluations,
        buffered=run.buffered,
        seconds=run.seconds,
        results=run.results,
        elements=run.elements,
        tuples=run.tuples,
    )
    name = run.way.replace(" ", "_")
    lab.report.figure(f"{name}_duration_over_window", run.duration / lab.size.window)
    lab.report.figure(f"{name}_wrong_seconds", lost + doubled)


def _judge_output(lab: MigrationLab, runs: Mapping[str, Observed]) -> None:
    window, begin = lab.size.window, lab.begin
    track, genmig = runs["parallel track"], runs["genmig"]
    steady = genmig.rate(begin - window / 2, begin)
    lab.verdict(
        "30-A",
        "GenMig ends after one window",
        abs(genmig.duration / window - 1) < 0.05,
        genmig_windows=genmig.duration / window,
    )
    lab.verdict(
        "30-A",
        "Parallel Track ends after two windows",
        abs(track.duration / window - 2) < 0.15,
        parallel_track_windows=track.duration / window,
    )
    falling = track.rate(begin + 0.8 * window, begin + window) / steady
    silent = track.rate(begin + window, begin + 1.8 * window) / steady
    burst = max(
        track.results[at] for at in track.between(begin + 1.7 * window, begin + 2.2 * window)
    )
    lab.verdict(
        "30-A",
        "Parallel Track: falling rate in the first window, nothing in the second, then a burst",
        falling < 0.6 and silent < 0.01 and burst * SAMPLES / window > 3 * steady,
        late_rate=falling,
        silent_rate=silent,
        burst=burst * SAMPLES / window / steady,
    )
    for name in ("genmig", "clip", "product"):
        run = runs[name]
        slowest = min(run.results[at] for at in run.between(begin, begin + window))
        lab.verdict(
            "30-A" if name in PAPER_WAYS else "ours",
            f"{_title(name)} goes on emitting: no tenth of a window without results",
            slowest > 0,
            **{f"{name}_slowest": slowest * SAMPLES / window / steady},
        )


def _judge_memory(lab: MigrationLab, runs: Mapping[str, Observed]) -> None:
    window, begin = lab.size.window, lab.begin
    track, genmig = runs["parallel track"], runs["genmig"]
    during = track.between(begin, begin + 2 * window - window / SAMPLES)
    more = [track.tuples[at] / genmig.tuples[at] for at in during]
    lab.verdict(
        "30-B",
        "Parallel Track holds more than GenMig all through the migration",
        min(more) > 1,
        least=min(more),
        most=max(more),
    )
    rest = track.between(begin + 2 * window, lab.last)
    before = track.between(0, begin)
    equal = all(track.tuples[at] == genmig.tuples[at] for at in (*before, *rest))
    lab.verdict("30-B", "Both hold the same before and after", equal)
    old = _mean(genmig, begin - window / 2, begin)
    new = _mean(genmig, lab.last - window / 2, lab.last)
    peak = max(genmig.elements[at] for at in genmig.between(begin, begin + window))
    lab.verdict(
        "30-B",
        "The new plan holds less than the old one: 0.75 of its elements",
        abs(new / old - 0.75) < 0.08,
        new_over_old=new / old,
    )
    lab.verdict(
        "30-B",
        "GenMig's peak is the sum of both boxes: 1.75 of the old one",
        peak / old < 1.9,
        peak_over_old=peak / old,
    )
    ours = runs["product"]
    most = max(ours.elements[at] for at in ours.between(begin, begin + window))
    lab.verdict(
        "ours",
        "The product's peak is no more than both boxes together: below 1.9 of the old one",
        most / _mean(ours, begin - window / 2, begin) < 1.9,
        product_peak_over_old=most / _mean(ours, begin - window / 2, begin),
    )
    lab.report.figure("30b_buffered_by_parallel_track", track.buffered)


def total_cost(lab: MigrationLab) -> None:
    """30-C: everything as fast as possible, with an expensive predicate."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    first: dict[str, Observed] = {}
    for repeat in range(lab.size.repeats):
        # Whoever comes later finds a warmer machine, so the first one changes.
        order = list(WAYS)[repeat % len(WAYS) :] + list(WAYS)[: repeat % len(WAYS)]
        for way in order:
            run = _observe(lab, way, lab.size.rounds)
            seconds[way].append(run.cpu[-1])
            first.setdefault(way, run)
    medians = {way: statistics.median(own) for way, own in seconds.items()}
    for way, run in first.items():
        lab.report.measured(
            "cost",
            way=way,
            median_s=round(medians[way], 4),
            evaluations=run.evaluations,
            cpu=[round(each, 4) for each in run.cpu],
            results=run.results,
        )
    base = medians["genmig"]
    lab.verdict(
        "30-C",
        "Parallel Track takes longer than GenMig",
        medians["parallel track"] > base,
        parallel_track_over_genmig=medians["parallel track"] / base,
    )
    lab.verdict(
        "30-C",
        "The reference point is slightly better than GenMig",
        medians["reference point"] <= 1.02 * base,
        reference_point_over_genmig=medians["reference point"] / base,
    )
    lab.verdict(
        "ours",
        "Clip costs no more than GenMig",
        medians["clip"] <= 1.02 * base,
        clip_over_genmig=medians["clip"] / base,
    )
    window = lab.size.window
    genmig = first["genmig"]
    slopes = [
        genmig.rate(start, end) * (end - start) / _cpu(genmig, start, end)
        for start, end in (
            (lab.begin - window, lab.begin),
            (lab.begin, lab.begin + window),
            (lab.begin + window, lab.last),
        )
    ]
    lab.verdict(
        "30-C",
        "The slope is least while both boxes run, and steeper after than before",
        slopes[1] < slopes[0] < slopes[2],
        during_over_before=slopes[1] / slopes[0],
        after_over_before=slopes[2] / slopes[0],
    )


def right_answers(lab: MigrationLab) -> None:
    """Which rewrites every way gets right, over random streams."""
    for name, pair in REWRITES.items():
        wrong = wrong_trials(pair(), lab.size.trials)
        lab.report.measured("trials", rewrite=name, trials=lab.size.trials, wrong=wrong)
        joins = name == "join order"
        holds = not wrong["genmig"] and not wrong["clip"]
        for way in ("parallel track", "reference point"):
            holds = holds and (wrong[way] == 0 if joins else wrong[way] > 0)
        lab.verdict(
            "28.2",
            f"{name}: GenMig and clip are always right, the others "
            f"{'too' if joins else 'sometimes wrong'}",
            holds,
        )


def _mean(run: Observed, first: float, last: float) -> float:
    return statistics.mean(run.elements[at] for at in run.between(first, last))


def _cpu(run: Observed, first: float, last: float) -> float:
    at = run.between(first, last)
    return run.cpu[at[-1]] - run.cpu[at[0] - 1]


def _title(name: str) -> str:
    return {"genmig": "GenMig", "clip": "Clip", "product": "The product"}[name]
