"""Where the demo's replicas live: who is given what when, and what happens to them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from anabranch.bench.demo.answer import query_plan, settled
from anabranch.bench.demo.feeds import PARTS, ReplicaFeed, write_opening
from anabranch.bench.demo.process import DemoProcess
from anabranch.bench.demo.replica import (
    COPIES,
    FEEDS,
    MERGED,
    METRICS,
    WORK,
    merge_command,
    replica_command,
    replica_name,
)
from anabranch.errors import EngineError
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.sources.files.log_folder import LogFolder

BEHIND: Final[Mapping[int, int]] = {1: 0, 2: 3, 3: 1, 4: 0}
"""So many files is the feed of each replica behind the one that is up to date."""

KILLED: Final = 4
JOINS: Final = 7
CAUGHT: Final = 9
CARRIES_ON: Final = 10
"""With which file replica 1 is killed, replica 4 joins, replica 2 must have been caught, and
replica 4 must have overtaken the others."""

PATIENCE: Final = 300.0
_LOOK: Final = 0.05


@final
@dataclass(slots=True)
class DemoStage:
    """The processes, what was delivered to whom, and when what happened.

    Attributes:
        folder: Everything is in there.
        feeds: What each replica is given.
        tell: Is told what happens, a line at a time.
        zero: When the first bids were delivered, on the clock.
        began: When the first bids were delivered to each replica, in seconds since then.
        killed: When replica 1 was killed, in seconds.
        over: When the answer was complete, in seconds.
    """

    folder: Path
    feeds: Mapping[int, ReplicaFeed]
    tell: Callable[[str], None]
    zero: float = 0.0
    began: dict[int, float] = field(default_factory=dict)
    killed: float = 0.0
    over: float = 0.0
    _waiting: dict[int, list[Path]] = field(default_factory=dict)
    _players: list[DemoProcess] = field(default_factory=list)

    @property
    def merged(self) -> LogFolder:
        """What came out."""
        return LogFolder(str(self.folder / MERGED))

    def log(self, number: int) -> LogFolder:
        """What a replica wrote."""
        return LogFolder(str(self.folder / COPIES / replica_name(number)))

    @property
    def reports(self) -> list[list[dict[str, Any]]]:
        """What the merge noticed in each of its batches, shard by shard."""
        path = self.folder / METRICS
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else [""]
        # The last line may be half written.
        batches = {each["batch"]: each for each in map(json.loads, lines[:-1])}
        stages = [next(iter(each["stages"].values())) for _, each in sorted(batches.items())]
        return [stage["reports"] for stage in stages]

    @property
    def is_caught(self) -> bool:
        """Whether the merge has noticed a contradiction."""
        return any(report["divergent"] for batch in self.reports for report in batch)

    def play(self) -> None:
        """Deliver file by file; the merge sets the pace, so it works on machines of any speed.

        Replica 2 is far enough behind that its answers never lead.

        Raises:
            EngineError: A process has failed, or nothing goes on.
        """
        for number, feed in self.feeds.items():
            self._waiting[number] = feed.write(self.folder / "spool" / replica_name(number))
        with ExitStack() as stack:

            def start(name: str, words: list[str]) -> DemoProcess:
                log, home = self.folder / f"{name}.log", self.folder / "home"
                player = DemoProcess("anabranch", words, log, home=home)
                self._players.append(stack.enter_context(player))
                return player

            for number in (1, 2, 3):
                self._deliver(number, -1)
            one, *_ = [
                start(replica_name(number), replica_command(number, self.folder))
                for number in (1, 2, 3)
            ]
            start(MERGED, merge_command(self.folder))
            names = [*(replica_name(number) for number in (1, 2, 3)), MERGED]
            self._await("Spark", lambda: all(self._is_started(name) for name in names))
            self.zero = time.time()
            for index in range(PARTS):
                if index == JOINS:
                    self._deliver(4, -1)
                    start(replica_name(4), replica_command(4, self.folder))
                for number, behind in BEHIND.items():
                    if number != 4 or index >= JOINS:
                        self._deliver(number, max(0, index - behind))
                if index == KILLED:
                    self._kill(one)
                pace = 1 if index < KILLED else 3 if index < CARRIES_ON else 4
                self._await_answer(pace, max(0, index - BEHIND[pace]))
                if index == CAUGHT:
                    self._await("replica-2 to be caught", lambda: self.is_caught)
                if index % 4 == 3:
                    self.tell(f"file {index + 1} of {PARTS} is merged")
            self._await("the last file", lambda: self.merged.stable() == FOREVER)
            self.over = self._second()
            self._await("the last batch of the merge", lambda: self._is_complete)

    def _second(self) -> float:
        return round(time.time() - self.zero, 3)

    def _is_started(self, name: str) -> bool:
        """Whether the query of a command runs on Spark."""
        return (self.folder / WORK / name / "spark" / "metadata").exists()

    @property
    def _is_complete(self) -> bool:
        """Whether the merge has told of the batch that settles everything."""
        return any(report["stable"] == FOREVER for batch in self.reports for report in batch)

    def _deliver(self, number: int, index: int) -> None:
        """Bring the files up to that place to a replica; -1: only what it begins with."""
        target = self.folder / FEEDS / replica_name(number)
        target.mkdir(parents=True, exist_ok=True)
        write_opening(target)
        if index >= 0:
            self.began.setdefault(number, self._second())
        for path in self._waiting[number][: index + 1]:
            if path.exists():
                path.rename(target / path.name)

    def _kill(self, player: DemoProcess) -> None:
        """Kill the process of replica 1 in the middle of a batch."""
        planned = self.folder / WORK / replica_name(1) / "planned"
        # Plans are counted from 1 on.
        following = len(self.log(1).entries()) + 1
        self._await("a batch of replica-1", lambda: (planned / f"{following}.json").exists())
        player.kill()
        self._players.remove(player)
        self.killed = self._second()

    def _await_answer(self, number: int, index: int) -> None:
        """Wait until all that a replica can say after a file has been merged."""
        goal = settled(query_plan(), Time(self.feeds[number].ends[index]))
        self._await(f"the answer to file {index + 1}", lambda: self.merged.stable() >= goal)

    def _await(self, what: str, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_there():
            for player in self._players:
                player.check()
            if time.monotonic() > deadline:
                raise EngineError(
                    f"the demo waited {PATIENCE:.0f} seconds for {what}",
                    where=str(self.folder),
                    hint="run it again when the machine is less busy, or report this",
                )
            time.sleep(_LOOK)
