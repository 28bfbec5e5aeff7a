"""Jumps of multiplicities, up and down, before and after a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.contract.column_names import CHECK, END, ID, NEW_END
from anabranch.kernels.multiplicity.multiplicity import Runs
from anabranch.kernels.trace.timeline import LaneMoves, Lanes, revise, settle
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import FOREVER, Time


@final
@dataclass(frozen=True, slots=True, eq=False)
class Jumps:
    """By how much multiplicities rise at instants (fall, below 0), where a batch changed that.

    `rows` says which arrived row has the payload of each.
    """

    rows: Ints
    instant: Ints
    old: Ints
    new: Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class JumpPoints:
    """Moves of points; `jump` is the index of the jump that each belongs to."""

    jump: Ints
    start: Ints
    end: Ints
    new_end: Ints


def revise_jumps(runs: Runs, rows: pa.RecordBatch, stable: Time, label: str) -> Jumps:
    """Revise the counts of the payloads that something arrived for; `runs` gets the new runs.

    A jump can only change where the count does, at the first instant of that stretch or behind
    its last one; all these are breakpoints of the revision, with their true neighbours before them.
    """
    checked = CHECK in rows.schema.names
    lanes = Lanes(checked=checked)
    moves = LaneMoves(
        ids=rows.column(ID).to_numpy(),
        end=rows.column(END).to_numpy(),
        new_end=rows.column(NEW_END).to_numpy(),
        whole={COUNT: rows.column(COUNT).to_numpy()},
        check=rows.column(CHECK).to_numpy() if checked else None,
    )
    held = runs.get("counts", ())
    counts = revise(held, lanes, moves)
    if (counts.new[COUNT] < 0).any():
        raise StreamError(
            "an adjust or withdrawal of an event that was never inserted",
            where=label,
            hint="run `anabranch check` on the source",
        )
    nothing = np.zeros(len(counts.ids), np.bool_)
    runs["counts"], _ = settle(held, lanes, counts, {}, nothing, nothing, stable)
    was, now = (_rises(count[COUNT], counts.first) for count in (counts.old, counts.new))
    positions = np.flatnonzero((was != now) & (counts.times != FOREVER))
    return Jumps(counts.move[positions], counts.times[positions], was[positions], now[positions])


def _rises(count: Ints, first: np.ndarray) -> Ints:
    before = np.zeros(len(count), np.int64)
    before[1:] = count[:-1]
    return np.asarray(count - np.where(first, 0, before))


def changed_points(instant: Ints, old: Ints, new: Ints) -> JumpPoints:
    """From so many points at each instant to so many others."""
    positions = np.repeat(np.arange(len(instant)), np.abs(new - old))
    start, comes = instant[positions], (new > old)[positions]
    return JumpPoints(
        jump=positions,
        start=start,
        end=np.where(comes, start, start + 1),
        new_end=np.where(comes, start + 1, start),
    )
