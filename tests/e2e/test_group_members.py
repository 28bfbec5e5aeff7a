"""Queries join a running group and leave it; the others go on, and the checkpoint resumes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.changed_queries import (
    SPAN_OF_FILE,
    answers,
    counting,
    declare,
    feed,
    instants,
    snapshot,
)
from tests.e2e.revised_queries import assert_legal

from anabranch.engine import Engine
from anabranch.errors import PlanError

pytestmark = pytest.mark.spark


def test_queries_join_and_leave_while_the_others_go_on(engine: Engine, tmp_path: Path) -> None:
    declare(engine, tmp_path)
    outs = [tmp_path / name for name in ("a", "b", "c")]
    first = counting(engine, 900).start(outs[0])
    feed(first, tmp_path, range(3))
    # By clip: from the instant on at which earlier rows do not matter.
    second = first.add(counting(engine, 400, least=500), outs[1], name="dear")
    at = second.joined.at
    assert (second.name, second.joined.how, second.status) == ("dear", "clip", "running")
    assert 3 * SPAN_OF_FILE + 300 < at < 3 * SPAN_OF_FILE + 500
    feed(first, tmp_path, range(3, 5))
    # By replay: from the beginning.
    third = second.add(counting(engine, 700), outs[2], how="replay")
    feed(third, tmp_path, range(5, 7))
    first.leave()
    assert [run.status for run in (first, second, third)] == ["ended", "running", "running"]
    ended = int(first.stable)
    feed(second, tmp_path, range(7, 8))
    second.leave()
    with pytest.raises(PlanError, match="the only query"):
        third.leave()
    third.stop()
    left = int(second.stable)
    # What is in the checkpoint now is the third query alone.
    home = outs[0] / "_checkpoint"
    with pytest.raises(PlanError, match="all queries that it has now"):
        engine.start_all(
            [counting(engine, 900), counting(engine, 700)], [outs[0], outs[2]], checkpoint=home
        )
    [third] = engine.start_all([counting(engine, 700)], [outs[2]], checkpoint=home)
    feed(third, tmp_path, range(8, 9))
    third.stop()
    for instant in instants(ended):
        assert snapshot(first, instant) == answers(tmp_path, instant, 900), instant
    for instant in instants(left, at):
        wanted = answers(tmp_path, instant, 400, least=500) if instant >= at else []
        assert snapshot(second, instant) == wanted, instant
    for instant in instants(int(third.stable)):
        assert snapshot(third, instant) == answers(tmp_path, instant, 700), instant
    for out in outs:
        assert_legal(out)
