"""The second act of the demo: replicas are killed, go wrong and join; the answer stays right."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from anabranch.bench.demo.answer import check_promises, compare, right_answer
from anabranch.bench.demo.feeds import BIDS, DISTURBANCES, TAMPERED, feed_of, tampered
from anabranch.bench.demo.picture import write_picture
from anabranch.bench.demo.replica import MERGED, PLANS, replica_name
from anabranch.bench.demo.stage import DemoStage
from anabranch.bench.demo.timeline import Lane, Mark, Timeline, led_by, per_copy, steps_of
from anabranch.model.time import SECOND, format_time
from anabranch.workloads.arrival import bid_elements


def run_replicas(root: Path, console: Console) -> None:
    """Run replicas over copies of a feed, let bad things happen to them, merge, compare.

    Raises:
        EngineError: The merged answer is not the one that the meaning of the query demands, or it
            did not come.
    """
    began = time.monotonic()
    folder = root / "replicas"
    folder.mkdir(parents=True, exist_ok=True)
    console.print(
        "[bold]Second act[/]: the query must not stop. It runs as three replicas by different\n"
        "plans, over copies of a feed that differ in order, corrections and promises.\n"
        "What they write is merged into one answer.\n"
    )
    feeds = {number: feed_of(number) for number in PLANS}
    feeds[2] = tampered(feeds[2])
    console.print(f"[bold]1.[/] {BIDS.bids:,} bids are on their way, to every replica differently:")
    for number in (1, 2, 3):
        disorder = DISTURBANCES[number].disorder // SECOND
        console.print(
            f"   {replica_name(number)} ({PLANS[number][0]}): {feeds[number].elements:,} elements, "
            f"up to {disorder} s late"
        )
    console.print(
        "   Each replica is a process, 'anabranch run ... --canonical --follow', and so is the\n"
        "   merge, 'anabranch merge ... --follow'.\n"
    )
    stage = DemoStage(folder, feeds, lambda line: console.print(f"   {line}"))
    with console.status("the replicas run"):
        stage.play()
    console.print()
    timeline = recorded(stage)
    timeline.write(folder / "timeline.json")
    _tell(console, stage, timeline)
    console.print("[bold]5.[/] Every snapshot is compared with an independent computation.")
    answer = tuple(stage.merged.read())
    instants = compare(right_answer(bid_elements(BIDS)), answer)
    check_promises(answer)
    console.print(
        f"   {instants:,} instants at which the answer changes: all equal. The merged log has\n"
        f"   {sum(map(len, answer)):,} elements; none of them changes what was settled before.\n"
    )
    _show(console, stage, timeline)
    seconds = time.monotonic() - began
    console.print(f"[bold green]The merged answer is right.[/] It took {seconds:.0f} seconds.")
    console.print(f"Look at the files: anabranch show {folder / MERGED}")
    console.print(f"{_drawn(timeline, root)}\n")


def recorded(stage: DemoStage) -> Timeline:
    """What happened on the stage, second by second."""
    output = steps_of(stage.merged, stage.zero)
    leaders = [leader_of(batch) for batch in stage.reports]
    caught = output[caught_in(stage.reports)].second
    lanes = []
    for number, (plan, _) in PLANS.items():
        name, steps = replica_name(number), steps_of(stage.log(number), stage.zero)
        ended = stage.killed if number == 1 else stage.over
        happened = {
            1: (Mark(stage.killed, "killed"),),
            2: (Mark(caught, "caught"),),
            4: (Mark(steps[0].second, "joins"),),
        }
        lanes.append(
            Lane(
                name=name,
                plan=plan,
                began=stage.began[number],
                ended=ended,
                unheard=caught if number == 2 else None,
                led=led_by(name, output, leaders, ended),
                steps=steps,
                marks=happened.get(number, ()),
            )
        )
    return Timeline(
        begin=int(BIDS.begin),
        end=int(BIDS.begin + BIDS.bids / BIDS.rate * SECOND),
        over=stage.over,
        lanes=tuple(lanes),
        output=output,
    )


def leader_of(reports: Sequence[dict[str, Any]]) -> str | None:
    """Who led in a batch: the shards agree."""
    return next((report["leader"] for report in reports if report["leader"]), None)


def caught_in(batches: Sequence[Sequence[dict[str, Any]]]) -> int:
    """The batch in which a contradiction was noticed first."""
    return next(
        number
        for number, reports in enumerate(batches)
        if any(report["divergent"] for report in reports)
    )


def _tell(console: Console, stage: DemoStage, timeline: Timeline) -> None:
    one, two, _, four = timeline.lanes
    batch = caught_in(stage.reports)
    notes = [note for report in stage.reports[batch] for note in report["divergent"]]
    count = per_copy(stage.reports[batch])[two.name]["diverged"]
    since, until = timeline.silence
    low, high = (format_time(time, timestamps=True)[11:19] for time in TAMPERED)
    console.print(
        "[bold]2.[/] The merge follows whoever is ahead. After "
        f"{one.ended:.1f} seconds the process of\n   replica 1 was killed (kill -9), in the middle "
        f"of a batch and for good;\n   {heir_of(timeline)} took over.\n"
    )
    console.print(
        f"[bold]3.[/] In the feed of replica 2 all prices from {low} to {high} were changed.\n"
        f"   After {two.unheard:.1f} seconds the merge noticed {count:,} answers that contradict "
        "what was\n   settled, and stopped listening to it. One of them:\n"
        f"     {in_words(notes[0]['event'])}\n"
    )
    console.print(
        f"[bold]4.[/] A fourth replica ({four.plan}) joined after "
        f"{four.marks[0].second:.1f}\n   seconds, overtook the others and carried on to the end. "
        f"The answer never\n   paused for more than {until - since:.1f} seconds.\n"
    )


def heir_of(timeline: Timeline) -> str:
    """Who led after the first replica was gone."""
    first, *others = timeline.lanes
    ends = [(until, lane.name) for lane in others for _, until in lane.led if until > first.ended]
    return min(ends)[1] if ends else "nobody"


def in_words(event: str) -> str:
    """A contradiction on two lines, without the day."""
    day = format_time(BIDS.begin, timestamps=True)[:11]
    return event.replace(day, "").replace(": settled", ":\n     settled", 1)


def _show(console: Console, stage: DemoStage, timeline: Timeline) -> None:
    copies = per_copy(stage.reports[-1])
    table = Table(title="What the merge heard")
    table.add_column("replica")
    for name in ("elements", "too late", "contradictions", "led for"):
        table.add_column(name, justify="right")
    table.add_column("in the end")
    for lane in timeline.lanes:
        report = copies[lane.name]
        ending = "killed" if lane.name == replica_name(1) else report["status"]
        table.add_row(
            lane.name,
            f"{report['rows']:,}",
            f"{report['ignored']:,}",
            f"{report['diverged']:,}",
            f"{lane.seconds_led:.1f} s",
            ending,
        )
    console.print(table)
    console.print()


def _drawn(timeline: Timeline, root: Path) -> str:
    if find_spec("matplotlib") is None:
        return "There is no picture: it needs matplotlib (pip install 'anabranch[bench]')."
    paths = [root / "replicas.svg", root / "replicas.png"]
    write_picture(timeline, *paths)
    return f"Look at the picture: {paths[0]} (or .png)"
