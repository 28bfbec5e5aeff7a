"""`bench scale`: what is compared with what, and on how many cores."""

from __future__ import annotations

import os
import sys

import pyarrow as pa
import pytest

from anabranch.bench.scale.job import cores_of, stay_on
from anabranch.bench.scale.over_time import growth
from anabranch.bench.scale.scale import KEYS, MASTERS, SHARDS, SIZES
from anabranch.kernels.contract.routing import shard_of
from anabranch.model.numbers.hashing import stable_hash


def test_the_first_batches_are_compared_with_nothing() -> None:
    """Five batches that are slow at first would hide that the cost doubles."""
    cold, warm, late = [4.0] * 5, [1.0] * 45, [2.0] * 50
    assert growth(cold + warm + late) == 2.0
    assert growth(cold + warm + late, until=50) == 1.0
    # A batch that is slow by chance does not matter.
    assert growth([*cold, 1.0, 9.0, *warm[2:], *late[:-1], 9.0]) == 2.0


def test_shorter_forms_compare_fewer_batches() -> None:
    for size in SIZES.values():
        for batches in (size.long_batches, size.key_batches):
            each = [9.0] + [1.0] * (batches - 2) + [3.0]
            assert growth(each) in (1.0, 3.0)
            assert growth(each, until=batches // 2) == 1.0
    full = SIZES["full"]
    assert min(full.long_batches, full.key_batches) // 6 >= 5


def test_what_a_shard_costs_is_measured_with_shards_that_have_rows() -> None:
    keys = stable_hash([pa.array(range(KEYS))], KEYS)
    for size in SIZES.values():
        assert len(set(shard_of(keys, size.shards))) == size.shards > SHARDS
        assert size.most_shards > size.shards


def test_a_master_says_how_many_cores_it_has() -> None:
    assert [cores_of(master) for master in MASTERS] == [1, 2, 2]
    assert cores_of("local[3,4]") == 3
    assert cores_of("local[*]") is None


@pytest.mark.skipif(sys.platform != "linux", reason="others cannot be told")
def test_one_core_is_one_core() -> None:
    before = os.sched_getaffinity(0)
    try:
        stay_on(None)
        assert os.sched_getaffinity(0) == before
        stay_on(1_000)
        assert os.sched_getaffinity(0) == before
        stay_on(1)
        assert len(os.sched_getaffinity(0)) == 1
    finally:
        os.sched_setaffinity(0, before)
