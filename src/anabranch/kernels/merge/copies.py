"""The inputs of a merge: who is there, how far each has come, and who leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.merge_case import CASES, Case
from anabranch.kernels.contract.column_names import ID
from anabranch.kernels.contract.command import WEAKEN, Command
from anabranch.kernels.contract.kernel import Progress, SortedRun
from anabranch.model.time import BEGINNING, FOREVER, Time

Status = Literal["joining", "joined", "left", "quarantined"]

NONE: Final = -1
"""The number of no input."""

_LIVES: Final = 1 << 20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InputState:
    """One input.

    Attributes:
        number: Its number among the inputs, for good.
        name: What people call it.
        status: It is `joining` until the output has reached the instant it vouches for; one that
            `left` or is `quarantined` is not listened to.
        stable: What it has promised.
        since: It vouches for events that end there or later.
        known: Events that ended before were forgotten when it came, or while it was behind: what
            it says of them cannot be compared.
        life: How often it was attached again: what it said in earlier lives does not count.
        last: The largest start of its inserts; only inputs in order have one.
        ties: How many inserts it had at that start, since it last went back.
        mark: A hash of the first of them.
        back: The start to which it has gone back, as after a restart, until it comes again to
            `last`; FOREVER: it has not.
        rows: How many elements it has sent.
        ignored: How many of them came when they did not matter any more.
        uncompared: How many of these were about events that were forgotten.
        diverged: How often it contradicted what is settled.
    """

    number: int
    name: str
    status: Status = "joined"
    stable: int = BEGINNING
    since: int = BEGINNING
    known: int = BEGINNING
    life: int = 0
    last: int = BEGINNING
    ties: int = 0
    mark: int = 0
    back: int = FOREVER
    rows: int = 0
    ignored: int = 0
    diverged: int = 0
    uncompared: int = 0

    @property
    def key(self) -> int:
        """The number under which what it says in this life is remembered."""
        return self.life * _LIVES + self.number

    @property
    def is_heard(self) -> bool:
        """Whether what it says counts."""
        return self.status in ("joining", "joined")

    def advanced(self, last: int, ties: int, mark: int, back: int) -> InputState:
        """The same, further in its order."""
        return replace(self, last=last, ties=ties, mark=mark, back=back)

    def report(self, output: Time) -> dict[str, Any]:
        """For people. The lag behind the output is None as long as nothing was promised."""
        lag = None if BEGINNING == self.stable < output else max(0, output - self.stable)
        return {
            "name": self.name,
            "status": self.status,
            "stable": self.stable,
            "lag": lag,
            "rows": self.rows,
            "ignored": self.ignored,
            "diverged": self.diverged,
            # Most merges never forget what somebody may still say something about.
            **({"uncompared": self.uncompared} if self.uncompared else {}),
        }


_COLUMNS: Final = {
    "number": pa.int64(),
    "name": pa.string(),
    "status": pa.string(),
    **{each.name: pa.int64() for each in fields(InputState)[3:]},
}


@final
@dataclass(frozen=True, slots=True)
class Copies:
    """All inputs that were ever there, and the number of the one that leads.

    Events that ended before `forgotten` are not remembered. Of the output's events that end at its
    stable point or later none starts before `reach`; BEGINNING: that is not known. `case` is that
    in force, where a copy has joined that promises less than the plan relies on.
    """

    each: tuple[InputState, ...] = ()
    leader: int = NONE
    forgotten: int = BEGINNING
    reach: int = BEGINNING
    case: Case | None = None

    @staticmethod
    def of(runs: Sequence[SortedRun]) -> Copies:
        """As they were stored."""
        runs = [run for run in runs if len(run)]
        if not runs:
            return Copies()
        found = runs[0].rows.to_pylist()
        names = [each.name for each in fields(InputState)]
        # Checkpoints of earlier versions lack some.
        copies = tuple(InputState(**{n: row[n] for n in names if n in row}) for row in found)
        first = found[0]
        reach = first.get("reach", int(BEGINNING))
        one = Copies(copies, first["leader"], first["forgotten"], reach, first.get("case"))
        return one if len(runs) == 1 else one._of_all(runs[1:])

    def _of_all(self, others: Sequence[SortedRun]) -> Copies:
        """What all shards have forgotten, of which this is one: each forgets for itself."""
        most = {each.number: each.known for each in self.each}
        forgotten = self.forgotten
        for run in others:
            for row in run.rows.to_pylist():
                most[row["number"]] = max(most.get(row["number"], BEGINNING), row["known"])
                forgotten = max(forgotten, row["forgotten"])
        each = tuple(replace(copy, known=most[copy.number]) for copy in self.each)
        return replace(self, each=each, forgotten=forgotten)

    def run(self) -> SortedRun:
        """As they are stored."""
        arrays = {
            ID: pa.array([each.number for each in self.each], pa.uint64()),
            **{
                name: pa.array([getattr(each, name) for each in self.each], kind)
                for name, kind in _COLUMNS.items()
            },
            "leader": pa.array([self.leader] * len(self.each), pa.int64()),
            "forgotten": pa.array([self.forgotten] * len(self.each), pa.int64()),
            "reach": pa.array([self.reach] * len(self.each), pa.int64()),
        }
        if self.case is not None:
            arrays["case"] = pa.array([self.case] * len(self.each), pa.string())
        return SortedRun(pa.RecordBatch.from_pydict(arrays))

    @property
    def heard(self) -> list[InputState]:
        """Those that count, in the order of their numbers."""
        return [each for each in self.each if each.is_heard]

    @property
    def are_over(self) -> bool:
        """Whether nobody has anything to say any more."""
        return bool(self.each) and all(each.stable == FOREVER for each in self.heard)

    def numbered(self, number: int) -> InputState:
        """The one with a number."""
        return next(each for each in self.each if each.number == number)

    def changed(self, number: int, **changes: Any) -> Copies:
        """The same, one of them changed."""
        return self.replaced(replace(self.numbered(number), **changes))

    def replaced(self, copy: InputState) -> Copies:
        """The same, with another state of one of them."""
        each = [copy if each.number == copy.number else each for each in self.each]
        return replace(self, each=tuple(each))

    def advanced(self, names: Sequence[str], progress: Progress, stable: Time) -> Copies:
        """Who is there now: newcomers, what everybody has promised, and what commands say.

        `names` are the sides, if sides are the inputs. `stable` is how far the output has come.
        """
        promised: Mapping[int, tuple[str, Time]] = progress.copies
        if names:
            pairs = zip(names, progress.sides, strict=True)
            promised = dict(enumerate(pairs))
        each = {copy.number: copy for copy in self.each}
        for number, (name, _) in promised.items():
            each.setdefault(number, InputState(number=number, name=name, known=self.forgotten))
        for command in progress.commands:
            meant = command.copy or command.source
            for copy in each.values():
                if copy.name == meant:
                    each[copy.number] = _obeyed(copy, command, self.forgotten)
        for number, (_, reached) in promised.items():
            copy = each[number]
            each[number] = replace(copy, stable=max(copy.stable, int(reached)))
        return replace(self, each=tuple(each.values())).joined(stable)

    def joined(self, stable: Time) -> Copies:
        """The same; those have joined that vouch for all that is to come."""
        each = [
            replace(copy, status="joined")
            if copy.status == "joining" and copy.since <= stable
            else copy
            for copy in self.each
        ]
        return replace(self, each=tuple(each))

    def weakened(self, chosen: Case, source: str, commands: Sequence[Command]) -> Copies:
        """The same by a weaker case, where a command for the source of the copies wants one."""
        before = CASES.index(self.case or chosen)
        wanted = [
            each.value
            for each in commands
            if each.verb == WEAKEN and each.source == source and each.value is not None
        ]
        weakest = max([before, *wanted])
        return self if weakest == before else replace(self, case=CASES[weakest])

    def counted(
        self,
        ignored: np.ndarray,
        diverged: np.ndarray,
        numbers: Sequence[int],
        until: np.ndarray | None = None,
    ) -> Copies:
        """The same with more late elements and contradictions, each given by its input's index.

        `until` says of late elements until when their event would matter.
        """
        late = np.bincount(ignored, minlength=len(numbers))
        wrong = np.bincount(diverged, minlength=len(numbers))
        copies = self
        for index, number in enumerate(numbers):
            if late[index] or wrong[index]:
                copy = self.numbered(number)
                unknown = 0 if until is None else int((until[ignored == index] < copy.known).sum())
                copies = copies.changed(
                    number,
                    ignored=copy.ignored + int(late[index]),
                    diverged=copy.diverged + int(wrong[index]),
                    uncompared=copy.uncompared + unknown,
                )
        return copies

    def forgetting(self, before: Time) -> Copies:
        """The same, where what ends before an instant is not remembered any more.

        Whoever has not settled it is not compared as far as that.
        """
        each = [
            replace(copy, known=max(copy.known, int(before))) if copy.stable < before else copy
            for copy in self.each
        ]
        return replace(self, each=tuple(each), forgotten=max(self.forgotten, int(before)))

    def columns(self, before: Copies) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By number: the index among those who are heard, if they are, and what was promised."""
        most = max((each.number for each in self.each), default=0) + 1
        column, heard = np.full(most, NONE, np.int64), np.zeros(most, np.bool_)
        promised = np.full(most, BEGINNING, np.int64)
        for index, each in enumerate(self.heard):
            column[each.number] = index
            heard[each.number] = True
        promised_before = {each.key: each.stable for each in before.each}
        for each in self.each:
            promised[each.number] = promised_before.get(each.key, BEGINNING)
        return column, heard, promised

    def led(self, stable: Time, lag: int) -> tuple[Copies, Time]:
        """The same with the input that leads now, and the stable point that makes possible.

        The leader stays as long as nobody is ahead of it.
        """
        able = [each for each in self.each if each.status == "joined"]
        if not able:
            return replace(self, leader=NONE), stable
        best = max(able, key=lambda c: (c.stable, c.number == self.leader, -c.number))
        reached = best.stable
        if lag and BEGINNING < reached < FOREVER:
            reached = max(reached - lag, int(BEGINNING))
        # Who joins on the way is heard before the rest of it.
        joining = [each.since for each in self.each if each.status == "joining"]
        reached = min([reached, *(since for since in joining if stable < since < reached)])
        return replace(self, leader=best.number), Time(max(stable, reached))


def _obeyed(copy: InputState, command: Command, forgotten: int) -> InputState:
    match command.verb:
        case "detach":
            return replace(copy, status="left")
        case "spare":
            # It leaves out what ends earlier: that is no contradiction.
            return replace(copy, known=max(copy.known, int(command.value or BEGINNING)))
        case "attach" | "rejoin":
            since = command.value
            begins = int(BEGINNING) if since is None else since
            if copy.status == "joined" and copy.rows == 0 and since is None:
                return copy
            return replace(
                copy,
                status="joining",
                since=begins,
                # What it was told to leave out, it still lacks.
                known=max(forgotten, copy.known),
                life=copy.life + 1,
                stable=int(BEGINNING),
                last=int(BEGINNING),
                ties=0,
                mark=0,
                back=int(FOREVER),
            )
    return copy
