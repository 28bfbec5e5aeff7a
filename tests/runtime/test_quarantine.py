"""Windows that are put aside are kept with the query, once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anabranch.model.record import plain, record
from anabranch.runtime.query.metrics import BatchMetrics, StageMetrics
from anabranch.runtime.query.quarantine import FailedWindow, Quarantine, failed_windows

SKIPPED = {"module": "m", "reason": "no", "window": ["0", "10"], "group": None, "event": ""}
EVENTS = [{"values": "('\u00e4')", "start": "1", "end": "2"}]
KEPT = {**SKIPPED, "events": EVENTS, "count": 1}


def failed(batch: int, content: Mapping[str, Any]) -> FailedWindow:
    about = {"batch": batch, "stage": "1-apply", "shard": 1}
    return record(FailedWindow, {**about, **content}, where="a test")


def batch(number: int, *failures: dict[str, Any]) -> BatchMetrics:
    """The metrics of a batch, as far as they matter."""
    report = {"shard": 1, "failed": len(failures), "failures": [*failures]}
    stage = StageMetrics(rows_in=3, reports=(report,) if failures else ())
    merge = StageMetrics(reports=({"shard": 0, "leader": None},))
    return BatchMetrics(
        batch=number,
        stable=0,
        rows_in=3,
        rows_out=0,
        late=0,
        adjusted=0,
        lag=None,
        sources={},
        stages={"0-merge": merge, "1-apply": stage},
        failed_windows=len(failures),
        control=(),
    )


def test_failures_tell_their_batch_stage_and_shard() -> None:
    about = {"batch": 4, "stage": "1-apply", "shard": 1}
    found = [*map(plain, failed_windows(batch(4, SKIPPED, KEPT)))]
    assert found == [{**about, **SKIPPED}, {**about, **KEPT}]
    assert not [*failed_windows(batch(5))]


def test_what_is_skipped_is_not_kept(tmp_path: Path) -> None:
    quarantine = Quarantine(str(tmp_path))
    quarantine.note(3, [failed(3, SKIPPED)])
    assert quarantine.read() == []
    assert not (tmp_path / "quarantine").exists()


def test_batches_are_in_order_and_repeated_ones_there_once(tmp_path: Path) -> None:
    for number in (2, 10, 2):
        quarantine = Quarantine(str(tmp_path))
        quarantine.note(number, [failed(number, each) for each in (KEPT, SKIPPED)])
    wanted = [failed(number, KEPT) for number in (2, 10)]
    assert Quarantine(str(tmp_path)).read() == wanted
    names = sorted(path.name for path in (tmp_path / "quarantine").iterdir())
    assert names == ["10.jsonl", "2.jsonl"]


def test_a_batch_that_is_repeated_with_a_mended_module_leaves_nothing(tmp_path: Path) -> None:
    Quarantine(str(tmp_path)).note(2, [failed(2, KEPT)])
    again = Quarantine(str(tmp_path))
    again.note(2, [])
    again.note(3, [])
    assert again.read() == []
