"""Operators that change lifetimes, on Spark, over a stream with corrections in several files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.kernels.busy import busy_streams
from tests.kernels.plans import SCHEMA
from tests.size.oracle import check_legal

from anabranch import Engine, LogicalStream, write_stream
from anabranch.model.time import FOREVER
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.testing import PhysicalStream, meaning

pytestmark = pytest.mark.spark

QUERIES: dict[str, Callable[[Any], Any]] = {
    "shift later": lambda s: s.shift(7),
    "shift earlier": lambda s: s.shift(-7).group_by("k").agg(n="COUNT(*)"),
    "clip": lambda s: s.clip(5, 20),
    "clip at one side, behind an aggregate": lambda s: s.group_by("k").agg(n="COUNT(*)").clip(8),
    "cleanse": lambda s: s.cleanse(),
    "cleanse without cuts": lambda s: s.where("v > 2").cleanse(cut=False),
    "to signed": lambda s: s.to_signed(),
    "from signed": lambda s: s.to_signed().from_signed(),
    "from signed, behind a window": lambda s: s.to_signed("change").from_signed("change").window(3),
}


def stream() -> PhysicalStream:
    """The same stream in every run: some hundred elements of several drawn ones."""
    found: list[PhysicalStream] = []

    @seed(4)
    @settings(
        max_examples=60,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(busy_streams(most=400))
    def take(drawn: PhysicalStream) -> None:
        found.append(drawn)

    take()
    return max(found, key=lambda drawn: len(drawn.elements))


@pytest.mark.parametrize("name", QUERIES)
def test_what_an_operator_means_is_what_it_does_on_spark(
    engine: Engine, tmp_path: Path, name: str
) -> None:
    given_ = stream()
    many = len(given_.elements)
    assert many > 200
    (tmp_path / "in").mkdir()
    for number, batch in enumerate(given_.batches(many // 4, many // 2, many // 2 + 1)):
        write_stream(tmp_path / "in" / f"{number}.jsonl", [batch])
    own = Engine(engine.spark, shards=3)
    rows = own.stream(tmp_path / "in", name="s", schema=SCHEMA, ends=True, max_files_per_batch=1)
    query = QUERIES[name](rows)
    run = query.start(
        tmp_path / "log", checkpoint=tmp_path / "c", available_now=True, allow_unbounded=True
    )
    run.await_end()
    out = list(LogFolder(str(tmp_path / "log")).read())
    assert out[-1].stable == FOREVER
    check_legal(out)
    difference = LogicalStream.of_batches(out).difference(
        meaning(query.node, {"s": given_.meaning()})
    )
    assert not difference
