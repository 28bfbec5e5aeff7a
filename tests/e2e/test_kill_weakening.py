"""A merge is killed in the very batch in which it goes over to a weaker case."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.test_kill_driver import kill, wait_for
from tests.e2e.weaker_copies import IN_ORDER, KEYED, History

from anabranch.engine import Engine
from anabranch.merging.logs import merge_logs
from anabranch.runtime.query.state_view import view_state
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.files.log_records import LogProperties
from anabranch.runtime.store.phases import HALT, PHASES

pytestmark = pytest.mark.spark

HISTORY = History(rows=3_600, chunks=6)
COMMAND = (sys.executable, "-m", "anabranch")


def follow(folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    """The documented command; whoever starts it again uses the same words."""
    words = ["merge", "copies", "--follow", "--to", "merged", "--detach-after", "never"]
    with (folder / "said").open("ab") as log:
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "ANABRANCH_HOME": str(folder / "home"), **environment},
            start_new_session=True,
        )


@pytest.mark.parametrize(
    ("strong", "weak", "case", "phases"),
    [
        pytest.param(KEYED, None, "r4", ["manifest written"], id="quick"),
        pytest.param(KEYED, None, "r4", PHASES, id="r3 to r4", marks=pytest.mark.faults),
        pytest.param(IN_ORDER, None, "r4", PHASES, id="r2 to r4", marks=pytest.mark.faults),
        pytest.param(IN_ORDER, KEYED, "r3", PHASES, id="r2 to r3", marks=pytest.mark.faults),
    ],
)
def test_a_merge_goes_over_to_a_weaker_case_once_though_it_is_killed(
    engine: Engine,
    tmp_path: Path,
    strong: LogProperties,
    weak: LogProperties | None,
    case: str,
    phases: list[str],
) -> None:
    said, merged = tmp_path / "said", tmp_path / "merged"
    HISTORY.tell(tmp_path / "copies" / "strong", strong, range(3))
    first = merge_logs(engine, tmp_path / "copies", merged, detach_after=None)
    first.drain()
    first.stop()
    began = len(LogFolder(str(merged)).entries())
    # The next batch brings the first elements of a copy that promises less.
    HISTORY.tell(tmp_path / "copies" / "weak", weak, range(5))
    for number, phase in enumerate(phases):
        halted = tmp_path / f"halted-{number}"
        process = follow(tmp_path, **{HALT: f"{phase}@any={halted}"})
        wait_for(process, halted.exists, said)
        kill(process)
        is_done = phase == "committed"
        assert len(LogFolder(str(merged)).entries()) == began + is_done, phase
    # The other copy is gone for good.
    HISTORY.tell(tmp_path / "copies" / "weak", weak, range(5, 6))
    process = follow(tmp_path)
    try:
        wait_for(process, lambda: LogFolder(str(merged)).stable() == HISTORY.instant(5), said)
    finally:
        kill(process)
    _, shards = view_state(str(merged))
    says = f"merged by {case} since a copy has joined that promises less"
    assert {shard.operators[-1] for shard in shards} == {says}
    HISTORY.assert_merged(merged, 6)
