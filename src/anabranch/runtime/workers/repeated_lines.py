"""What a copy that is a stream file says again after its writer was restarted.

Where equal elements may be several events (r1, r4), only the past of the file tells a repetition
from new events: see `said_again.py`. A merge that follows a file does not remember it, for the
file itself has it. Once an element of a file breaks the file's own promise, its lines up to there
are read again and compared; that costs a look at the file in each batch that brings a part of the
repetition, and none otherwise. A batch that is done again reads the same and finds the same.

A repetition may go on in the next batches, where nothing shows it. A note with the plan says up to
which byte the past is needed. It stays, because a batch that is done again has to read the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final
from urllib.parse import quote

import numpy as np

from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.kernels.merge.said_again import SaidAgain
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.record import plain, record
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.sources.files.listing import form_of
from anabranch.runtime.sources.files.reader import FileSplit, read_split
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder

_REPEATED: Final = "repeated"
_OPEN: Final = (1 << 62) - 1


@final
@dataclass(frozen=True, slots=True)
class RepeatedPart:
    """Up to which byte of a stream file the past is needed to tell what is new."""

    until: int


@final
class RepeatedLines:
    """Leaves out what the stream files among the copies of a source say again."""

    def __init__(self, source: FileSource, columns: Sequence[str], plan: Folder) -> None:
        """Of a batch; `plan` is the folder of the plan."""
        self._source = source
        self._columns = columns
        self._notes = plan.child(_REPEATED)
        self._past: dict[int, SaidAgain] = {}

    def new(
        self, copy: int, split: FileSplit, pieces: Sequence[Arrivals], reached: Time
    ) -> tuple[list[Arrivals], int]:
        """The pieces of a split without what was said before, and how many rows that were.

        Args:
            copy: The number of the copy.
            split: What was read of it.
            pieces: The content of the split, in order.
            reached: What the copy had promised in front of it.
        """
        if form_of(Path(split.path)) != "json":
            return list(pieces), 0
        past = self._past.get(copy)
        if past is None:
            if not _goes_back(pieces, reached) and split.first >= self._until(copy):
                return list(pieces), 0
            past = self._past[copy] = self._before(split)
        found, again, stable = [], 0, int(reached)
        for piece in pieces:
            batch = piece.batch
            legal, bound = _legal(piece, stable)
            stable = max(stable, int(batch.stable))
            # What is late is for the policy of the source to judge.
            kept = past.new(batch, legal, bound, stable) | ~legal
            again += len(batch) - int(kept.sum())
            found.append(piece if kept.all() else _where(piece, kept))
        until = _OPEN if past.repeats else split.last
        if until != self._until(copy):
            self._notes.write_json(self._name(copy), plain(RepeatedPart(until)))
        return found, again

    def _before(self, split: FileSplit) -> SaidAgain:
        """What the file says in front of a split."""
        past, stable = SaidAgain(), int(BEGINNING)
        if split.first == 0:
            return past
        whole = replace(split, first=0, last=split.first, number=1)
        for piece in read_split(self._source, whole, self._columns):
            legal, bound = _legal(piece, stable)
            stable = max(stable, int(piece.batch.stable))
            past.new(piece.batch, legal, bound, stable)
        return past

    def _until(self, copy: int) -> int:
        content = self._notes.read_json(self._name(copy))
        if content is None:
            return 0
        where = f"{self._notes.path}/{self._name(copy)}"
        hint = "rejoin the copy, and remove the file"
        return record(RepeatedPart, content, where=where, hint=hint).until

    def _name(self, copy: int) -> str:
        return f"{quote(self._source.name, safe='')}-{copy}.json"


def _legal(piece: Arrivals, promised: int) -> tuple[Mask, Ints]:
    """Which rows of a piece keep the promise of their stream, and what that was before each."""
    batch, bound = piece.batch, np.maximum(piece.bound, promised)
    return np.asarray(np.minimum(batch.end, batch.new_end) >= bound), bound


def _goes_back(pieces: Sequence[Arrivals], reached: Time) -> bool:
    stable = int(reached)
    for piece in pieces:
        if not _legal(piece, stable)[0].all():
            return True
        stable = max(stable, int(piece.batch.stable))
    return False


def _where(piece: Arrivals, kept: Mask) -> Arrivals:
    batch: EventBatch = piece.batch.where(kept)
    return replace(
        piece, batch=batch, position=piece.position[kept], is_adjust=piece.is_adjust[kept]
    )
