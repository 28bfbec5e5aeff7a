"""The page about peers, written out of what the benchmark said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from anabranch.bench.figures.targets import target_rows
from anabranch.bench.peers.contestants import CONTESTANTS, OWN
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

{rows:,} rows per job; the form is `{form}`. Every engine runs a job several times, warm, in a
process of its own; medians. The engines of a job are measured one after the other, before those of
the next job. A run is everything from the call that starts the query to its end, so it contains
what it costs to start one; reading the answer back is not in it. p99 is the time until 99 % of the
answer can be read. The last ratios are above 1 where Anabranch is faster, and where it needs less
CPU.
"""

_FIGURES: Final = """\
## Figures

| figure | target | here | reached |
| --- | --- | --- | --- |"""

_TABLE: Final = """\
| engine | rows/s | CPU s per million | peak MB | p99 s | faster by | less CPU by | answer |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def write_page(lines: Sequence[Line], folder: Path) -> Path:
    """Write `<folder>.md`."""
    setup = next(line for line in lines if line.get("measurement") == "setup")
    figures = next(line["figures"] for line in reversed(lines) if "figures" in line)
    text = [_HEAD.format(**setup), _FIGURES, *target_rows("peers", figures)]
    compared, wanted = int(figures.get("pairs", 0)), setup["pairs"]
    text.append(f"\nPairs of a job and a peer that were compared: {compared} of {wanted}.")
    for job in TABLES:
        text += ["", f"## {job}", "", _TABLE, *_rows(job, lines, figures)]
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
    for name in (each.name for each in CONTESTANTS):
        if name not in answers:
            continue
        line = answers[name]
        if "rows_per_s" not in line:
            yield f"| {name} | | | | | | | {line['answer']} |"
            continue
        cells = [
            name,
            f"{line['rows_per_s']:,}",
            f"{line['cpu_s_per_million']:.3g}",
            f"{line['peak_mb']:,}",
            f"{line['p99_s']:.3g}",
            *(_ratio(figures, job, name, what) for what in ("vs", "cpu_vs")),
            line["answer"],
        ]
        yield f"| {' | '.join(cells)} |"


def _ratio(figures: Mapping[str, float], job: str, name: str, what: str) -> str:
    return "" if name == OWN else f"{figures[f'{job}_{what}_{name}']:.2f}"
