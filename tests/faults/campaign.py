"""Queries under fire: `python -m tests.faults.campaign --minutes 30 [--cluster]`.

Scenario after scenario is run, disturbed, taken up again until it ends, and compared with what it
means. A line of JSON says what happened in each; the last one counts faults, recoveries, losses,
and how many batches ran in the driver and how many in tasks.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import numpy as np

from anabranch import Engine
from anabranch.migrate.change import meant_at_all_times, with_columns_of
from anabranch.model.time import Time
from anabranch.runtime.revisions.handing_in import hand_in
from anabranch.runtime.revisions.submissions import SubmissionFolder
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord
from anabranch.runtime.store.query_record import read_query_record
from tests.faults.place import Place, new_place
from tests.faults.processes import (
    PATIENCE,
    clock_library,
    cluster,
    executors,
    kill_all,
    kill_one,
    ran_in,
    said_by,
    start,
    turn_clock,
    workers,
)
from tests.faults.scenario import Scenario

_DAMAGED: Final = ("checkpoint/state/*/*/*.arrow", "checkpoint/state/*/*/*.json")
_DAMAGED_PLANS: Final = ("checkpoint/planned/*.json", "checkpoint/query.json")


@final
class TroubleError(Exception):
    """What must not happen: a wrong answer, or an error that does not say what to do."""


class Attempt:
    """One scenario in a folder, run again and again until it ends."""

    def __init__(self, place: Place, scenario: Scenario, master: str | None) -> None:
        self.place = place
        self.folder = place.path / "work"
        self.master = master
        self.random = np.random.default_rng(scenario.seed + 4)
        self.process: subprocess.Popen[bytes] | None = None
        self.scenario = scenario
        self.corrected = 0
        scenario.write(self.folder)

    def said(self, most: int | None = 3000) -> str:
        """The last words of the process, or all of them."""
        text = said_by(self.folder).read_text(errors="replace")
        return text if most is None else text[-most:]

    def start(self) -> subprocess.Popen[bytes]:
        """Run the query."""
        self.process = start(self.folder, self.master)
        return self.process

    def ends(self, expected: tuple[int, ...] = (0,)) -> int:
        """Wait for the end."""
        assert self.process is not None
        code = self.process.wait(PATIENCE)
        if code not in expected:
            raise TroubleError(f"ended with {code}: {self.said()}")
        return code

    def batches(self) -> int:
        """How many batches Spark has seen to the end."""
        commits = self.folder / "checkpoint" / "spark" / "commits"
        return sum(file.name.isdigit() for file in commits.glob("*"))

    def ran(self) -> Counter[str]:
        """How many batches ran in the driver, and how many in tasks, as far as that was noted."""
        file = ran_in(self.folder)
        return Counter(file.read_text().splitlines() if file.exists() else ())

    def runs_for_a_while(self) -> bool:
        """Wait for some batches and a moment more; whether it still runs."""
        assert self.process is not None
        goal = self.batches() + int(self.random.integers(1, 4))
        deadline = time.monotonic() + PATIENCE
        while self.batches() < goal and self.process.poll() is None:
            if time.monotonic() > deadline:
                raise TroubleError(f"makes no progress: {self.said()}")
            time.sleep(0.01)
        time.sleep(float(self.random.uniform(0.0, 0.3)))
        return self.process.poll() is None

    def correct(self) -> None:
        """Hand in corrections, which the query may be taking up when it is harmed."""
        checkpoint = self.folder / "checkpoint"
        if not self.scenario.revised or not (checkpoint / "revisions" / "sources.json").exists():
            return
        if not self.reads_corrected() or self.batches() == 0:
            return
        lines = self.scenario.corrections(self.corrected)
        found = hand_in(str(checkpoint), "a", lines)
        if found.quarantined:
            raise TroubleError(f"corrections are in quarantine: {found.quarantined}")
        self.corrected += 1

    def reads_corrected(self) -> bool:
        """Whether the queries read the source that is corrected."""
        queries = self.scenario.queries(Engine(), self.folder)
        return any("a" in query.sources for query in queries)

    def takes_the_rest(self) -> None:
        """Start again as long as corrections wait for a batch."""
        for _ in range(2):
            waits = SubmissionFolder(str(self.folder / "checkpoint" / "revisions")).read()
            if any(each.waits for each in waits):
                self.start()
                self.ends()

    def change(self) -> MigrationRecord | None:
        """The change of its queries that was made while they ran, if one was."""
        home = str(self.folder / "checkpoint")
        stored = read_query_record(home)
        if stored is None or stored.in_force is None:
            return None
        return MigrationFolder.of(home).read(stored.in_force.migration)

    def choose(self, some: list[Any]) -> Any:
        """One of them."""
        return some[int(self.random.integers(len(some)))]


Fault: TypeAlias = Callable[[Attempt], bool]
"""Does harm to a query that runs; whether there was something to harm."""


def _driver(attempt: Attempt) -> bool:
    assert attempt.process is not None
    kill_all(attempt.process)
    attempt.start()
    return True


def _worker(attempt: Attempt) -> bool:
    return kill_one(workers(), attempt.choose)


def _executor(attempt: Attempt) -> bool:
    return kill_one(executors(), attempt.choose)


def _clock(attempt: Attempt) -> bool:
    if clock_library() is None:
        return False
    turn_clock(attempt.folder, int(attempt.random.integers(-86_400, 86_400)))
    return True


def _disk(harm: Callable[[Place], None]) -> Fault:
    """The disk refuses; the query fails with a reason, or is killed, and goes on afterwards."""

    def fault(attempt: Attempt) -> bool:
        assert attempt.process is not None
        if not attempt.place.mounted:
            return False
        before = len(attempt.said(most=None))
        harm(attempt.place)
        code = attempt.process.wait(PATIENCE)
        attempt.place.release()
        said = attempt.said(most=None)[before:]
        clear = "Error: " in said and "hint: " in said and "looks like a bug" not in said
        if code and not clear:
            raise TroubleError(f"a disk that refuses is not said: {said}")
        attempt.start()
        # Who was done before it had to write has not been harmed.
        return code != 0

    return fault


def _damage(patterns: tuple[str, ...], spoil: Callable[[bytes, Attempt], bytes]) -> Fault:
    """A file of the checkpoint is spoilt. Either nobody needs it, or the error names it."""

    def fault(attempt: Attempt) -> bool:
        assert attempt.process is not None
        kill_all(attempt.process)
        files = sorted(f for pattern in patterns for f in attempt.folder.glob(pattern))
        files = [file for file in files if file.stat().st_size]
        if not files:
            attempt.start()
            return False
        whole = attempt.folder.with_name("whole")
        shutil.copytree(attempt.folder, whole, symlinks=True)
        file = attempt.choose(files)
        file.write_bytes(spoil(file.read_bytes(), attempt))
        attempt.start()
        if attempt.ends(expected=(0, 2)) == 2:
            said = attempt.said()
            if "checkpoint" not in said or "hint:" not in said:
                raise TroubleError(f"{file.name} is spoilt, and that is not said: {said}")
            # The data were really destroyed: a copy is what helps.
            shutil.rmtree(attempt.folder)
            whole.rename(attempt.folder)
            attempt.start()
        else:
            shutil.rmtree(whole)
        return True

    return fault


def _truncated(data: bytes, attempt: Attempt) -> bytes:
    return data[: int(attempt.random.integers(len(data)))]


def _flipped(data: bytes, attempt: Attempt) -> bytes:
    place = int(attempt.random.integers(len(data)))
    other = data[place] ^ (1 << int(attempt.random.integers(8)))
    return data[:place] + bytes([other]) + data[place + 1 :]


FAULTS: Final[Mapping[str, Fault]] = {
    "driver killed": _driver,
    "worker killed": _worker,
    "clock turned": _clock,
    "disk full": _disk(Place.fill),
    "folders closed": _disk(Place.protect),
    "state truncated": _damage(_DAMAGED, _truncated),
    "state corrupted": _damage(_DAMAGED, _flipped),
    "plan corrupted": _damage(_DAMAGED_PLANS, _flipped),
}
ON_CLUSTER: Final[Mapping[str, Fault]] = {**FAULTS, "executor killed": _executor}


def run_scenario(
    seed: int, faults: Mapping[str, Fault], master: str | None, most: int = 4
) -> dict[str, Any]:
    """One scenario with a few faults; what was done to it, and how it ended.

    Raises:
        TroubleError: It did not survive.
    """
    scenario = Scenario.drawn(seed)
    done: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    with new_place() as place:
        attempt = Attempt(place, scenario, master)
        attempt.start()
        try:
            for _ in range(most):
                if not attempt.runs_for_a_while():
                    break
                attempt.correct()
                name = attempt.choose(list(faults))
                (done if faults[name](attempt) else failed)[name] += 1
            attempt.ends()
            attempt.takes_the_rest()
        finally:
            if attempt.process is not None:
                kill_all(attempt.process)
        ran = attempt.ran()
        queries, change = scenario.queries(Engine(), attempt.folder), attempt.change()
        others = scenario.queries(Engine(), attempt.folder, changed=True)
        for number, (query, other) in enumerate(zip(queries, others, strict=True)):
            found = scenario.result(attempt.folder, number, query.schema)
            node = query.node
            if change is not None and change.at is not None:
                new = with_columns_of(other.node, node, where="campaign")
                node = meant_at_all_times(node, new, Time(change.at))
            wrong = found.difference(scenario.answer(node, attempt.corrected))
            if wrong:
                raise TroubleError(
                    f"the answer is wrong after {dict(done)}, change {change}:\n{wrong}"
                )
    return {
        "seed": seed,
        "query": scenario.shape,
        "queries": len(queries),
        "output": scenario.output,
        "revised": scenario.revised,
        "corrections": attempt.corrected,
        "changed": "" if change is None else change.how,
        "plain_jobs": scenario.plain_jobs and master is None,
        "ran": dict(sorted(ran.items())),
        "faults": dict(done),
        "nothing_to_harm": dict(failed),
        "recovered": True,
    }


def campaign(
    first: int, *, seconds: float, on_cluster: bool = False, scenarios: int | None = None
) -> Iterator[dict[str, Any]]:
    """Scenario after scenario, until the time is over; the last one is the sum."""
    faults = ON_CLUSTER if on_cluster else FAULTS
    total: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    corrections, changes, ran, plain = 0, Counter[str](), Counter[str](), 0
    began, seed, losses = time.monotonic(), first, 0
    folder = tempfile.TemporaryDirectory(prefix="anabranch-cluster-")
    with folder as name, cluster(Path(name)) if on_cluster else nullcontext() as master:
        while time.monotonic() - began < seconds and seed - first != scenarios:
            try:
                line = run_scenario(seed, faults, master)
                total.update(line["faults"])
                failed.update(line["nothing_to_harm"])
                ran.update(line["ran"])
                plain += line["plain_jobs"]
                corrections += line["corrections"]
                changes.update([line["changed"]] if line["changed"] else [])
            except TroubleError as trouble:
                losses += 1
                line = {"seed": seed, "recovered": False, "trouble": str(trouble)}
            yield line
            seed += 1
    yield {
        "scenarios": seed - first,
        "faults": total.total(),
        "kinds": dict(sorted(total.items())),
        "nothing_to_harm": dict(sorted(failed.items())),
        "corrections": corrections,
        "changes": dict(sorted(changes.items())),
        "ran": dict(sorted(ran.items())),
        "with_plain_jobs": plain,
        "recoveries": seed - first - losses,
        "losses": losses,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }


def main() -> int:
    """The command; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cluster", action="store_true", help="two workers of a real cluster")
    options = parser.parse_args()
    line: dict[str, Any] = {}
    for line in campaign(options.seed, seconds=options.minutes * 60, on_cluster=options.cluster):
        sys.stdout.write(f"{json.dumps(line)}\n")
        sys.stdout.flush()
    return 1 if line["losses"] else 0


if __name__ == "__main__":
    sys.exit(main())
