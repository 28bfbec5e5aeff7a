"""The page about the experiments on merging, written out of what the benchmark said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROWS: Final[Mapping[str, tuple[str, str]]] = {
    "memory": (
        "Memory over inputs",
        "An ordered stream of inserts, so that every case can merge it. Memory is what the trace "
        "holds, in Arrow buffers, each counted once. `R3-` is the naive form: an index for every "
        "input and one for the output, each with all payloads. It is only for this comparison.",
    ),
    "throughput": (
        "Throughput over inputs",
        "The same runs. Elements of all inputs per second of CPU time, hashing included. "
        "Rates within a tenth of each other count as equal. Shown are medians over the inputs.",
    ),
    "output": (
        "Output over disorder",
        "Three copies, each with its own provisional ends: the more disorder, the more of them "
        "(36% adjusts at 50%, as published). Of several adjusts of an event in a batch only the "
        "last is written, merge or "
        "not; so the verdict compares with one copy in the same batches, of "
        "10 elements, and not with the adjusts it sends. The published adjusts come from an "
        "aggregate, which revises one event often. Here an event that is revised is revised four "
        "times, to random ends. Where an event is revised once, or all its revisions fall "
        "into one batch, there is nothing for a merge to leave out.",
    ),
    "lag": (
        "Throughput over lag",
        "Two of three inputs are late. The published merge drops settled events and late "
        "elements. This one keeps "
        "settled events until the slowest input has passed, so that a copy that "
        "contradicts them is noticed. An increase of less than a tenth does not count as "
        "a rise.",
    ),
    "stables": (
        "Memory and throughput over stable points",
        "An ordered stream, in batches of 2,000 elements. Of all stable points in a batch only the "
        "largest counts, so that there is at most one sweep per batch, however many there are; "
        "and the fewer there are, the more state is kept and scanned.",
    ),
    "cleanse": (
        "Order first, or merge as it comes",
        "Half of the elements are out of order, 36% are adjusts, one in a thousand is a stable "
        "point. `C+R1` holds back every input until its events are settled, emits them in order, "
        "and "
        "merges them by R1. Latency is from the start of an event to its insert, in seconds of "
        "the stream, in batches of twenty elements, of which each covers about 130 s.",
    ),
    "bursty": (
        "Bursts",
        "Four copies of 5,000 elements per second in simulated time. With a probability of 0.3 to "
        "0.5% a copy stops for about 20 ms, then sends the accumulated elements. The merge reads "
        "every 50 ms.",
    ),
    "congestion": (
        "Congestion",
        "Three copies, congested at different times, and once two of them together.",
    ),
    "feedback": (
        "Plans that take turns",
        "Two plans of one query, each slow where the other is fast, with 9 switches. The cost of "
        "an element is simulated as published; the merge is real. With "
        "feedback, a plan skips events that end before the stable point of the merge.",
    ),
}
"""For every row: the heading and what was measured."""


def write_page(lines: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """Write `<folder>.md`, with the drawings in the folder."""
    verdicts = {line["row"]: line for line in lines if line.get("measurement") == "verdict"}
    figures = next(line["figures"] for line in reversed(lines) if "figures" in line)
    holds = sum(verdict["holds"] for verdict in verdicts.values())
    text = [_HEAD.format(holds=holds, many=len(verdicts))]
    for row, verdict in verdicts.items():
        mark = "yes" if verdict["holds"] else "**no**"
        anchor = ROWS[row][0].lower().replace(",", "").replace(" ", "-")
        cells = (f"[{ROWS[row][0]}](#{anchor})", verdict["expected"], mark, verdict["here"])
        text.append(f"| {' | '.join(cells)} |")
    text.append(_KERNEL)
    for case in ("r0", "r1", "r2", "r3", "r4"):
        rates = (figures[f"{case}_short_per_s"], figures[f"{case}_per_s"])
        shown = " | ".join(f"{rate / 1e6:.2f}M" for rate in rates)
        text.append(f"| {case.upper()} | {shown} | {_TARGETS[case]} |")
    text.append(_AFTER_KERNEL)
    if "spark_per_s_core" in figures:
        text.append(_SPARK.format(rate=figures["spark_per_s_core"]))
    for row, (heading, about) in ROWS.items():
        text.append(f"\n## {heading}\n\n![{heading}]({folder.name}/{row}.svg)\n\n{about}")
        if row in verdicts:
            text.append(f"\nHere: {verdicts[row]['here']}.")
    page = folder.with_suffix(".md")
    page.write_text("\n".join(text) + "\n")
    return page


_TARGETS: Final = {"r0": "5M", "r1": "5M", "r2": "5M", "r3": "1M", "r4": "0.5M"}

_HEAD: Final = """# The experiments on logical merge

Merging copies of one stream comes from B. Chandramouli, D. Maier and J. Goldstein, *Physically
Independent Stream Merging* (ICDE 2012). `anabranch bench merge` repeats the experiments of its
section VI. This page is written by

```text
anabranch bench merge --json --plots docs/benchmarks/merge
```

The data are those of [`anabranch generate lmerge`](../cli.md#generate-lmerge): events with a
number and a text of 1000 bytes, 10,000 of them live. Times are CPU seconds of one process on a
machine that did other work too. What counts as holding is decided by our own thresholds (in
`bench/merge/sweeps.py` and its neighbours); the costs of the plans that take turns are simulated.

## What holds

{holds} of {many} rows have the published shape.

| row | published | holds | here |
| --- | --- | --- | --- |"""

_KERNEL: Final = """
## Each case by itself

Elements per second and core in the kernel, three inputs, batches of 100,000 elements each, 10,000
live events. Both parts of the kernel count: hashing payloads and packing them for the exchange,
and merging. R3 and R4 have a fifth of their elements out of order, and a fifth of them are
adjusts.

| case | text of 16 bytes | of 1000 bytes | target |
| --- | --- | --- | --- |"""

_AFTER_KERNEL: Final = """
R0 and R1 do not read payloads. R2, R3 and R4 read every byte once, to hash it; a payload is
copied when an event is written, and once more if it has to be kept. With long texts that is bound
by the memory bandwidth of the machine, which other processes use, too: R2 had from 4.5M to 5.3M in
different runs."""

_SPARK: Final = """
On Spark with one core, from Parquet files of three copies to the log of results (text of 16
bytes): {rate:,.0f} elements per second; the target is 300,000. This one is by the clock, so that
other work on the machine counts."""
