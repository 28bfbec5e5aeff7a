"""The page about revisions, written out of what the benchmark said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from anabranch.bench.figures.targets import target_rows
from anabranch.bench.revisions.published import PAPER, PAPER_OVERHEAD

Line: TypeAlias = Mapping[str, Any]

_STEADY: Final = 1.1
"""Where times of the same work differ by more, an overhead of a tenth cannot be seen."""

PLOTTED: Final[Mapping[str, str]] = {
    "processing": "A correction: time to process",
    "complete": "Normal rows and corrections",
    "way": "Where the time of a correction goes",
}


def write_page(lines: Sequence[Line], folder: Path) -> Path:
    """Write `<folder>.md`, with the drawings in the folder."""
    setup = next(line for line in lines if line.get("measurement") == "setup")
    figures = next(line["figures"] for line in reversed(lines) if "figures" in line)
    strategies = [line for line in lines if line.get("measurement") == "strategy"]
    text = [_HEAD.format(**{**setup, "call": _call(setup["form"])})]
    text += [_SMALLER] if setup["form"] != "full" else []
    text.append(_TARGETS)
    text += _targets(figures, _spread(lines))
    text += ["", _PUBLISHED, *_published(strategies, figures)]
    text += ["", _TABLE.format(**setup), *map(_row, strategies)]
    for name, title in PLOTTED.items():
        text += ["", f"![{title}]({folder.name}/{name}.svg)"]
    text += ["", _SCRATCH, *_scratch(lines, strategies)]
    text += ["", _KEPT, *_kept(lines)]
    page = folder.with_suffix(".md")
    page.write_text("\n".join(text) + "\n")
    return page


def _call(form: str) -> str:
    return "" if form == "full" else f" --{form}"


def _spread(lines: Sequence[Line]) -> float:
    """How much longer the same batches took at one time than at another."""
    medians = [
        _median_ms(line["batch_s"])
        for line in lines
        if line.get("measurement") == "overhead" and line["kept"] == "nothing"
    ]
    return max(medians) / min(medians)


def _targets(figures: Mapping[str, float], spread: float) -> Iterator[str]:
    doubt = f"unclear: the same batches without an archive differed by {spread:.1f} times"
    for row in target_rows("revisions", figures):
        *cells, mark = row.removesuffix(" |").split(" | ")
        is_unclear = "archive_overhead" in row and spread > _STEADY
        yield f"{' | '.join(cells)} | {doubt if is_unclear else mark} |"


def _published(strategies: Sequence[Line], figures: Mapping[str, float]) -> Iterator[str]:
    """A verdict per statement of the paper that can be compared."""
    found = {(line["query"], line["way"], line["rate"]): line for line in strategies}
    for query in ("Q1", "Q2", "Q3"):
        keys = [(query, way, "HIGH") for way in ("RA", "RM")]
        if not all(key in found for key in keys):
            continue
        for title, value, index in (("RTP", "rtp_s", 1), ("COM", "com_s", 2)):
            paper = PAPER[keys[0]][index] / PAPER[keys[1]][index]
            here = found[keys[0]][value] / max(found[keys[1]][value], 1e-4)
            mark = "yes" if here >= paper else "**no**"
            yield f"| {query} HIGH: {title} of RA over RM | {paper:.1f} | {here:.1f} | {mark} |"
        paper = PAPER[keys[1]][0] / PAPER[keys[0]][0]
        here = found[keys[1]]["stp_s"] / found[keys[0]]["stp_s"]
        mark = "yes" if here <= max(paper, 1.1) else "**no**"
        yield f"| {query} HIGH: STP of RM over RA | {paper:.2f} | {here:.2f} | {mark} |"
    here = figures["archive_overhead"]
    mark = "yes" if here < PAPER_OVERHEAD else "**no**"
    yield f"| normal rows with an archive, over without | above 6 | {here:.2f} | {mark} |"


def _row(line: Line) -> str:
    paper = PAPER.get((line["query"], line["way"], line["rate"]))
    minutes = "" if paper is None else " / ".join(f"{each:.2f}" for each in paper)
    each = _median_ms(line["processing_ms"])
    whole = "" if line["end_to_end_ms"] is None else f"{line['end_to_end_ms']:,}"
    cells = (
        line["query"],
        line["rate"],
        line["way"],
        f"{line['revisions']}",
        f"{line['stp_s']:.2f} / {line['rtp_s']:.2f} / {line['com_s']:.2f}",
        minutes,
        f"{each:,.0f}",
        whole,
        f"{line['replayed']:,}",
    )
    return f"| {' | '.join(cells)} |"


def _median_ms(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _scratch(lines: Sequence[Line], strategies: Sequence[Line]) -> Iterator[str]:
    for line in lines:
        if line.get("measurement") != "recompute":
            continue
        own = [
            each
            for each in strategies
            if each["query"] == line["query"] and (each["way"], each["rate"]) == ("RW", "HIGH")
        ]
        if own:
            replay, whole = _median_ms(own[0]["processing_ms"]), own[0]["end_to_end_ms"]
            ratio = "" if whole is None else f"{1000 * line['seconds'] / whole:.1f}"
            yield (
                f"| {line['query']} | {line['seconds']:.2f} s | {replay:.0f} ms | "
                f"{1000 * line['seconds'] / replay:.1f} | {ratio} |"
            )


def _kept(lines: Sequence[Line]) -> Iterator[str]:
    names = {"nothing": "no archive", "reference": "by reference", "copy": "copied"}
    for kept, name in names.items():
        own = [
            line for line in lines if line.get("measurement") == "overhead" and line["kept"] == kept
        ]
        batches = sorted(batch for line in own for batch in line["batch_s"])
        cpu = sum(line["cpu_s"] for line in own) / len(own)
        yield f"| {name} | {batches[len(batches) // 2]:.3f} s | {cpu:.1f} s |"
    indexes = [line for line in lines if line.get("measurement") == "index"]
    index = indexes[0]
    yield (
        f"\nThe index of an archive after {index['batches']:,} batches, one per minute with "
        f"{index['rows_per_batch']:,} rows: {index['files']} files with {index['bytes']:,} bytes. "
        "To plan a batch and to archive it takes, in milliseconds of a core:\n"
    )
    yield "| where | first hour: mean | median | after a year: mean | median | longest | growth |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for line in indexes:
        first, last = line["first_ms"], line["last_ms"]
        yield (
            f"| {line['where']} | {first['mean']:.2f} | {first['median']:.2f} | "
            f"{last['mean']:.2f} | {last['median']:.2f} | {last['longest']:.1f} | "
            f"{last['mean'] / first['mean']:.2f} |"
        )


_HEAD: Final = """# The experiment on revisions

Correcting settled answers by replaying archived input comes from A. S. Maskey and M. Cherniack,
*Replay-Based Approaches to Revision Processing in Stream Query Engines* (SSPS 2008).
`anabranch bench revisions` repeats their experiment on Spark. This page is written by

```text
anabranch bench revisions{call} --json --plots docs/benchmarks/revisions
```

200 symbols have a quote per second each. {archived:,} quotes are archived; then, for every rate of
revisions, {streamed:,} more come in chunks of {chunk:,}, and late quotes for archived times between
them. In full these are 17,250,000 and 1,000,000, in chunks of 100,000; LOW, MOD and HIGH are one
late quote per 1,000,000, 500,000 and 100,000 normal ones. The queries:

- Q1: the average per symbol, every 5 minutes over 5 minutes;
- Q2: the same, every minute;
- Q3: BUY when the average of IBM over a minute exceeds that over 5 minutes, else SELL.

STP is the time from the file of a chunk to its results in the log, added up; RTP that of
processing the late quotes; COM the sum. RA replays everything, RM what the lineage of the answers
names, RW what the windows of the plan reach. `direct` is the same query over a source that never
promises anything: nothing is settled, late quotes are like any other, and all state stays for
ever. This is the {form} form. Everything is warm: the first corrections of every query do not
count."""

_SMALLER: Final = """
The targets are those of the full form. What grows with the archive (`rm_vs_ra`, `rw_vs_ra`,
`vs_recompute`) is less in a smaller one."""

_TARGETS: Final = """
## Figures

| figure | target | here | reached |
| --- | --- | --- | --- |"""

_PUBLISHED: Final = """## Beside the paper

| statement | published | here | as good |
| --- | --- | --- | --- |"""

_TABLE: Final = """## Every query, rate and strategy

Seconds here, minutes in the paper. Processing is the median per late quote, of the replay alone
(of `direct`: of the operators). End to end is the median from the file with the late quote to the
revision in the log: this includes two batches of Spark, one that reads the late quote and one that
brings the revision. Where a cell is empty, the late quotes did not change the answers.

| query | rate | way | late | STP / RTP / COM | paper | processing, ms | end to end, ms | replayed |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""

_SCRATCH: Final = """## From scratch

All answers of a query by plain Spark, over the archived quotes, from Parquet to Parquet, beside
one correction by RW.

| query | Spark | replay | times | times, end to end |
| --- | --- | --- | --- | --- |"""

_KEPT: Final = """## What normal rows pay

Q1 over files of quotes without late ones, in batches of a file each: the median of a batch, and
the time of all cores per run.

| archive | batch | cores |
| --- | --- | --- |"""
