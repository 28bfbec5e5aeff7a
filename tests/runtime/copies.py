"""An operator that shows what reaches it, and streams in files that are copies of each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.source import Source
from anabranch.kernels.contract.column_names import COPY, ID
from anabranch.kernels.contract.kernel import Arrived, Progress, Stateful, Trace, with_copy
from anabranch.kernels.contract.routing import BY_ID, Routing
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.stage import Edge, PhysicalPlan, Stage
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Element, Insert, Stable, batch_of
from anabranch.model.time import Time
from anabranch.runtime.sources.files.log_folder import LogFolder, write_part
from anabranch.runtime.sources.spec import ELEMENTS, FileSource, Limits, Promise

SCHEMA = pa.schema([("a", pa.int64())])
STORED = pa.schema(
    [("a", pa.int64()), ("kind", pa.string())]
    + [(n, pa.int64()) for n in ("start", "end", "new_end")]
)
_TIMES = ("__start", "__end", "__new_end")


@final
@dataclass(frozen=True, slots=True)
class Shown(Stateful):
    """Puts out the rows of all copies as they are; keeps in `seen` what it is told."""

    seen: list[Progress]

    @property
    def label(self) -> str:
        return "Shown"

    @property
    def schema(self) -> pa.Schema:
        return with_copy(SCHEMA)

    @property
    def takes_copies(self) -> bool:
        return True

    def routing(self, name: str) -> Routing:
        del name
        return BY_ID

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        del side
        times = [(name, pa.int64()) for name in _TIMES]
        return pa.schema([(ID, pa.uint64()), *times, *self.schema])

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        del side
        columns = {ID: pa.array(np.zeros(len(batch), np.uint64))}
        times = (batch.start, batch.end, batch.new_end)
        columns |= {name: pa.array(values) for name, values in zip(_TIMES, times, strict=True)}
        columns |= dict(zip(batch.schema.names, batch.payload.columns, strict=True))
        return pa.RecordBatch.from_pydict(columns)

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        (rows,) = arrived
        start, end, new_end = (rows.column(name).to_numpy() for name in _TIMES)
        return trace, EventBatch(rows.select(["a", COPY]), start, end, new_end, stable)

    def advance(
        self, trace: Trace, arrived: Arrived, progress: Progress
    ) -> tuple[Trace, EventBatch]:
        self.seen.append(progress)
        return self.step(trace, arrived, progress.least)

    def report(self, trace: Trace) -> dict[str, Any]:
        del trace
        return {"inputs": len(self.seen[-1].copies)} if self.seen else {}


def shown_plan(seen: list[Progress]) -> PhysicalPlan:
    """One stage that shows the copies of source `s`."""
    kernel = Shown(seen)
    stage = Stage("0-shown", (Edge(Address.source("s"), ()),), (kernel,), True, kernel.schema)
    return PhysicalPlan((stage,), (0,), {"s": Source(name="s", schema=SCHEMA, copies=True)})


def copies_source(path: Path | str, rows: int | None = None, **promise: Any) -> FileSource:
    return FileSource(
        promise=Promise(source="s", **promise),
        path=str(path),
        form="copies",
        schema=SCHEMA,
        stored=STORED,
        shape=ELEMENTS,
        limits=Limits(rows),
    )


def line(element: Element) -> str:
    match element:
        case Insert(payload=payload, start=start, end=end):
            return json.dumps({"insert": dict(payload), "start": start, "end": end}) + "\n"
        case Stable(time=time):
            return json.dumps({"stable": int(time)}) + "\n"
    raise AssertionError(element)


def append_lines(file: Path, elements: Iterable[Element]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.write("".join(map(line, elements)))


def append_log(
    folder: Path,
    elements: list[Element],
    *,
    query: str = "q",
    about: Mapping[str, Any] | None = None,
) -> None:
    """One more batch of a log folder, which is made if there is none."""
    log = LogFolder(str(folder))
    if not log.exists():
        log.create(SCHEMA, query=query, clock=INTEGERS)
        file = folder / "_log" / "stream.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **(about or {})}))
    batch = len(log.entries())
    rows = batch_of(elements, SCHEMA)
    files = [write_part(str(folder), batch, 0, rows, clock=INTEGERS)] if len(rows) else []
    log.commit(batch, max(rows.stable, log.stable()), files)


def point(value: int, start: int = 0) -> Insert:
    return Insert({"a": value}, start or value, (start or value) + 1)
