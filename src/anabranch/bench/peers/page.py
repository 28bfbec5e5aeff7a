"""The page about peers, written out of what the benchmark said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from anabranch.bench.figures.targets import target_rows
from anabranch.bench.peers.contestants import CONTESTANTS, CONTROL, OWN, csv_readers
from anabranch.bench.peers.jobs import TABLES

Line: TypeAlias = Mapping[str, Any]

_HEAD: Final = """\
# Peers

Three jobs in Anabranch, Spark Structured Streaming, Flink SQL, Pathway and Bytewax: the same rows,
one machine, one run; [what the jobs are](../howto/benchmarks.md#peers). The code of every engine is
in `tests/bench/peer_jobs`. This page is written by

```text
anabranch bench peers --json --plots docs/benchmarks/peers
```

{rows:,} rows per job; the form is `{form}`. Every engine runs a job in a process of its own until
two runs in a row are no faster than the best before (by 3 %), at most six times, and then three
times; medians. One whose first run takes more than a minute runs twice, and the second counts. The
engines of a job are measured one after the other, before those of the next job. A run is everything
from the call that starts the query to its end, so it contains what it costs to start one; reading
the answer back is not in it. p99 is the time until 99 % of the answer can be read, `CPU s/M` the
CPU seconds for a million rows, `MB` the most memory of all processes of an engine. The ratios are
above 1 where Anabranch is faster, and where it needs less CPU.

The rows are the same, the files are not: {formats}. The row `anabranch, CSV` is a control:
Anabranch over the CSV files that {readers} read, two files with every second row each, as one
batch of a source that ends; the column `CSV` says how many times as fast that is as they are. It is
no part of the figures with a target.
"""

_NOTES: Final[Mapping[str, str]] = {
    "top": """\
Anabranch reads a changelog of elements, in which a correction is an adjust of what was inserted.
The others read rows with a column `op`, and add up or compare in the window; so does
`anabranch, CSV`."""
}
"""What is to be known of a job."""

_FIGURES: Final = """\
## Figures

| figure | target | here | reached |
| --- | --- | --- | --- |"""

_TABLE: Final = """\
| engine | reads | rows/s | CPU s/M | MB | p99 s | faster by | less CPU by | CSV | answer |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def write_page(lines: Sequence[Line], folder: Path) -> Path:
    """Write `<folder>.md`."""
    setup = next(line for line in lines if line.get("measurement") == "setup")
    figures = next(line["figures"] for line in reversed(lines) if "figures" in line)
    head = _HEAD.format(**setup, formats=_formats(), readers=_listed(csv_readers(None)))
    text = [head, _FIGURES, *target_rows("peers", figures)]
    compared, wanted = int(figures.get("pairs", 0)), setup["pairs"]
    text.append(f"\nPairs of a job and a peer that were compared: {compared} of {wanted}.")
    for job in TABLES:
        note = ["", _NOTES[job]] if job in _NOTES else []
        text += ["", f"## {job}", *note, "", _TABLE, *_rows(job, lines, figures)]
    missing = [line for line in lines if line.get("measurement") == "missing"]
    text += [f"\nNot measured: {line['engine']}: {line['why']}." for line in missing]
    page = folder.with_suffix(".md")
    page.write_text("\n".join(text) + "\n", encoding="utf-8")
    return page


def _rows(job: str, lines: Sequence[Line], figures: Mapping[str, float]) -> Iterator[str]:
    answers = {
        line["engine"]: line
        for line in lines
        if line.get("measurement") == job and "answer" in line
    }
    for each in (CONTESTANTS[0], CONTROL, *CONTESTANTS[1:]):
        if each.name not in answers:
            continue
        line = answers[each.name]
        name = f"{OWN}, CSV" if each is CONTROL else each.name
        if "rows_per_s" not in line:
            yield f"| {name} | {each.reads} | | | | | | | | {line['answer']} |"
            continue
        cells = [
            name,
            each.reads,
            f"{line['rows_per_s']:,}",
            f"{line['cpu_s_per_million']:.3g}",
            f"{line['peak_mb']:,}",
            f"{line['p99_s']:.3g}",
            *(_ratio(figures, f"{job}_{what}_{each.name}") for what in ("vs", "cpu_vs", "csv_vs")),
            line["answer"],
        ]
        yield f"| {' | '.join(cells)} |"


def _ratio(figures: Mapping[str, float], name: str) -> str:
    return f"{figures[name]:.2f}" if name in figures else ""


def _formats() -> str:
    """Who reads what."""
    formats = dict.fromkeys(each.reads for each in CONTESTANTS)
    return "; ".join(
        f"{_listed([each.name for each in CONTESTANTS if each.reads == name])} read {name}"
        for name in formats
    )


def _listed(names: Sequence[str]) -> str:
    words = [name.capitalize() for name in names]
    return f"{', '.join(words[:-1])} and {words[-1]}"
