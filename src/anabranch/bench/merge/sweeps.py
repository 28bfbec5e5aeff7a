"""Merging by every case: memory and throughput over inputs, disorder, lag and stable points."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final

from anabranch.algebra.merge import MergePolicy
from anabranch.bench.merge.lab import MERGERS, MergeLab, MergerRun, Plain, feeds, race
from anabranch.model.batch import EventBatch
from anabranch.model.time import FOREVER, SECOND, Duration
from anabranch.workloads.lmerge import PAYLOAD, LMerge, copy_batches

CASES: Final = ("r0", "r1", "r2", "r3", "r4")
NOISE: Final = 0.9
"""Rates within a tenth of each other count as equal."""

SHORT: Final = 16
REVISIONS: Final = 4
"""How often an event is revised, if it is, where adjusts are counted."""

LAG_BATCH: Final = 500
"""Half a second of each input, where inputs lag."""


def each_case(lab: MergeLab) -> None:
    """Elements per second and core of each case by itself: `prepare` and `advance` together."""
    events, batch = lab.size.kernel
    for case in CASES:
        rough = case in ("r3", "r4")
        for text in (SHORT, lab.size.text):
            config = LMerge(
                events=events,
                case=case,
                text=text,
                live=lab.size.live,
                adjusts=0.2 if rough else 0.0,
            )
            rates = []
            for _ in range(lab.size.repeats):
                found = race({case: MERGERS[case](3)}, feeds(config, 3, batch))
                rates.append(found[case].rate)
            rate = statistics.median(rates)
            lab.point("kernel", case, text, per_s=rate)
            lab.report.figure(f"{case}_per_s" if text != SHORT else f"{case}_short_per_s", rate)


def inputs(lab: MergeLab) -> None:
    """Memory and throughput over the number of inputs, of an ordered stream."""
    found: dict[int, dict[str, MergerRun]] = {}
    names = (*CASES, "r3-")
    for many in lab.size.inputs:
        config = lab.config(case="r0", disorder=0.0)
        steps = feeds(config, many, lab.size.batch)
        found[many] = race({name: MERGERS[name](many) for name in names}, steps)
        for name, run in found[many].items():
            lab.point("inputs", name, many, bytes=run.memory, per_s=run.rate)
    few, most = min(found), max(found)
    grown = {name: found[most][name].memory / found[few][name].memory for name in names}
    lab.report.figure("r3_memory_10_over_2", grown["r3"])
    tiny = max(found[most][name].memory for name in CASES[:3]) / found[most]["r3"].memory
    linear = grown["r3-"] / ((most + 1) / (few + 1))
    lab.state(
        "memory",
        "R0-R2 flat and tiny; R3+ nearly flat; R3- linear in inputs",
        tiny < 0.01 and grown["r3"] <= 1.3 and 0.75 <= linear <= 1.25,
        f"from {few} to {most} inputs: R3+ {grown['r3']:.2f} times, R4 {grown['r4']:.2f} times, "
        f"R3- {grown['r3-']:.2f} times; R0-R2 at most {tiny:.2%} of R3+",
    )
    rates = {name: [found[many][name].rate for many in found] for name in names}
    pairs = (("r0", "r1"), ("r1", "r2"), ("r2", "r3"), ("r3", "r3-"))
    holds = all(
        mine >= NOISE * theirs
        for one, other in pairs
        for mine, theirs in zip(rates[one], rates[other], strict=True)
    )
    middle = {name: statistics.median(some) / 1e6 for name, some in rates.items()}
    lab.state(
        "throughput",
        "R0 >= R1 >= R2 > R3+ > R3-",
        holds,
        ", ".join(f"{name.upper()} {rate:.2f}M/s" for name, rate in middle.items()),
    )


def output_size(lab: MergeLab) -> None:
    """Adjusts that leave a merge, and those of one copy without a merge.

    Of several adjusts of an event in one batch only the last leaves a kernel. So that this does not
    count as a merit of merging, one copy also passes a kernel that lets every change out.
    """
    gaps = []
    events, batch = min(lab.size.events // 8, 5_000), 10
    for share in lab.size.shares:
        # In the paper half the elements out of order gave 36% adjusts.
        config = lab.config(
            disorder=share,
            adjusts=0.72 * share,
            revisions=REVISIONS,
            text=SHORT,
            events=events,
        )
        raw = sum(int((each.end != each.start).sum()) for each in copy_batches(config, 0, batch))
        eager = Plain("r3", 1, policy=MergePolicy.of(adjusts="eager"))
        alone = race({"alone": eager}, feeds(config, 1, batch))["alone"].adjusts
        merged = race({"r3": MERGERS["r3"](3)}, feeds(config, 3, batch))["r3"].adjusts
        for name, adjusts in (("no merge", raw), ("no merge, batched", alone), ("r3", merged)):
            lab.point("output", name, share, adjusts=adjusts)
        gaps.append((alone - merged, alone, merged, raw))
    rising = all(later[0] >= earlier[0] for earlier, later in pairwise(gaps))
    gap, alone, merged, raw = gaps[-1]
    lab.state(
        "output",
        "merge emits fewer adjusts; gap grows with disorder",
        rising and all(one[2] <= one[1] for one in gaps) and gap > 0,
        f"{merged:,} adjusts at {lab.size.shares[-1]:.0%}; one copy alone has {alone:,} in the "
        f"same batches, and {raw:,} before batching",
    )


def lag(lab: MergeLab) -> None:
    """Two of three inputs are late by some seconds; events come every millisecond."""
    found: dict[float, list[MergerRun]] = {late: [] for late in lab.size.lags}
    # The machine is not the same all the time: every lag gets a share of its moods.
    for late in [*lab.size.lags] * lab.size.repeats:
        config = lab.config(
            gap=Duration(SECOND // 500),
            live=min(40_000, lab.size.events // 4),
            back=Duration(SECOND // 2),
            stable_share=0.001,
            text=100,
        )
        behind = int(late * 1_000 / LAG_BATCH)
        steps = _lagging(config, LAG_BATCH, behind)
        found[late].append(race({"r3": MERGERS["r3"](3)}, steps)["r3"])
    rates = []
    for late, runs in found.items():
        rates.append(statistics.median(run.rate for run in runs))
        lab.point("lag", "r3", late, per_s=rates[-1], bytes=runs[0].memory)
    lab.state(
        "lag",
        "rises with lag (late elements are dropped early)",
        rates[-1] > rates[0] / NOISE,
        f"{rates[0] / 1e6:.2f}M/s without lag, {rates[-1] / 1e6:.2f}M/s at {lab.size.lags[-1]:g} s",
    )


def _lagging(config: LMerge, batch: int, behind: int) -> Iterator[list[EventBatch]]:
    """The first input as it is, the others so many batches later."""
    lead, *slow = (list(copy_batches(config, number, batch)) for number in range(3))
    none = EventBatch.empty(PAYLOAD)
    over = EventBatch.empty(PAYLOAD, FOREVER)
    steps = max(map(len, (lead, *slow))) + behind
    padded = [
        [*[none] * wait, *copy, *[over] * (steps - wait - len(copy))]
        for copy, wait in ((lead, 0), *((copy, behind) for copy in slow))
    ]
    # While the first input is there: what follows is only the late ones catching up.
    return islice((list(step) for step in zip(*padded, strict=True)), len(lead))


def stable_shares(lab: MergeLab) -> None:
    """Memory and throughput over how often something is promised."""
    found: dict[float, Mapping[str, MergerRun]] = {}
    batch = max(lab.size.batch // 5, 500)
    for share in lab.size.stables:
        config = lab.config(case="r0", disorder=0.0, stable_share=share)
        mergers = {name: MERGERS[name](3) for name in CASES}
        found[share] = race(mergers, feeds(config, 3, batch), ends=False)
        for name, run in found[share].items():
            lab.point("stables", name, share, bytes=run.memory, per_s=run.rate)
    rare, often = found[lab.size.stables[0]], found[lab.size.stables[-1]]
    less = {name: often[name].memory / rare[name].memory for name in CASES}
    slower = {name: often[name].rate / rare[name].rate for name in CASES}
    same = all(slower[name] > 0.75 for name in CASES[:3])
    lab.state(
        "stables",
        "memory falls, R3/R4 throughput falls, R0-R2 unaffected",
        max(less["r3"], less["r4"]) < 1 and max(slower["r3"], slower["r4"]) < 1 and same,
        "from rare to often: memory of R3 "
        f"{less['r3']:.2f} times, of R4 {less['r4']:.2f}; throughput "
        + ", ".join(f"{name.upper()} {ratio:.2f}" for name, ratio in slower.items()),
    )


def cleanse(lab: MergeLab) -> None:
    """Order first and merge then, beside merging as it comes."""
    found: dict[int, Mapping[str, MergerRun]] = {}
    names: Sequence[str] = ("r3", "r3-", "c+r1")
    for many in lab.size.inputs:
        config = lab.config(disorder=0.5, adjusts=0.36, stable_share=0.001)
        steps = feeds(config, many, lab.size.batch)
        found[many] = race({name: MERGERS[name](many) for name in names}, steps, ends=False)
        for name, run in found[many].items():
            lab.point("cleanse", name, many, bytes=run.memory, per_s=run.rate)
    waits = _waits(lab)
    most = max(found)
    ours, other = found[most]["r3"], found[most]["c+r1"]
    memory = other.memory / ours.memory
    lab.report.figure("cleanse_memory_over_r3", memory)
    lab.state(
        "cleanse",
        "R3+ up to 7x less memory at 10 inputs, higher throughput, latency orders of magnitude "
        "lower",
        memory >= 5 and ours.rate > other.rate and waits["c+r1"] > 50 * waits["r3"],
        f"at {most} inputs C+R1 has {memory:.1f} times the memory, "
        f"{other.rate / ours.rate:.2f} of the throughput, and an insert leaves "
        f"{waits['c+r1']:,.0f} s of the stream after its start instead of {waits['r3']:,.0f} s",
    )


def _waits(lab: MergeLab) -> dict[str, float]:
    """How long an insert takes to leave, in batches of ten elements: a batch is part of that."""
    events = min(lab.size.events // 8, 3_000)
    config = LMerge(
        events=events, live=events // 3, text=SHORT, disorder=0.5, adjusts=0.36, stable_share=0.01
    )
    names = ("r3", "c+r1")
    found = race({name: MERGERS[name](2) for name in names}, feeds(config, 2, 20), ends=False)
    for name, run in found.items():
        lab.point("cleanse wait", name, 2, wait_s=run.wait)
    return {name: run.wait for name, run in found.items()}
