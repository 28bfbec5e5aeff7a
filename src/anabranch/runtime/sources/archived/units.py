"""An archive as a source: every batch of it is a piece of work, and so is every correction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from anabranch.algebra.analysis.spans import EVERYTHING, Span
from anabranch.runtime.sources.archived.about import CORRECTIONS, INDEX
from anabranch.runtime.sources.archived.index import ArchiveIndex
from anabranch.runtime.sources.archived.pieces import ArchivedBatch
from anabranch.runtime.sources.files.reader import FileSplit
from anabranch.runtime.sources.files.units import Position, Unit
from anabranch.runtime.sources.spec import KnowledgePoint
from anabranch.runtime.store.folder import Folder

LOOK_AHEAD_BATCHES: Final = 1024
"""The index is read in portions of so many batches: most of them are for later."""


def archive_size(root: Path) -> int:
    """How many batches an archive has, those that are gone included."""
    return ArchiveIndex(Folder.at(str(root)).child(INDEX)).last_batch() + 1


def new_archive_units(
    root: Path,
    size: int,
    at: Position,
    known: KnowledgePoint | None = None,
    within: Span | None = None,
) -> Iterator[Unit]:
    """What an archive has beyond a position, as it arrived.

    In a position the offset counts batches and the number corrections. A batch stays in one piece,
    and what its source had promised holds after it. A correction comes after the batch with which
    it became known; there its rows are late, as the originals would have been. Late rows of a batch
    are a correction that came with it: they come in their batch, or where it is asked what was
    known, with their correction.

    Args:
        root: The archive.
        size: How many batches count (it may be growing).
        at: How far it has been read.
        known: What counts; None: everything. What was known once is read without promises: it
            ends, and corrections take their places among the rows.
        within: Only pieces with rows that may concern these instants; None: all.
    """
    folder = Folder.at(str(root))
    corrections = iter(_corrections(folder, size, at.number - 1, known))
    next_correction = next(corrections, None)
    for entry in _batches(ArchiveIndex(folder.child(INDEX)), at.offset, size):
        while next_correction is not None and next_correction.promised < entry.batch:
            at = replace(at, number=next_correction.batch + 1)
            yield _unit(root, next_correction, at, within)
            next_correction = next(corrections, None)
        at = replace(at, offset=entry.batch + 1)
        if known is None:
            yield _unit(root, entry, at, within, FileSplit("", 0, 0, stable=entry.promised))
        elif known.instant is None or entry.known_at <= known.instant:
            in_time = tuple(piece for piece in entry.pieces if not piece.is_late)
            yield _unit(root, replace(entry, pieces=in_time), at, within)
    while next_correction is not None:
        at = replace(at, number=next_correction.batch + 1)
        yield _unit(root, next_correction, at, within)
        next_correction = next(corrections, None)


def _batches(index: ArchiveIndex, first: int, size: int) -> Iterator[ArchivedBatch]:
    while first < size:
        last = min(first + LOOK_AHEAD_BATCHES, size)
        yield from index.entries(after=first - 1, upto=last - 1)
        first = last


def _corrections(
    folder: Folder, size: int, after: int, known: KnowledgePoint | None
) -> Iterable[ArchivedBatch]:
    """The corrections that count, in order; their number stands for the batch."""
    upto = None if known is None else known.revision
    for entry in ArchiveIndex(folder.child(CORRECTIONS)).entries(after=after, upto=upto):
        if known is None and any(piece.is_late for piece in entry.pieces):
            # They came in their batch.
            continue
        is_known = known is None or known.instant is None or entry.known_at <= known.instant
        if entry.promised < size and entry.pieces and is_known:
            yield entry


def _unit(
    root: Path, entry: ArchivedBatch, after: Position, within: Span | None, *promise: FileSplit
) -> Unit:
    span = EVERYTHING if within is None else within
    pieces = [piece for piece in entry.pieces if piece.rows and piece.overlaps(span)]
    splits = [replace(piece.split, path=str(root / piece.split.path)) for piece in pieces]
    return Unit(str(root), (*splits, *promise), sum(piece.rows for piece in pieces), after)
