"""The product's own kernels through the same experiment: clip, in micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import process_time
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.algebra.clip import Clip
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.bench.migration.lab import SECOND, Arrival, Observed
from anabranch.bench.migration.pieces import Stretch
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.payload import payloads
from anabranch.model.time import FOREVER, Time

_SOURCES: Final = {
    name: Source(name=name, schema=pa.schema([(name.lower(), pa.int64())]), insert_only=True)
    for name in "ABCD"
}


def old_plan() -> Node:
    """((A ⋈ B) ⋈ C) ⋈ D."""
    a, b, c, d = _SOURCES.values()
    return _join(_join(_join(a, b, "a = b"), c, "a = c"), d, "a = d")


def new_plan(after: int) -> Node:
    """A ⋈ (B ⋈ (C ⋈ D)), over what holds after a time."""
    a, b, c, d = (Clip(input=each, start=Time(after)) for each in _SOURCES.values())
    return _join(a, _join(b, _join(c, d, "c = d"), "b = c"), "a = b")


def observe_product(
    streams: list[Arrival], *, begin: int, every: int, batches_per_sample: int
) -> Observed:
    """Migrate by clip; times are those of the streams."""
    seen = Observed("product")
    old: LocalRunner | None = LocalRunner(old_plan())
    new: LocalRunner | None = None
    split, greatest_end = FOREVER, 0
    started = process_time()
    step = every // batches_per_sample
    counted = 0
    for reached, batch in _batches(streams, step):
        came = list(batch.values())
        outputs = [runner.step(batch) for runner in (old, new) if runner is not None]
        if new is not None:
            # The old box's answers end where those of the new one begin.
            outputs[:-1] = [_clipped(output, split) for output in outputs[:-1]]
        for output in outputs:
            seen.output += _pieces(output)
        greatest_end = max([greatest_end, *(int(each.new_end.max()) for each in came if len(each))])
        if new is None and reached >= begin:
            split = Time(greatest_end)
            new = LocalRunner(new_plan(split))
        elif new is not None and old is not None and reached >= split:
            old = None
            seen.duration = (reached - begin) / SECOND
        if reached % every == 0:
            seen.seconds.append(reached / SECOND)
            seen.results.append(len(seen.output) - counted)
            counted = len(seen.output)
            rows = sum(runner.state_rows() for runner in (old, new) if runner is not None)
            seen.elements.append(rows)
            seen.cpu.append(process_time() - started)
    return seen


def _join(left: Node, right: Node, predicate: str) -> Node:
    both = pa.schema([*left.schema, *right.schema])
    return Join(kind="inner", left=left, right=right, predicate=Expression.parse(predicate, both))


def _batches(streams: list[Arrival], step: int) -> Iterator[tuple[int, Mapping[str, EventBatch]]]:
    """What has come by every `step` of stream time, with the promise that nothing is late."""
    by_name = {name: [piece for own, piece in streams if own == name] for name in _SOURCES}
    starts = {name: np.array([piece.start for piece in own]) for name, own in by_name.items()}
    last = int(max(piece.start for _, piece in streams))
    for reached in range(step, last + step + 1, step):
        found = {}
        for name, own in by_name.items():
            first, after = np.searchsorted(starts[name], [reached - step, reached]).tolist()
            found[name] = _batch(name, own[first:after], reached)
        yield reached, found


def _batch(name: str, pieces: list[Stretch], stable: int) -> EventBatch:
    start = np.array([piece.start for piece in pieces], np.int64)
    end = np.array([piece.end for piece in pieces], np.int64)
    rows = pa.array([piece.payload[0] for piece in pieces], pa.int64())
    payload = pa.RecordBatch.from_arrays([rows], schema=_SOURCES[name].schema)
    return EventBatch(payload, start, start, end, Time(stable))


def _clipped(output: EventBatch, last: int) -> EventBatch:
    kept = output.where(output.start < last)
    return kept.with_ends(np.minimum(kept.end, last), np.minimum(kept.new_end, last))


def _pieces(output: EventBatch) -> Iterator[Stretch]:
    """The results; this plan of inserts never takes one back."""
    assert bool((output.end == output.start).all())
    rows = payloads(output.payload, len(output))
    for payload, start, end in zip(rows, output.start.tolist(), output.new_end.tolist()):
        if start < end:
            yield Stretch(payload, start, end)
