"""A case on Spark: its files, its query, its log, checked and compared."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch import Engine
from anabranch.model.batch import EventBatch
from anabranch.model.time import FOREVER
from anabranch.runtime.sources.files.log_folder import LogFolder
from tests.size.cases import Case, Spread
from tests.size.data import DELAY, Shape, write
from tests.size.oracle import check_legal, compare

INSTANTS = 4


def run_case(spark: Any, root: Path, case: Case) -> int:
    """Run a query and compare it; gives how many rows held at the instants that were looked at."""
    output, events = run(spark, root, case)
    check_legal(output)
    chance = np.random.default_rng(case.s.seed)
    instants = sorted(chance.integers(0, case.s.span + 5, INSTANTS).tolist())
    return compare(output, events, case.oracle, instants, case.close)


def run(
    spark: Any, root: Path, case: Case, order: int = 0
) -> tuple[list[EventBatch], dict[str, pa.Table]]:
    """Run a query to its end; gives its log, batch by batch, and what its sources amount to.

    Rows of a file come in an order of their own for each number `order`.
    """
    engine = Engine(spark, shards=case.shards)
    engine.register(Spread)
    events, streams = {}, []
    for name, shape in (("s", case.s), ("t", case.t)):
        for copy in range(case.copies if name == "s" else 1):
            if shape is not None:
                folder = root / f"{name}{copy}"
                events[name] = write(folder, shape, copy + order)
                streams.append(_stream(engine, folder, shape, case))
    query = case.query(*streams)
    log = root / "log"
    query.start(to=log, checkpoint=root / "checkpoint", available_now=True).await_end()
    output = list(LogFolder(str(log)).read())
    assert output[-1].stable == FOREVER
    shutil.rmtree(root)
    return output, events


def smaller(case: Case, rows: int) -> Case:
    """The same over fewer rows, for continuous integration."""
    shapes = [_smaller(each, rows) for each in (case.s, case.t) if each is not None]
    return replace(case, s=shapes[0], t=shapes[1] if len(shapes) > 1 else None)


def _smaller(shape: Shape, rows: int) -> Shape:
    files = min(shape.files, 8)
    return replace(shape, rows=min(shape.rows, rows) // files * files, files=files)


def _stream(engine: Engine, folder: Path, shape: Shape, case: Case) -> Any:
    times: dict[str, Any] = {} if shape.elements else {"start": "t", "delay": DELAY}
    return engine.stream(
        folder,
        name=folder.name,
        ends=True,
        max_files_per_batch=case.per_batch,
        max_rows_per_batch=None,
        **times,
    )


def rows_of(cases: Sequence[Case]) -> int:
    """All rows that some cases read."""
    return sum(case.rows for case in cases)
