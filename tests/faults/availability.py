"""Kill copies of a query, and what merges them, again and again.

`python -m tests.faults.availability --faults 50 --seed 1`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import final

from anabranch import Engine, LogicalStream, Replication, replicate
from anabranch.model.files.stream_file import read_batches
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.testing.physical import PhysicalState, elements_of, stable, violations

DELAY = 30
STEP = 10
SCRIPT = f"""
CREATE STREAM rows (k INT, v INT, ts INT) SOURCE '{{folder}}/rows/*.jsonl'
  ORDERED BY ts DELAY {DELAY};
SELECT k, COUNT(*) AS n, SUM(v) AS total
FROM rows WINDOW(RANGE 100 SLIDE 50) GROUP BY k
"""
PATIENCE = 600.0


@final
@dataclass(slots=True)
class Feed:
    """Writes rows, a file at a time, until it is told to stop."""

    folder: Path
    seed: int
    pause: float
    last: int = 0
    files: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Every file is a step further in time; its rows come out of order."""
        dice = random.Random(self.seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        while not self.over.wait(self.pause):
            begin = self.files * STEP
            rows = [
                {"k": dice.randrange(5), "v": dice.randrange(100), "ts": begin + dice.randrange(30)}
                for _ in range(20)
            ]
            self.last = max(self.last, *(row["ts"] for row in rows))
            target = self.folder / f"{self.files:06}.jsonl"
            hidden = self.folder / f".{target.name}"
            hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
            hidden.replace(target)
            self.files += 1


@contextmanager
def feeding(feed: Feed) -> Iterator[threading.Thread]:
    """Rows come while the block lasts."""
    thread = threading.Thread(target=feed.run, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        feed.over.set()
        thread.join()


def main() -> int:
    """Kill, look on, compare; say what was found as one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trigger", type=float, default=5.0)
    words = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="anabranch-availability-"))
    script = root / "query.sql"
    script.write_text(SCRIPT.format(folder=root))
    feed = Feed(root / "rows", words.seed, pause=0.5)
    replicas = replicate(
        script, root / "all", copies=3, trigger=f"{words.trigger} seconds", tell=_say
    )
    dice = random.Random(words.seed)
    killed: list[tuple[str, float]] = []
    began = time.time()
    with feeding(feed), replicas:
        _await("the first output", lambda: len(_commits(replicas)) > 3)
        _say(f"output after {time.time() - began:.0f} s")
        while len(killed) < words.faults:
            time.sleep(dice.uniform(1, 4))
            victim = _victim(replicas, dice)
            if victim is None:
                continue
            process = replicas.members[victim].process
            if process is None:
                continue
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            killed.append((victim, time.time()))
            _say(f"fault {len(killed)}: {victim} killed; {_where(replicas, feed)}")
        feed.over.set()
        _await("all rows to be merged", lambda: replicas.stable >= feed.last - DELAY)
    return _report(root, replicas, killed, words.trigger)


def _victim(replicas: Replication, dice: random.Random) -> str | None:
    """Who is killed next: anybody who has written since it started, but not the last such copy."""
    working = [
        name
        for name, member in replicas.members.items()
        if member.is_running and _age(member.output) < time.monotonic() - member.since
    ]
    copies = [name for name in working if name != "merge"]
    choice = [name for name in working if len(copies) > 1]
    return dice.choice(sorted(choice)) if choice else None


def _age(log: Path) -> float:
    """The seconds since a log was last written to."""
    times = [file.stat().st_mtime for file in (log / "_log").glob("[0-9]*.json")]
    return time.time() - max(times, default=0.0)


def _commits(replicas: Replication) -> list[float]:
    """When the merged stream got something."""
    entries = (replicas.folder / "merged" / "_log").glob("[0-9]*.json")
    return sorted(entry.stat().st_mtime for entry in entries)


def _where(replicas: Replication, feed: Feed) -> str:
    said = [
        f"{each['name']} {each['stable'] if each['stable'] > 0 else '-'}"
        for each in replicas.status()
    ]
    return f"fed to {feed.last}, {', '.join(said)}"


def _await(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited too long for {what}")
        time.sleep(0.2)


def _gaps(commits: list[float], killed: list[tuple[str, float]]) -> list[float]:
    """How long there was no output after a copy died, where the merge itself lived."""
    merges = [at for name, at in killed if name == "merge"]
    found = []
    for name, at in killed:
        after = [commit for commit in commits if commit > at]
        before = [commit for commit in commits if commit <= at]
        if name == "merge" or not after or not before:
            continue
        # Between its own death and its next output the merge is not there.
        if not any(before[-1] < other < after[0] for other in merges):
            found.append(after[0] - at)
    return found


def _report(
    root: Path, replicas: Replication, killed: list[tuple[str, float]], trigger: float
) -> int:
    commits = _commits(replicas)
    pauses = [later - earlier for earlier, later in pairwise(commits)]
    usual = statistics.median(pauses)
    gaps = _gaps(commits, killed)
    wrong = _difference(root, replicas)
    found = {
        "faults": len(killed),
        "merge_killed": sum(name == "merge" for name, _ in killed),
        "starts": {name: member.starts for name, member in replicas.members.items()},
        "batches": len(commits),
        "stable": int(replicas.stable),
        "batch_interval": trigger,
        "usual_pause": round(usual, 2),
        "gaps_after_a_death": [round(gap, 2) for gap in gaps],
        "longest_gap": round(max(gaps, default=0.0), 2),
        "gaps_of_two_intervals": sum(gap >= 2 * trigger for gap in gaps),
        "equal": not wrong,
    }
    sys.stdout.write(json.dumps(found) + "\n")
    if wrong:
        _say(wrong)
    return 1 if wrong else 0


def _difference(root: Path, replicas: Replication) -> str:
    """Where the merged stream is not legal, or not what the query means."""
    log = LogFolder(str(replicas.folder / "merged"))
    batches = list(log.read())
    state = PhysicalState.empty()
    for batch in batches:
        illegal = next(violations([*elements_of(batch), stable(batch.stable)], state), None)
        if illegal is not None:
            return f"an illegal element left: {illegal}"
    engine = Engine()
    engine.sql(SCRIPT.format(folder=root)).run_local(to=root / "right.jsonl")
    right = LogicalStream.of_batches(list(read_batches(root / "right.jsonl")))
    return LogicalStream.of_batches(batches).difference(right, log.stable())


def _say(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
