"""Which plans can be computed from the DataFrame that Spark's query was started with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.late_sources import promise_of, write_source

from anabranch.errors import EngineError
from anabranch.runtime.query.assembly import FrameShape
from anabranch.runtime.sources.spec import FileSource, Limits
from anabranch.runtime.spark.job_in_force import clear_jobs, store_job, stored_job
from anabranch.runtime.workers.file_task import FileJob

FILES = FileJob(sources=(), plan_folder="plans", parts=2, least=1, job=b"")


def source(folder: Path, delay: int = 1) -> FileSource:
    return write_source(folder, "csv", [], promise_of(delay, "drop"), Limits())


def test_a_plan_needs_no_other_sources_columns_or_tasks(tmp_path: Path) -> None:
    own = FrameShape(
        files=FILES,
        sources={"s": source(tmp_path), "r": source(tmp_path)},
        heartbeats={"s": 5},
        columns={"d": ("a", "b")},
        widths=(2, 1),
    )
    assert own.serves(own)
    # Less is enough, and levels that come behind are put behind the DataFrame.
    assert own.serves(replace(own, sources={"s": source(tmp_path)}, heartbeats={}))
    assert own.serves(replace(own, columns={"d": ("b",)}))
    assert own.serves(replace(own, widths=()))
    assert own.serves(replace(own, widths=(1, 1, 4)))
    assert replace(own, widths=()).serves(own)
    for other in (
        replace(own, files=None),
        replace(own, files=replace(FILES, parts=3)),
        replace(own, sources={"s": source(tmp_path, 2)}),
        replace(own, sources={**own.sources, "t": source(tmp_path)}),
        replace(own, heartbeats={"s": 6}),
        replace(own, columns={"d": ("a", "c")}),
        replace(own, columns={}),
        replace(own, widths=(2, 2)),
    ):
        assert not own.serves(other)


def test_a_job_is_found_by_its_name_until_it_is_cleared(tmp_path: Path) -> None:
    home = str(tmp_path)
    first = store_job(home, b"first")
    second = store_job(home, b"second", keep=(first,))
    assert stored_job(home, first) == b"first"
    third = store_job(home, b"third", keep=(second,))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([second, third])
    (tmp_path / third).write_bytes(b"damaged")
    with pytest.raises(EngineError, match="missing or damaged"):
        stored_job(home, third)
    clear_jobs(home)
    assert list(tmp_path.iterdir()) == []
