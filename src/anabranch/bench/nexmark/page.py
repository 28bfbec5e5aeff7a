"""The page about Nexmark, written out of what the benchmark said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeAlias

from anabranch.bench.figures.targets import target_rows
from anabranch.bench.nexmark.scripts import QUERIES, examples
from anabranch.bench.nexmark.warm_up import SLOW_SECONDS, SLOW_WARM_UPS
from anabranch.bench.nexmark.where import time_row, time_sentence

Line: TypeAlias = Mapping[str, Any]

PLOTTED: Final = "Times as fast as the other engine"

_HEAD: Final = """\
# Nexmark

The queries of the public [Nexmark](https://github.com/nexmark/nexmark) benchmark beside Spark
Structured Streaming and Flink SQL, in one run on one machine; [what is compared, and
how](../howto/benchmarks.md#nexmark). The queries are in `examples/nexmark`. This page is
written by

```text
anabranch bench nexmark --json --plots docs/benchmarks/nexmark
```

{events:,} events; the form is `{form}`. Every engine runs a query until two runs in a row are no
faster than the best before them, {warm_ups} times at the most, and {slow_warm_ups} times where a
run takes more than {slow_seconds:.0f} seconds; then it runs {repeats} times, and the median counts.
Compare ratios, not absolute values.
"""

_FIGURES: Final = """\
## Figures

| figure | target | here | reached |
| --- | --- | --- | --- |"""

_SPEEDS: Final = """\
## Events per second

In thousands; a ratio above 1 means that Anabranch is faster. Where an engine that took part has no
value, it cannot run the query over a stream, and the reason is below.

| query | Anabranch | Spark | Flink | over Spark | over Flink |
| --- | --- | --- | --- | --- | --- |"""

_TIMES: Final = """\
## Where the time of a batch goes

Milliseconds of an average batch of the last run: what Spark spends on planning and its logs, the
batch itself (reading, computing, committing), and of that each stage in its slowest shard: to
gather its rows, to compute, and to store its state. The rest of a batch is reading and decoding
files, expressions on rows, and the exchange. The driver computes batches that are cheaper without a
job of Spark; the others are jobs. Below, every query has a sentence about it.

| query | computed in | Spark | batch | of that, stages: gather/compute/store |
| --- | --- | --- | --- | --- |"""


def write_page(lines: Sequence[Line], folder: Path) -> Path:
    """Write `<folder>.md`, with the drawing in the folder."""
    setup = next(line for line in lines if line.get("measurement") == "setup")
    figures = next(line["figures"] for line in reversed(lines) if "figures" in line)
    ways = {line["query"]: line for line in lines if line.get("measurement") == "way"}
    queries = [query for query in QUERIES if query in ways]
    absent = [peer.title() for peer in ("spark", "flink") if peer not in setup["peers"]]
    slow = {"slow_seconds": SLOW_SECONDS, "slow_warm_ups": SLOW_WARM_UPS}
    text = [
        _HEAD.format(**setup, **slow),
        *(f"{peer} was not part of this run.\n" for peer in absent),
    ]
    text += [_FIGURES, *target_rows("nexmark", figures), ""]
    text += [_SPEEDS, *(_speeds(query, lines, figures) for query in queries), ""]
    text += [f"![{PLOTTED}]({folder.name}/ratios.svg)", ""]
    text += [_TIMES, *(time_row(query, ways[query]) for query in queries), ""]
    text.append("## The plans")
    for query in queries:
        text += ["", f"### {query}", "", *_about(query, lines), ""]
        text += [time_sentence(ways[query]), "", "```text"]
        text += [*ways[query]["plan"], "```"]
    page = folder.with_suffix(".md")
    page.write_text("\n".join(text) + "\n", encoding="utf-8")
    return page


def _speeds(query: str, lines: Sequence[Line], figures: Mapping[str, float]) -> str:
    def shown(engine: str) -> str:
        rates = sorted(
            line["events_per_s"]
            for line in lines
            if (line.get("measurement"), line.get("engine")) == (query, engine) and "repeat" in line
        )
        return f"{rates[len(rates) // 2] / 1_000:,.0f}" if rates else ""

    ratios = [figures.get(f"{query}_vs_{peer}") for peer in ("spark", "flink")]
    shown_ratios = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
    cells = [query, *map(shown, ("anabranch", "spark", "flink")), *shown_ratios]
    return f"| {' | '.join(cells)} |"


def _about(query: str, lines: Sequence[Line]) -> Iterator[str]:
    """The comment at the head of the query, and who cannot run it."""
    text = (examples() / f"{query}.sql").read_text(encoding="utf-8").splitlines()
    for comment in takewhile(lambda each: each.startswith("--"), text):
        yield comment.removeprefix("--").strip()
    for line in lines:
        if line.get("measurement") == "form" and line["query"] == query:
            yield f"\nThe fastest of Spark's forms counts: {line['chosen']}."
        if line.get("measurement") == query and "cannot" in line:
            yield f"\n{str(line['engine']).title()} cannot run it: {line['cannot']}."
        if line.get("measurement") == query and "problem" in line:
            yield f"\n{str(line['engine']).title()} has failed: {line['problem']}"
