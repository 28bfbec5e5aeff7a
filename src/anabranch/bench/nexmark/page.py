"""The page about Nexmark, written out of what the benchmark said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeAlias

from anabranch.bench.figures.targets import target_rows
from anabranch.bench.nexmark.scripts import QUERIES, examples

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

{events:,} events; the form is `{form}`. Compare ratios, not absolute values.
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
batch itself (reading, computing, committing), and of that the steps of each stage in its slowest
shard. The rest of a batch is reading and decoding files, expressions on rows, and the exchange. The
driver computes batches that are cheaper without a job of Spark; the others are jobs.

| query | computed in | Spark | batch | of that, steps of stages |
| --- | --- | --- | --- | --- |"""


def write_page(lines: Sequence[Line], folder: Path) -> Path:
    """Write `<folder>.md`, with the drawing in the folder."""
    setup = next(line for line in lines if line.get("measurement") == "setup")
    figures = next(line["figures"] for line in reversed(lines) if "figures" in line)
    ways = {line["query"]: line for line in lines if line.get("measurement") == "way"}
    queries = [query for query in QUERIES if query in ways]
    absent = [peer.title() for peer in ("spark", "flink") if peer not in setup["peers"]]
    text = [_HEAD.format(**setup), *(f"{peer} was not part of this run.\n" for peer in absent)]
    text += [_FIGURES, *target_rows("nexmark", figures), ""]
    text += [_SPEEDS, *(_speeds(query, lines, figures) for query in queries), ""]
    text += [f"![{PLOTTED}]({folder.name}/ratios.svg)", ""]
    text += [_TIMES, *(_times(query, ways[query]) for query in queries), ""]
    text.append("## The plans")
    for query in queries:
        text += ["", f"### {query}", "", *_about(query, lines), "", "```text"]
        text += [*ways[query]["plan"], "```"]
    page = folder.with_suffix(".md")
    page.write_text("\n".join(text) + "\n", encoding="utf-8")
    return page


def _speeds(query: str, lines: Sequence[Line], figures: Mapping[str, float]) -> str:
    def shown(engine: str) -> str:
        rates = sorted(
            line["events_per_s"]
            for line in lines
            if (line.get("measurement"), line.get("engine")) == (query, engine)
            and line.get("counts")
        )
        return f"{rates[len(rates) // 2] / 1_000:,.0f}" if rates else ""

    ratios = [figures.get(f"{query}_vs_{peer}") for peer in ("spark", "flink")]
    shown_ratios = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
    cells = [query, *map(shown, ("anabranch", "spark", "flink")), *shown_ratios]
    return f"| {' | '.join(cells)} |"


def _times(query: str, way: Line) -> str:
    places = [f"{way[place]} in {place}" for place in ("driver", "tasks") if way[place]]
    spent = dict(way["batch_ms"])
    spark, batch = spent.pop("spark"), spent.pop("batch")
    steps = ", ".join(f"{name} {each:,.0f}" for name, each in spent.items() if each >= 1)
    cells = (query, ", ".join(places), f"{spark:,.0f}", f"{batch:,.0f}", steps or "below 1")
    return f"| {' | '.join(cells)} |"


def _about(query: str, lines: Sequence[Line]) -> Iterator[str]:
    """The comment at the head of the query, and who cannot run it."""
    text = (examples() / f"{query}.sql").read_text(encoding="utf-8").splitlines()
    for comment in takewhile(lambda each: each.startswith("--"), text):
        yield comment.removeprefix("--").strip()
    for line in lines:
        if line.get("measurement") == query and "cannot" in line:
            yield f"\n{str(line['engine']).title()} cannot run it: {line['cannot']}."
