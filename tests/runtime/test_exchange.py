from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.contract.column_names import ID
from anabranch.runtime.elements import exchange
from anabranch.runtime.elements.exchange import Parcel, address, gather, pack, split, unpack
from anabranch.runtime.messages.heads import CONTINUED, SourceHead, TimeHead


def rows(ids: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {ID: pa.array(ids, pa.uint64()), "place": pa.array(range(len(ids)), pa.int64())}
    )


ids = st.lists(st.integers(0, 2**64 - 1), max_size=50)


@given(ids, st.integers(1, 5))
def test_rows_of_one_id_meet_in_one_shard_in_their_order(keys: list[int], shards: int) -> None:
    pieces = split(rows(keys), shards)
    assert len(pieces) == shards
    assert sum(piece.num_rows for piece in pieces) == len(keys)
    homes = [set(piece.column(ID).to_pylist()) for piece in pieces]
    assert sum(map(len, homes)) == len(set(keys))
    for piece in pieces:
        places = piece.column("place").to_pylist()
        assert places == sorted(places)


@given(ids, st.integers(1, 4), st.randoms())
def test_parcels_arrive_as_they_were_sent(keys: list[int], shards: int, random: object) -> None:
    head = SourceHead(source="bids", counted_at=(1, 0), reached=7, rows=len(keys))
    sent = list(address(rows(keys), head, target=1, edge=0, part=2, shards=shards, keyed=True))
    came = [parcel for batch in pack(sent) for parcel in unpack(batch)]
    assert [(p.shard, p.target, p.part, p.head) for p in came] == [
        (p.shard, 1, 2, head) for p in sent
    ]
    assert {parcel.shard for parcel in came} == set(range(shards))
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
    sent = list(
        address(rows([0, 0, 0]), CONTINUED, target=0, edge=0, part=5, shards=3, keyed=False)
    )
    assert [0 if p.rows is None else p.rows.num_rows for p in sent] == [0, 0, 3]


def test_many_rows_travel_in_several_parcels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PARCEL_BYTES", rows(list(range(35))).nbytes // 4 + 1)
    monkeypatch.setattr(exchange, "BUNDLE_BYTES", 100)
    whole, head = rows(list(range(35))), TimeHead("bids", 1)
    sent = list(address(whole, head, target=0, edge=0, part=0, shards=1, keyed=True))
    assert [parcel.head for parcel in sent] == [head, CONTINUED, CONTINUED, CONTINUED]
    came = [parcel for batch in pack(sent) for parcel in unpack(batch)]
    assert gather(came[::-1], lambda: rows([])).equals(whole)


def test_nothing_at_all_has_the_schema_of_something() -> None:
    none = gather([Parcel(shard=0, target=0, edge=0, part=0)], lambda: rows([]))
    assert none.schema == rows([1]).schema
    assert np.array_equal(none.column(ID).to_numpy(), [])
