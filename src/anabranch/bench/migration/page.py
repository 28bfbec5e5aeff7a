"""The page of the experiments of plan migration, with a verdict per statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from anabranch.bench.figures.targets import target_rows

Line: TypeAlias = Mapping[str, Any]

PLOTTED: Final[Mapping[str, str]] = {
    "output": "Output rate during a migration",
    "memory": "Elements in states and buffers",
    "cost": "Results over time, as fast as possible",
    "right": "Wrong answers",
}


def write_page(lines: Sequence[Line], folder: Path) -> Path:
    """Write the page beside the folder of its drawings."""
    kinds: dict[str, list[Line]] = {}
    for line in lines:
        kinds.setdefault(line.get("measurement", "figures"), []).append(line)
    (setup,) = kinds["setup"]
    figures = kinds["figures"][-1]["figures"]
    form = setup["form"]
    text = [_HEAD.format(**setup, call="" if form == "full" else f" --{form}")]
    text += [_verdict(line) for line in kinds["verdict"]]
    text += ["", _RUNS, *map(_run, kinds["run"])]
    text += ["", *_drawn(folder, "output", "memory")]
    text += [_COSTS, *_costs(kinds["cost"]), "", *_drawn(folder, "cost")]
    text += [_TRIALS.format(**setup), *map(_trials, kinds["trials"])]
    text += ["", *_drawn(folder, "right")]
    judged = target_rows("migration", figures)
    text += [_on_spark(kinds["ticks"][-1]), *judged] if judged else []
    text += ["", _MIGRATED, *map(_migrated, kinds.get("spark", []))] if judged else []
    for line in kinds.get("refused", []):
        reason = line["reason"].replace("\n", "; ")
        text += ["", f"By {line['how']} it was refused: {reason}."]
    page = folder.with_suffix(".md")
    page.write_text("\n".join(text).rstrip() + "\n")
    return page


def _drawn(folder: Path, *names: str) -> Iterator[str]:
    for name in names:
        yield f"![{PLOTTED[name]}]({folder.name}/{name}.svg)"
        yield ""


def _verdict(line: Line) -> str:
    known = ("bench", "measurement", "row", "statement", "holds")
    numbers = [f"{value:,.4g}" for name, value in line.items() if name not in known]
    mark = "yes" if line["holds"] else "**no**"
    return f"| {line['row']} | {line['statement']} | {', '.join(numbers)} | {mark} |"


def _run(line: Line) -> str:
    evaluations = f"{line['evaluations'] / 1e6:.1f}" if line["evaluations"] else ""
    return (
        f"| {line['way']} | {line['duration_over_window']:.2f} | {sum(line['results']):,} | "
        f"{line['lost']:g} | {line['doubled']:g} | {max(line['elements']):,} | "
        f"{line['buffered']:,} | {evaluations} |"
    )


def _costs(lines: Sequence[Line]) -> Iterator[str]:
    base = next(line["median_s"] for line in lines if line["way"] == "genmig")
    for line in lines:
        times = line["median_s"] / base
        yield f"| {line['way']} | {line['median_s']:.2f} s | {times:.2f} |"


def _trials(line: Line) -> str:
    ways = ("parallel track", "genmig", "reference point", "clip")
    counts = " | ".join(f"{line['wrong'][way]:,}" for way in ways)
    return f"| {line['rewrite']} | {counts} |"


def _on_spark(size: Line) -> str:
    pace = "batches are as fast as they go"
    if size["trigger"]:
        every = "second" if size["trigger"] == 1 else f"{size['trigger']:g} seconds"
        pace = f"there is one every {every} of the clock"
    return _SPARK.format(**size, pace=pace)


def _migrated(line: Line) -> str:
    return (
        f"| {line['how']} | {line['usual_s']:.2f} | {line['longest_s']:.2f} | {line['both_s']:.2f} "
        f"| {line['switched_s']:.1f} | {line['took_s']:.1f} | {line['instants']:,} | "
        f"{line['rows']:,} | {line['lost']:,} | {line['doubled']:,} |"
    )


_HEAD: Final = """# The experiments on plan migration

Replacing the plan of a running query by another that means the same comes from J. Krämer,
*Continuous Queries over Data Streams: Semantics and Implementation* (2007), part IV.
`anabranch bench migration` repeats the experiments. This page is written by

```text
anabranch bench migration{call} --json --plots docs/benchmarks/migration
```

Four streams of random numbers, {elements:,} elements each at 100 per second, are joined over a
window of {window} seconds. After two windows the plan `((A ⋈ B) ⋈ C) ⋈ D` is replaced by
`A ⋈ (B ⋈ (C ⋈ D))`. Four ways to do so run in the same boxes, element by element, one thread, in
the order of time, with nested-loops joins:

- **Parallel Track** runs both boxes, takes results of old elements from the old one, and keeps
  all results of the new one until no old element is left. Its old box purges elements as in
  [ZRH04], by their newest part, from the start of the migration on;
- **GenMig** forks every element at a split time, the latest start plus the window, and fuses the
  results there;
- **reference point** is GenMig without fuse: the old box takes whole elements, and results of the
  new box that start at the split time are dropped;
- **clip** is ours: the new box's inputs and the old box's output are cut at the greatest end that
  the old box has seen, and both are published at once. Results across the cut come as two.

`product` is clip by the product's own kernels, in micro-batches.

## Verdicts

28.2 is the section of the thesis that shows Parallel Track wrong; `ours` is not of the thesis.

| experiment | statement | here | holds |
| --- | --- | --- | --- |"""

_RUNS: Final = """## Output rate and memory over time (30-A, 30-B)

Windows is the duration of the migration over the window. Lost and doubled: seconds for which
results are missing, or hold once too often, beside the new plan by itself. The largest memory
counts elements in all states and buffers; evaluations are of join predicates, in millions.

| way | windows | results | lost | doubled | elements, at most | buffered | evaluations |
| --- | --- | --- | --- | --- | --- | --- | --- |"""

_COSTS: Final = """## Total cost (30-C)

All elements as fast as possible, with an expensive predicate; seconds of a core, the median.

| way | total | over GenMig |
| --- | --- | --- |"""

_TRIALS: Final = """## Which rewrites every way gets right

How many of {trials:,} random streams get a wrong answer, by rewrite.

| rewrite | Parallel Track | GenMig | reference point | clip |
| --- | --- | --- | --- | --- |"""

_SPARK: Final = """## On Spark

`SELECT key, COUNT(*) ... GROUP BY key` over 1,000 keys, {rate:,} rows per second and a window of
{window:,} seconds that slides by {batch}, becomes `SELECT key, SUM(1) ...` by clip while it runs.
A file, and a batch, has {batch} seconds of the stream; {pace}. By replay, the window has
{long_window:,} seconds, {long_rate:,} rows per second, and a batch {long_batch} seconds. `lost` and
`doubled` count rows of all answers, at every instant at which a window ends, beside DuckDB over the
rows.

`longest_pause_over_batch` is the longest time between two batches in the log, from the request to
the first batch without the old plan, over the usual one before: both by the clock, in the same run,
of the way with the longer pause. `duration_over_window` is how far the stable point goes from the
request to the end of the old plan, over the window. `replay_vs_window` is the long window over the
seconds of the clock from the request by replay until the new plan is in force: by clip, a live
stream would take the window.

| figure | target | here | reached |
| --- | --- | --- | --- |"""

_MIGRATED: Final = """Seconds between two batches before the change, the longest during it, and
the usual while both plans ran; from the request to the switch, and to the end.

| how | before | longest | both | to the switch | to the end | instants | rows | lost | doubled |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""
