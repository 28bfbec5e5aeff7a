"""What a task has got for each stage: heads that all its shards hear, and rows by shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.runtime.elements.exchange import Parcel, unpack

_Key: TypeAlias = tuple[int, int, int, bool]


@final
@dataclass(frozen=True, slots=True)
class StageInbox:
    """The parcels for one stage.

    Attributes:
        heads: What senders said, in their order, each message once.
        shared: Rows that are for all shards.
        rows: The rows of the shards that got some of their own.
    """

    heads: Sequence[Parcel] = ()
    shared: Sequence[Parcel] = ()
    rows: dict[int, list[Parcel]] = field(default_factory=dict)

    @staticmethod
    def of(parcels: Iterable[Parcel]) -> StageInbox:
        """Out of all parcels for a stage, in any order.

        What is shared was sent once to each partition that a sender reckoned with. Where there are
        fewer, as in the driver, several of these are one; of what they got the least counts.
        """
        shared: dict[_Key, list[Parcel]] = {}
        rows: dict[int, list[Parcel]] = {}
        for parcel in parcels:
            if not parcel.shared:
                rows.setdefault(parcel.shard, []).append(parcel)
                continue
            key = (parcel.edge, parcel.part, parcel.chunk, parcel.rows is None)
            same = shared.setdefault(key, [])
            if same and parcel.shard < same[0].shard:
                same.clear()
            if not same or parcel.shard == same[0].shard:
                same.append(parcel)
        once = [parcel for key in sorted(shared) for parcel in shared[key]]
        return StageInbox(
            [parcel for parcel in once if parcel.rows is None],
            [parcel for parcel in once if parcel.rows is not None],
            rows,
        )

    def of_shard(self, shard: int) -> list[Parcel]:
        """The rows that a shard gets."""
        return [*self.shared, *self.rows.get(shard, ())]


def sorted_out(
    arriving: Iterable[pa.RecordBatch], level: Sequence[int], inboxes: dict[int, StageInbox]
) -> Iterator[pa.RecordBatch]:
    """Fill the inboxes of the stages of a level; what is for later ones, or the driver, passes."""
    own: dict[int, list[Parcel]] = {stage_index: [] for stage_index in level}
    for rows in arriving:
        is_own = np.isin(rows.column("target").to_numpy(), level)
        if not is_own.all():
            # Large parcels come one by one, so that little is copied here.
            yield rows.filter(pa.array(~is_own))
            rows = rows.filter(pa.array(is_own))
        for parcel in unpack(rows):
            own[parcel.target].append(parcel)
    inboxes |= {stage_index: StageInbox.of(parcels) for stage_index, parcels in own.items()}
