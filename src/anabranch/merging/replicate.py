"""High availability: copies of a query in processes of their own, and one that merges them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, final

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import COMPARED, MergePolicy, refuse_case
from anabranch.display.option_hints import explained
from anabranch.errors import PlanError
from anabranch.merging.logs import DETACH_AFTER, MERGE_OPTIONS
from anabranch.model.clock import MICROSECONDS
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.option import DURATION, Option, count, table_of
from anabranch.runtime.query.options import REOPTIMIZE_FLAG, RUN_OPTIONS, PlanChoice
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.windowed import Span

MERGED: Final = "merged"
COPIES: Final = "copies"
WORK: Final = "work"

_LOOK: Final = 0.1
_SOON: Final = 10.0
"""A process that lives for less than so many seconds is given some time before the next one."""

_LONGEST: Final = 30.0
_GIVES_WAY: Final = 60.0
"""So many seconds a process that comes back gives way, or on a busy machine it never would."""

_NICE: Final = 10
_NICEST: Final = 19
_GRACE: Final = 90.0
"""Seconds that processes have to end by themselves."""

Tell = Callable[[str], None]

REPLICATE_OPTIONS: Final = table_of(
    Option(name="copies", kind=count(1, 1000), default=3, nullable=False),
    Option(name="trigger", kind=DURATION),
    Option(name="lag", kind=DURATION),
    MERGE_OPTIONS["detach_after"],
    MERGE_OPTIONS["feedback"],
    REOPTIMIZE_FLAG,
)


@final
@dataclass(slots=True, eq=False)
class Member:
    """A process that is started again whenever it dies.

    Attributes:
        name: What people call it.
        words: The command.
        log: The file with what it says.
        output: The log folder that it writes.
        process: The process of the moment.
        since: When that was started.
        pause: How long the next one waits.
        starts: How many there have been.
        code: How the last one ended.
        goes_first: Whether it need not give way to the others when it comes back.
        behind: How far its output was when it came back, until it has written again.
    """

    name: str
    words: Sequence[str]
    log: Path
    output: Path
    process: subprocess.Popen[bytes] | None = None
    since: float = 0.0
    pause: float = 0.0
    starts: int = 0
    code: int | None = None
    goes_first: bool = False
    behind: Time | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self.process is not None and self.process.poll() is None

    @property
    def has_ended(self) -> bool:
        """Whether it has done all there was to do."""
        return self.code == 0 and self.process is None

    @property
    def reached(self) -> Time:
        """How far its output is settled."""
        return LogFolder(str(self.output)).stable()

    def start(self, environment: Mapping[str, str] | None) -> None:
        """Start a process."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=None if environment is None else dict(environment),
            )
        # A copy that comes back gives way to those that live, or they would all stand still.
        if self.starts and not self.goes_first:
            self.behind = self.reached
            _give_way(self.process.pid, _NICE)
        self.since = time.monotonic()
        self.starts += 1

    def look(self, environment: Mapping[str, str] | None, tell: Tell) -> None:
        """Start it again if it has died, unless it was done."""
        if self.process is None:
            if not self.has_ended and time.monotonic() >= self.since + self.pause:
                self.start(environment)
            return
        code = self.process.poll()
        if code is None:
            waited = time.monotonic() - self.since > _GIVES_WAY
            if self.behind is not None and (waited or self.reached > self.behind):
                self.behind = None
                _give_way(self.process.pid, 0)
            return
        lived = time.monotonic() - self.since
        _close_input(self.process)
        self.process, self.code = None, code
        if code == 0:
            tell(f"{self.name} has ended")
            return
        self.pause = min(_LONGEST, max(1.0, self.pause * 2)) if lived < _SOON else 0.0
        self.since = time.monotonic()
        tell(f"{self.name} has died ({_ending(code)}) after {lived:.0f} s and is restarted")


def _give_way(group: int, by: int) -> None:
    """Let a process and its children run after this one; or as it does, where the system lets us.

    On Linux every thread has a priority of its own; and time may be shared out among sessions first
    (autogroup), of which each process here has one.
    """
    niceness = min(os.getpriority(os.PRIO_PROCESS, 0) + by, _NICEST)
    with suppress(OSError):
        os.setpriority(os.PRIO_PGRP, group, niceness)
    with suppress(OSError):
        Path(f"/proc/{group}/autogroup").write_text(str(by))
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        # Threads come and go, and only some users may take back what they gave.
        with suppress(OSError):
            if os.getpgid(int(task.parts[2])) == group:
                os.setpriority(os.PRIO_PROCESS, int(task.name), niceness)


def _close_input(process: subprocess.Popen[bytes]) -> None:
    """Nothing is ever written to it: that it is open says that this process lives."""
    if process.stdin is not None:
        process.stdin.close()


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}, see its log"


@final
@dataclass(slots=True, eq=False)
class Replication:
    """Copies of a query, and the merge of what they write; a context manager that stops them all.

    Everything is in one folder: `merged` is the log folder of the merged stream, `copies/<name>`
    are those of the copies, `work` has checkpoints and what the processes say.

    Attributes:
        folder: The folder.
        members: The processes by name; `merge` is the one that merges.
        tell: Is told what happens.
        environment: For the processes; None: that of this one.
    """

    folder: Path
    members: dict[str, Member]
    tell: Tell = field(default=lambda _: None)
    environment: Mapping[str, str] | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _watch: threading.Thread | None = None

    @property
    def merged(self) -> LogFolder:
        """What all of them have in common: the log folder that others read."""
        return LogFolder(str(self.folder / MERGED))

    @property
    def stable(self) -> Time:
        """How far the merged stream is settled."""
        return self.merged.stable()

    def start(self) -> Replication:
        """Start the processes, and one thread that watches over them."""
        for member in self.members.values():
            member.start(self.environment)
        self._watch = threading.Thread(target=self._look, name="anabranch-replicas", daemon=True)
        self._watch.start()
        return self

    def status(self) -> list[dict[str, Any]]:
        """What each process is doing, as plain values."""
        return [
            {
                "name": each.name,
                "running": each.is_running,
                "pid": each.process.pid if each.process is not None else None,
                "starts": each.starts,
                "stable": int(each.reached),
            }
            for each in self.members.values()
        ]

    @property
    def has_ended(self) -> bool:
        """Whether all is settled for ever: the sources have ended, and so has what they lead to."""
        return self.members["merge"].has_ended or self.stable == FOREVER

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the merged stream has come to its end; whether it has.

        That is so when the sources of the copies end: `WITH (ends = TRUE)`, or stream files that
        end with a stable point at the end of time. Otherwise copies wait for more input.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.has_ended:
            if deadline is not None and time.monotonic() > deadline:
                return False
            if self._over.wait(_LOOK):
                return False
        return True

    def stop(self) -> None:
        """Ask all processes to end after their batch, and wait for that."""
        self._over.set()
        if self._watch is not None:
            self._watch.join()
        running = [each.process for each in self.members.values() if each.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + _GRACE
        while any(process.poll() is None for process in running) and time.monotonic() < deadline:
            time.sleep(_LOOK)
        for process in running:
            process.kill()
            process.wait()
            _close_input(process)

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            for member in self.members.values():
                member.look(self.environment, self.tell)

    def __enter__(self) -> Replication:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _text(span: Any) -> str:
    """A duration as a word of the command line; a number counts chronons, whatever they are."""
    if isinstance(span, str | int):
        return str(span)
    return f"{MICROSECONDS.duration(span)} us"


@explained("ab.replicate")
def replicate(
    scripts: str | Path | Sequence[str | Path],
    to: str | Path,
    *,
    copies: int = 3,
    trigger: str | None = None,
    case: Case | None = None,
    inserts: str = "first",
    adjusts: str = "lazy",
    lag: Span | None = None,
    divergence: str = "warn",
    compare: int | str = COMPARED,
    feedback: bool = False,
    detach_after: Span | None = DETACH_AFTER,
    merge: Sequence[str] = (),
    modules: Sequence[str | Path] = (),
    plan: PlanChoice = "optimized",
    reoptimize: Literal["off", "auto"] = "off",
    tell: Tell = lambda _: None,
    environment: Mapping[str, str] | None = None,
) -> Replication:
    """Run copies of a query, each in a process of its own, and merge what they write.

    The merged stream is right as long as one copy lives, and is as early as the one that is ahead.
    A process that dies is started again and goes on from its checkpoint.

    Args:
        scripts: A script, run in several copies; or several, that mean the same by different
            plans, each run once.
        to: The folder for everything; the merged stream is the log folder `merged` in it.
        copies: How many copies of a single script.
        trigger: The time between two batches.
        case: What is taken for granted of every copy, as for `Stream.merge`, like the next five.
        inserts: When an event leaves.
        adjusts: When a changed end leaves.
        lag: How far the merged stream stays behind.
        divergence: What becomes of a copy that contradicts what is settled.
        compare: How many settled events are kept for a comparison with copies that are behind.
        feedback: Let copies that are behind skip what is settled already, as for `merge_logs`.
        detach_after: Detach a copy that has stood still for so long, as for `merge_logs`.
        merge: More words for `anabranch merge`.
        modules: Python files with aggregates, operators and functions that the scripts call.
        plan: `as-written` switches the optimizer off in every copy, as for `Stream.start`.
        reoptimize: `auto`: copies change their plans by themselves while they run, as for `Engine`.
        tell: Is told what happens, a line at a time.
        environment: For the processes; None: that of this one.

    Returns:
        What is to be started: `with replicate(...) as replicas: ...`.

    Raises:
        PlanError: There is nothing to run.
    """
    REPLICATE_OPTIONS["copies"].checked(copies, where="replicate(...)")
    REPLICATE_OPTIONS["trigger"].checked(trigger, where="replicate(...)")
    RUN_OPTIONS["plan"].checked(plan, where="replicate(...)")
    REPLICATE_OPTIONS["reoptimize"].checked(reoptimize, where="replicate(...)")
    for name, value in (("lag", lag), ("detach_after", detach_after), ("feedback", feedback)):
        REPLICATE_OPTIONS[name].checked(value, where="replicate(...)")
    # A wrong word would end every process that is started with it, again and again.
    policy = MergePolicy.of(
        inserts=inserts, adjusts=adjusts, divergence=divergence, compare=compare
    )
    refuse_case(case, policy)
    given = [scripts] if isinstance(scripts, str | Path) else list(scripts)
    if not given:
        raise PlanError("there is nothing to run", where="replicate", hint="name a script")
    for kind, files in (("script", given), ("file with modules", modules)):
        missing = [each for each in files if not Path(each).is_file()]
        if missing:
            raise PlanError(
                f"there is no {kind} '{missing[0]}'", where="replicate", hint="check the path"
            )
    paths = given * copies if len(given) == 1 else given
    folder = Path(to).absolute()
    work = folder / WORK
    work.mkdir(parents=True, exist_ok=True)
    often = [] if trigger is None else ["--trigger", _text(trigger)]
    members: dict[str, Member] = {}
    for number, path in enumerate(paths, 1):
        name = f"{Path(path).stem}-{number}"
        output = folder / COPIES / name
        words = ["run", str(path), "--canonical", "--follow", *often, "--to", str(output)]
        words += ["--checkpoint", str(work / f"{name}.checkpoint"), "--plan", plan]
        # A plan as it was written is the only one.
        words += ["--reoptimize", "auto"] if reoptimize == "auto" and plan == "optimized" else []
        for file in modules:
            words += ["--modules", str(Path(file).absolute())]
        members[name] = _member(name, words, work, output)
    output = folder / MERGED
    words = ["--inserts", inserts, "--adjusts", adjusts, "--divergence", divergence]
    words += [] if compare == COMPARED else ["--compare", str(compare)]
    words += [] if case is None else ["--case", case]
    words += [] if lag is None else ["--lag", _text(lag)]
    words += ["--feedback"] if feedback else []
    words += ["--detach-after", "never" if detach_after is None else _text(detach_after)]
    words = [str(folder / COPIES / "*"), "--follow", *often, *words, *merge, "--to", str(output)]
    words = ["merge", *words]
    words += ["--checkpoint", str(work / "merge.checkpoint")]
    words += ["--metrics", str(work / "merge.metrics.jsonl")]
    members["merge"] = _member("merge", words, work, output)
    members["merge"].goes_first = True
    return Replication(folder, members, tell, environment)


def _member(name: str, words: Sequence[str], work: Path, output: Path) -> Member:
    command = [sys.executable, "-m", "anabranch", "--until-input-ends", *words]
    return Member(name, command, work / f"{name}.log", output)
