from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.contract.column_names import ID
from anabranch.kernels.contract.routing import shard_of
from anabranch.runtime.elements import exchange
from anabranch.runtime.elements.exchange import (
    Parcel,
    address,
    announce,
    by_partition,
    gather,
    pack,
    split,
    unpack,
)
from anabranch.runtime.messages.heads import CONTINUED, SourceHead, TimeHead
from anabranch.runtime.workers.inbox import StageInbox, sorted_out


def rows(ids: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {ID: pa.array(ids, pa.uint64()), "place": pa.array(range(len(ids)), pa.int64())}
    )


ids = st.lists(st.integers(0, 2**64 - 1), max_size=50)


@given(ids, st.integers(1, 5))
def test_rows_of_one_id_meet_in_one_shard_in_their_order(keys: list[int], shards: int) -> None:
    pieces = dict(split(rows(keys), shards))
    assert sorted(pieces) == list(pieces)
    assert pieces.keys() <= set(range(shards))
    assert sum(piece.num_rows for piece in pieces.values()) == len(keys)
    homes = [set(piece.column(ID).to_pylist()) for piece in pieces.values()]
    assert sum(map(len, homes)) == len(set(keys))
    for shard, piece in pieces.items():
        assert set(shard_of(piece.column(ID).to_numpy(), shards)) == {shard}
        places = piece.column("place").to_pylist()
        assert places == sorted(places)


@given(ids, st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_parcels_arrive_as_they_were_sent(
    keys: list[int], shards: int, partitions: int, everywhere: bool
) -> None:
    head = SourceHead(source="bids", counted_at=(1, 0), reached=7, rows=len(keys))
    sent = list(announce(head, target=1, edge=0, part=2, partitions=partitions))
    sent += address(
        rows(keys),
        target=1,
        edge=0,
        part=2,
        shards=shards,
        keyed=True,
        everywhere=everywhere,
        partitions=partitions,
    )
    came = [parcel for batch in pack(sent) for parcel in unpack(batch)]
    assert [(p.shard, p.shared, p.target, p.part, p.head) for p in came] == [
        (p.shard, p.shared, 1, 2, p.head) for p in sent
    ]
    heads = [parcel for parcel in came if parcel.rows is None]
    assert [(parcel.shard, parcel.shared, parcel.head) for parcel in heads] == [
        (partition, True, head) for partition in range(partitions)
    ]
    for one, other in zip(sent, came):
        assert (one.rows is None) == (other.rows is None)
        assert one.rows is None or one.rows.equals(other.rows)


def test_the_order_of_arrival_does_not_matter() -> None:
    parcels = [
        Parcel(shard=0, target=0, edge=edge, part=part, chunk=chunk, rows=rows([edge, part, chunk]))
        for edge in range(2)
        for part in range(2)
        for chunk in range(2)
    ]
    forward, backward = gather(parcels, lambda: rows([])), gather(parcels[::-1], lambda: rows([]))
    assert forward.equals(backward)


def test_rows_without_a_key_stay_together() -> None:
    (sent,) = address(rows([0, 0, 0]), target=0, edge=0, part=5, shards=3, keyed=False)
    assert sent.shard == 2
    assert sent.rows is not None
    assert sent.rows.num_rows == 3


def test_shards_without_rows_get_no_parcel() -> None:
    head = TimeHead("bids", 1)
    sent = list(announce(head, target=0, edge=0, part=0, partitions=2))
    sent += address(rows([7]), target=0, edge=0, part=0, shards=4_096, keyed=True, partitions=2)
    assert len(sent) == 3


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_each_partition_hears_everything_once_whatever_senders_reckoned_with(width: int) -> None:
    head, said = TimeHead("bids", 1), [0, 1]
    sent = [
        parcel
        for part in said
        for parcel in (
            *announce(head, target=3, edge=0, part=part, partitions=4),
            *address(
                rows([part]),
                target=3,
                edge=0,
                part=part,
                shards=9,
                keyed=True,
                everywhere=True,
                partitions=4,
            ),
        )
    ]
    arriving: list[list[pa.RecordBatch]] = [[] for _ in range(width)]
    for packed in pack(sent):
        for partition, own in by_partition(packed, width):
            arriving[partition].append(own)
    for own_rows in arriving:
        inboxes: dict[int, StageInbox] = {}
        assert not list(sorted_out(own_rows, [3], inboxes))
        assert [parcel.part for parcel in inboxes[3].heads] == said
        assert [parcel.part for parcel in inboxes[3].of_shard(5)] == said


def test_what_is_for_a_later_stage_passes() -> None:
    sent = [
        Parcel(shard=0, target=target, edge=0, part=0, rows=rows([target])) for target in (3, 4)
    ]
    inboxes: dict[int, StageInbox] = {}
    passed = [parcel for out in sorted_out(pack(sent), [3], inboxes) for parcel in unpack(out)]
    assert [parcel.target for parcel in passed] == [4]
    assert [parcel.target for parcel in inboxes[3].of_shard(0)] == [3]


def test_many_rows_travel_in_several_parcels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PARCEL_BYTES", rows(list(range(35))).nbytes // 4 + 1)
    monkeypatch.setattr(exchange, "BUNDLE_BYTES", 100)
    whole, head = rows(list(range(35))), TimeHead("bids", 1)
    sent = list(announce(head, target=0, edge=0, part=0, partitions=1))
    sent += address(whole, target=0, edge=0, part=0, shards=1, keyed=True)
    assert [parcel.head for parcel in sent] == [head, *[CONTINUED] * 4]
    came = [parcel for batch in pack(sent) for parcel in unpack(batch)]
    assert gather(came[::-1], lambda: rows([])).equals(whole)


def test_nothing_at_all_has_the_schema_of_something() -> None:
    none = gather([Parcel(shard=0, target=0, edge=0, part=0)], lambda: rows([]))
    assert none.schema == rows([1]).schema
    assert np.array_equal(none.column(ID).to_numpy(), [])
