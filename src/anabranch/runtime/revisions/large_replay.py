"""Replays that are too large for the driver: what is to be replayed, and by whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.batch import EventBatch
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.narrowing import narrowed
from anabranch.runtime.revisions.replayer import Reach
from anabranch.runtime.sources.files.reader import FileSplit

REPLAY_ON_SPARK_FROM_ROWS: Final = 4_000_000
"""From so many archived rows on, a replay is a job of Spark; below, its start would cost more."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LargeReplay:
    """A replay as a job: the past in one batch, the correction in the next.

    Attributes:
        home: A folder for it.
        plan: The stages, with speculative emission.
        past: Per source, the pieces of the past.
        missing: Per source, what of them was not believed, as moves to be added.
        source: The source that is corrected.
        changes: Its correction.
    """

    home: str
    plan: PhysicalPlan
    past: Mapping[str, tuple[FileSplit, ...]]
    missing: Mapping[str, EventBatch]
    source: str
    changes: EventBatch


RunLarge: TypeAlias = Callable[[LargeReplay], list[EventBatch]]
"""Runs it, and returns what leaves in the second batch, per output."""


def rows_in_reach(archives: Mapping[str, Archive], reach: Reach, upto: int) -> int:
    """How many rows the pieces have that a replay reads, at most."""
    return sum(
        piece.rows
        for name, span in reach.inputs.items()
        if name in archives
        for _, piece in archives[name].pieces(span, upto)
    )


def past_splits(
    archives: Mapping[str, Archive], reach: Reach, upto: int
) -> dict[str, tuple[FileSplit, ...]]:
    """Per source, where the rows of the past can be read again."""
    found: dict[str, tuple[FileSplit, ...]] = {}
    for name, span in reach.inputs.items():
        archive = archives[name]
        source = archive.source
        assert source is not None
        found[name] = tuple(
            split
            for _, piece in archive.pieces(span, upto)
            for split in narrowed(source, piece.split, span, {})
        )
    return found
