"""Sources in files whose rows come too late, and a model of which of them do."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from hypothesis import strategies as st

from anabranch.algebra.source import Source
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Insert, Stable
from anabranch.model.time import BEGINNING, Duration
from anabranch.runtime.sources.spec import (
    ELEMENTS,
    FileForm,
    FileSource,
    LatePolicy,
    Limits,
    Promise,
    Shape,
)

PAYLOAD = pa.schema([("a", pa.int64())])
ROWS = pa.schema([("a", pa.int64()), ("t", pa.int64()), ("u", pa.int64())])
TABLE = pa.schema(
    [("kind", pa.string()), *((n, pa.int64()) for n in ("start", "end", "new_end", "a"))]
)

Effect = dict[tuple[int, int], int]
"""By how much the multiplicity of a payload changes at an instant."""


@dataclass(frozen=True)
class Outcome:
    """What a source gave, however it was read."""

    effect: Effect
    late: int
    adjusted: int
    stable: int


def expected(elements: Iterable[Element], delay: int | None, late: LatePolicy) -> Outcome:
    """The rule, row by row."""
    stable, left, adjusted, moves = int(BEGINNING), 0, 0, list[tuple[int, int, int]]()
    for each in elements:
        if isinstance(each, Stable):
            stable = max(stable, each.time)
            continue
        ends = (each.end, each.new_end) if isinstance(each, Adjust) else (each.start, each.end)
        if min(ends) < stable and late == "adjust" and max(ends) > stable:
            adjusted += 1
        elif min(ends) < stable:
            left += 1
        if min(ends) >= stable or late == "adjust":
            moves.append((value_of(each), max(ends[0], stable), max(ends[1], stable)))
        if delay is not None:
            stable = max(stable, each.start - delay)
    return Outcome(effect_of(moves), left, adjusted, stable)


def value_of(each: Insert | Adjust) -> int:
    assert isinstance(each.payload, Mapping)
    value: int = each.payload["a"]
    return value


def effect_of(moves: Iterable[tuple[int, int, int]]) -> Effect:
    """What moves of ends do together; for drawn streams, which need not be legal."""
    total: Counter[tuple[int, int]] = Counter()
    for value, end, new_end in moves:
        total[value, end] += 1
        total[value, new_end] -= 1
    return {key: count for key, count in total.items() if count}


def moves_of(batch: EventBatch) -> Iterable[tuple[int, int, int]]:
    values = batch.payload.column("a").to_pylist()
    return zip(values, batch.end.tolist(), batch.new_end.tolist(), strict=True)


times = st.integers(-3, 20)
inserts = st.builds(
    lambda a, s, n: Insert({"a": a}, s, s + n), st.integers(0, 2), times, st.integers(1, 9)
)
adjusts = st.builds(
    lambda a, s, n, m: Adjust({"a": a}, s, s + n, s + m),
    st.integers(0, 2),
    times,
    st.integers(1, 9),
    st.integers(0, 9),
)
stables = st.builds(Stable, times)

FORMS = ("lines", "lines.gz", "elements", "json", "csv", "parquet", "parquet without statistics")


@st.composite
def files(draw: st.DrawFn, form: str) -> list[list[Element]]:
    """Files of drawn elements; only some forms have all kinds of them."""
    whole = form.startswith("lines") or form == "elements"
    element = st.one_of(inserts, inserts, adjusts, stables) if whole else inserts
    return draw(st.lists(st.lists(element, max_size=6), min_size=1, max_size=4))


def write_source(
    folder: Path,
    form: str,
    content: Sequence[Sequence[Element]],
    promise: Promise,
    limits: Limits,
    group: int = 1,
) -> FileSource:
    """Files in a form, as a source; Parquet has row groups of so many rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, elements in enumerate(content):
        write_file(folder / str(number), form, elements, group)
    kind: FileForm = "lines" if form == "lines.gz" else "parquet"
    kind = form if form in ("lines", "json", "csv") else kind  # type: ignore[assignment]
    shape = Shape(start="t", end="u")
    stored = ROWS
    if form == "elements" or kind == "lines":
        shape, stored = ELEMENTS, TABLE
    return FileSource(
        promise=promise,
        path=str(folder),
        form=kind,
        schema=PAYLOAD,
        stored=stored,
        shape=None if kind == "lines" else shape,
        limits=limits,
    )


def write_file(path: Path, form: str, elements: Sequence[Element], group: int) -> None:
    if form.startswith("lines"):
        text = "".join(json.dumps(_line(each)) + "\n" for each in elements).encode()
        if form == "lines":
            path.with_suffix(".jsonl").write_bytes(text)
        else:
            path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(text))
        return
    if form == "elements":
        table = pa.Table.from_pylist([_row(each) for each in elements], TABLE)
        pq.write_table(table, path.with_suffix(".parquet"), row_group_size=group)
        return
    rows = [
        {"a": value_of(each), "t": each.start, "u": each.end}
        for each in elements
        if isinstance(each, Insert)
    ]
    table = pa.Table.from_pylist(rows, ROWS)
    if form == "json":
        path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "csv":
        pcsv.write_csv(table, path.with_suffix(".csv"))
    else:
        pq.write_table(
            table,
            path.with_suffix(".parquet"),
            row_group_size=group,
            write_statistics=form == "parquet",
        )


def _line(each: Element) -> dict[str, Any]:
    if isinstance(each, Stable):
        return {"stable": each.time}
    if isinstance(each, Insert):
        return {"insert": each.payload, "start": each.start, "end": each.end}
    known = {"start": each.start, "end": each.end, "new_end": each.new_end}
    return {"adjust": each.payload, **known}


def _row(each: Element) -> dict[str, Any]:
    if isinstance(each, Stable):
        return {"kind": "stable", "start": each.time}
    known = {key: value for key, value in _line(each).items() if key in TABLE.names}
    kind = "insert" if isinstance(each, Insert) else "adjust"
    return {"kind": kind, "a": value_of(each), **known}


def promise_of(delay: int | None, late: LatePolicy) -> Promise:
    return Promise(source="s", delay=None if delay is None else Duration(delay), late=late)


def leaf(source: FileSource) -> Source:
    has_kinds = source.shape is None or source.shape.kind is not None
    return Source(name="s", schema=PAYLOAD, insert_only=not has_kinds)
