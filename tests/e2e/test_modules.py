"""Modules on Spark say what the definition of their windows says, whatever comes when."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.e2e import module_shapes as shapes

from anabranch import LogicalStream, write_stream
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.engine import Engine, Stream
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.testing import PhysicalState, PhysicalStream, meaning, violations
from anabranch.testing.oracle import history_of
from anabranch.testing.physical import KitStable, Move, adjust, insert

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
STEPS, MOVES = 5, 16
END = 100
"""All that ends has ended by then; what does not is looked at as far."""


def disturbed(seed: int) -> PhysicalStream:
    """Lifetimes out of order, some without end, adjusted and withdrawn; legal at any point."""
    chance = random.Random(seed)
    state, found, promised = PhysicalState.empty(), list[Move | KitStable](), 0

    def take(move: Move | KitStable) -> None:
        wrong = state.take(move)
        assert not wrong, wrong
        found.append(move)

    for step in range(STEPS):
        for _ in range(MOVES):
            there = sorted(state.events)
            if not there or chance.random() < 0.6:
                start = promised + chance.randrange(14)
                end = start + chance.choice([1, 3, 9, 25]) if chance.random() < 0.9 else FOREVER
                take(insert(chance.randrange(4), chance.randrange(6), start=start, end=end))
                continue
            payload, start, end = chance.choice(there)
            new_end = chance.choice([start, start + 2, promised + chance.randrange(15)])
            if new_end != end and new_end >= start and min(end, new_end) >= promised:
                take(adjust(*payload, start=start, end=end, new_end=new_end))
        promised = 9 * (step + 1)
        take(KitStable(promised))
    for payload, start, end in sorted(state.events):
        if end == FOREVER and chance.random() < 0.5:
            take(adjust(*payload, start=start, end=end, new_end=END - 20))
    take(KitStable(END))
    take(KitStable(FOREVER))
    return PhysicalStream(SCHEMA, tuple(found))


def queries(stream: Stream) -> list[Stream]:
    """Every type of window, clipping, timestamping and shape is in some of these."""
    plain: list[Any] = [
        shapes.listing,
        shapes.Adding,
        shapes.OnlyAdding,
        shapes.arrow_listing,
        shapes.pandas_listing,
        shapes.polars_listing,
        shapes.repeated,
    ]
    timed: list[Any] = [shapes.timed_listing, shapes.TimedAdding]
    clips = ["none", "left", "right", "full"]
    bounds = {"columns": ("since", "until")}
    found: list[Stream] = []
    number = count()
    for place in range(6):

        def over(place: int = place, **options: Any) -> Any:
            given = {**(bounds if next(number) % 2 else {}), **options}
            return [
                lambda: stream.hopping(8, 3, offset=1, **given),
                lambda: stream.tumbling(7, **given),
                lambda: stream.snapshot_windows(**given),
                lambda: stream.count_windows(3, **given),
                lambda: stream.count_windows(2, by_end=True, **given),
                lambda: stream.sessions(4, **given),
            ][place]()

        group: list[dict[str, Any]] = [{"by": "k"}, {}, {"by": ["k", "v % 2 AS odd"]}]
        for turn in range(3):
            module = plain[(3 * place + turn) % len(plain)]
            found.append(over(**group[turn]).apply(module, "v", name="said"))
        for turn, clip in enumerate(clips):
            module = timed[(place + turn) % 2]
            options = group[(place + turn) % 2]
            found.append(over(clip=clip, **options).apply(module, "v", name="said"))
        for turn, timestamps in enumerate(["align", "unchanged", "clip"]):
            times = {"clip": clips[(place + turn) % 4], "timestamps": timestamps}
            options = {**times, **group[(place + turn + 1) % 2]}
            found.append(over(**options).apply(shapes.lifetimes, "v", name="said"))
    found.append(
        stream.hopping(6, 2, by="k", timestamps="time_bound").apply(shapes.starts, "v", name="said")
    )
    found.append(stream.tumbling(5, by="k", empty=True).apply(shapes.listing, "v", name="said"))
    found.append(stream.tumbling(9, by="k", open_windows=True).apply(plain[1], "v", name="said"))
    return found


def left(run: Run, schema: pa.Schema) -> list[tuple[int, list[Move]]]:
    """Batch by batch the stable point and what left before it."""
    assert run.log_folder is not None
    found = []
    for entry in LogFolder(run.log_folder).entries():
        moves: list[Move] = []
        for file in entry.files:
            for row in pq.read_table(Path(run.log_folder) / file.name).to_pylist():
                payload = tuple(row[name] for name in schema.names)
                end, new_end = (
                    FOREVER if row[name] is None else row[name] for name in ("end", "new_end")
                )
                if row["kind"] == "insert":
                    moves.append(Move(payload, row["start"], row["start"], end))
                else:
                    moves.append(Move(payload, row["start"], end, new_end))
        found.append((int(entry.stable), moves))
    return found


def check(query: Stream, run: Run, batches: list[EventBatch]) -> int:
    """Compare a query with its meaning, at the end and before every stable point."""
    history = history_of(batches)
    finite = max(batch.stable for batch in batches if batch.stable < FOREVER)
    means = {"rows": LogicalStream.of_batches(batches)}
    want = meaning(query.node, means, {"rows": history}, finite)
    state = PhysicalState.empty()
    for number, (stable, moves) in enumerate(left(run, query.schema)):
        wrong = [*violations(moves, state)]
        assert not wrong, f"{query.node.label}, batch {number}: {wrong}"
        state.take(KitStable(stable))
        got = LogicalStream.of(event for event, many in state.events.items() for _ in range(many))
        different = got.difference(want, stable)
        assert not different, f"{query.node.label}, batch {number}: {different}"
    assert state.stable == FOREVER
    return sum(state.events.values())


def test_every_window_and_shape_on_spark(engine: Engine, tmp_path: Path) -> None:
    stream = disturbed(7)
    cuts = [at + 1 for at, each in enumerate(stream.elements) if isinstance(each, KitStable)][:-1]
    # A batch may end anywhere, not only behind a promise.
    cuts = sorted({*cuts, *(at - 5 for at in cuts[:3])})
    batches = stream.batches(*cuts)
    (tmp_path / "in").mkdir()
    for number, batch in enumerate(batches):
        write_stream(tmp_path / "in" / f"{number:02}.jsonl", [batch])
    source = engine.stream(tmp_path / "in", name="rows", schema=SCHEMA, max_files_per_batch=1)
    every = queries(source)
    runs = engine.start_all(every, tmp_path / "out", available_now=True, allow_unbounded=True)
    assert runs[0].await_end()
    told = [check(query, run, batches) for query, run in zip(every, runs, strict=True)]
    assert min(told) > 0
    last = runs[0].metrics()[-1]
    assert last["batch"] == len(batches) - 1
    assert sum(stage["state_rows"] for stage in last["stages"].values()) == 0
    nodes = [query.node for query in every if isinstance(query.node, ApplyOperator)]
    seen = Counter(type(node.window).__name__ for node in nodes)
    assert len(seen) == 5
    assert batches[0].stable == BEGINNING
