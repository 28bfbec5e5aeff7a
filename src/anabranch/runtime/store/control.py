"""The control stream of a query: commands that reach a running query between two batches.

A command is a file in the folder `control` of the checkpoint. The planner takes it into a batch and
writes that down, as it does with rows; so after a crash it takes effect in the same batch again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, final

from anabranch.errors import PlanError
from anabranch.kernels.contract.command import FEED, MIGRATE, REVISE, SPARE, VERBS, Command
from anabranch.model.clock import MICROSECONDS, Clock
from anabranch.model.record import OMITTED, plain, record
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.store.folder import Folder

if TYPE_CHECKING:
    # Whoever takes commands into batches runs no kernels.
    from anabranch.kernels.plan.stage import PhysicalPlan

_WANTS_VALUE: Final = ("advance", "limit", "feedback")
_MAY_HAVE_VALUE: Final = ("attach",)
_ONLY_FILES: Final = ("pause", "resume", "limit")
_OF_INPUTS: Final = ("attach", "detach", "rejoin")
_TAKEN: Final = "taken"
_REFUSED: Final = "refused"


def command_of(
    content: Any,
    sources: Mapping[str, bool],
    copies: Mapping[str, Sequence[str]] | None = None,
    inputs: Sequence[str] | None = None,
) -> Command:
    """A command out of what a file or a user says.

    Args:
        content: What it says.
        sources: The sources of the query, and whether they are in files.
        copies: The sources with copies, and the copies that are known of them.
        inputs: The names of the streams that a merge of the query reads, besides copies; None:
            that is not known, and every source may be one.

    Raises:
        PlanError: It is not a command, or not one for this query.
    """
    if not isinstance(content, dict) or not {"verb"} <= content.keys():
        raise _wrong("not a command", "a command has a verb, a source and possibly a value")
    verb, value = content["verb"], content.get("value")
    if verb in (REVISE, MIGRATE) and isinstance(value, int):
        return Command(verb=verb, value=value)
    source: Any = content.get("source")
    if verb == FEED and isinstance(value, int) and source in sources:
        return Command(verb=FEED, source=source, value=value)
    if (
        verb == SPARE
        and isinstance(value, int)
        and content.get("copy") in (copies or {}).get(source, ())
    ):
        return Command(verb=SPARE, source=source, value=value, copy=content["copy"])
    if verb not in VERBS:
        raise _wrong(f"unknown command '{verb}'", _near(str(verb), VERBS))
    if verb == "feedback":
        if source or content.get("copy"):
            raise _wrong("feedback is for the whole query, not for a source", "feedback TIME")
        _check_value(verb, value)
        since = content.get("since")
        if since is not None and (not isinstance(since, int) or since > (value or 0)):
            raise _wrong(
                f"'{since}' is not an instant up to {value}",
                "feedback TIME [SINCE]: nothing that ends at TIME or later starts before SINCE",
            )
        return Command(verb=verb, value=value, since=since)
    if verb in _OF_INPUTS and inputs is not None and source not in (copies or {}):
        _check_input(verb, source, inputs, [*(copies or {})])
    elif source not in sources:
        raise _wrong(f"the query has no source '{source}'", _near(str(source), [*sources]))
    if verb in _ONLY_FILES and not sources[source]:
        raise _wrong(f"source '{source}' is a DataFrame", "Spark decides what it reads from it")
    _check_value(verb, value)
    copy = content.get("copy")
    _check_copy(verb, source, copy, copies or {})
    return Command(verb=verb, source=source, value=value, copy=copy)


def _check_value(verb: str, value: Any) -> None:
    if verb not in _MAY_HAVE_VALUE and (verb in _WANTS_VALUE) != (value is not None):
        wants = "needs a value" if verb in _WANTS_VALUE else "takes no value"
        raise _wrong(f"'{verb}' {wants}", "advance SOURCE TIME, or limit SOURCE ROWS")
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(f"'{value}' is not a whole number", "times are chronons, limits are rows")
    if verb == "limit" and value < 1:
        raise _wrong(f"a batch cannot have {value} rows", "give at least 1; pause stops a source")
    if verb != "limit" and not BEGINNING < value <= FOREVER:
        raise _wrong(f"{value} is not an instant", "give one between the beginning and forever")


def _check_input(verb: str, source: Any, inputs: Sequence[str], copies: Sequence[str]) -> None:
    """Refuse to attach, detach or rejoin what no merge of the query reads."""
    if source in inputs:
        return
    if not inputs and not copies:
        hint = "only the inputs of a merge come and go; pause stops reading a source"
        raise _wrong(f"'{verb}' is for the inputs of a merge, and the query has no merge", hint)
    hint = _near(str(source), [*inputs, *copies])
    raise _wrong(f"no merge of the query has an input '{source}'", hint)


def _check_copy(verb: str, source: str, copy: Any, copies: Mapping[str, Sequence[str]]) -> None:
    """Where a source has copies, they are the inputs of a merge, else the source is one itself."""
    names = copies.get(source)
    if copy is None:
        if names is not None and verb in _OF_INPUTS:
            raise _wrong(f"'{verb}' needs the name of a copy of '{source}'", _near("", names))
        if names is not None and verb == "advance":
            hint = "each copy has its own stable point; detach a copy that is ahead by mistake"
            raise _wrong(f"source '{source}' has copies", hint)
        return
    if verb not in _OF_INPUTS:
        raise _wrong(f"'{verb}' is for a source, not for a copy of it", "leave the copy out")
    if names is None:
        raise _wrong(f"source '{source}' has no copies", "leave the copy out")
    if copy not in names:
        raise _wrong(f"source '{source}' has no copy '{copy}'", _near(str(copy), names))


@final
@dataclass(frozen=True, slots=True)
class CommandStatus:
    """What became of a command: `waiting`, `taken` (in which entry of the plan) or `refused`."""

    name: str
    status: str
    content: Any
    entry: int | None = None
    why: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SettledCommand:
    """A command that waits no longer, as it is in the folders `taken` and `refused`.

    `content` is the command, or the text of a file that is none; `entry` is the entry of the plan
    that has it, `why` the reason why none has.
    """

    content: object
    entry: int | None = field(default=None, metadata=OMITTED)
    why: str = field(default="", metadata=OMITTED)


@final
@dataclass(frozen=True, slots=True)
class ControlFolder:
    """The commands of a query, those to come and those that were.

    `inputs` are the streams that its merges read, besides copies; None: that is not known.
    """

    folder: Folder
    inputs: tuple[str, ...] | None = None

    def put(self, command: Command) -> str:
        """Hand in a command; its name says when."""
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}"
        self.folder.write_json(f"{name}.json", plain(command))
        return name

    def waiting(self) -> list[str]:
        """The names of the commands that were not taken yet, oldest first."""
        names = self.folder.names()
        return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))

    def read(
        self,
        name: str,
        sources: Mapping[str, bool],
        copies: Mapping[str, Sequence[str]] | None = None,
    ) -> Command | None:
        """A command; one that makes no sense is put aside with the reason."""
        try:
            content = self.folder.read_json(f"{name}.json")
            return command_of(content, sources, copies, self.inputs)
        except Exception as problem:  # noqa: BLE001 (anybody can put anything here)
            raw = (self.folder.read(f"{name}.json") or b"").decode(errors="replace")
            self._settle(_REFUSED, name, SettledCommand(content=raw[:1000], why=str(problem)[:500]))
            return None

    def take(self, name: str, command: Command, entry: int) -> None:
        """A command is in the plan: it waits no longer."""
        self._settle(_TAKEN, name, SettledCommand(content=plain(command), entry=entry))

    def _settle(self, status: str, name: str, settled: SettledCommand) -> None:
        self.folder.child(status).write_json(f"{name}.json", plain(settled))
        self.folder.remove(f"{name}.json")

    def values(self, verb: str) -> set[int]:
        """The values of all commands of a kind that were ever handed in."""
        contents = [note.content for note in self.notes()]
        own = [each for each in contents if isinstance(each, dict) and each.get("verb") == verb]
        return {each["value"] for each in own if isinstance(each.get("value"), int)}

    def notes(self) -> list[CommandStatus]:
        """Everything that was ever handed in, oldest first."""
        found = [
            CommandStatus(name, "waiting", self.folder.read_json(f"{name}.json"))
            for name in self.waiting()
        ]
        for status in (_TAKEN, _REFUSED):
            folder = self.folder.child(status)
            for name in folder.names():
                hint = "remove the file: queries do not need it"
                where = f"{folder.path}/{name}"
                settled = record(SettledCommand, folder.read_json(name), where=where, hint=hint)
                stem = name.removesuffix(".json")
                found.append(
                    CommandStatus(stem, status, settled.content, settled.entry, settled.why)
                )
        return sorted(found, key=lambda note: note.name)


@final
@dataclass(frozen=True, slots=True)
class Control:
    """How to tell a running query something; it takes effect in the next batch.

    `sources` are the query's, and whether they are in files; `copies` asks which of them have
    copies, and which; `clocks` are how the sources count time.
    """

    folder: ControlFolder
    sources: Mapping[str, bool]
    copies: Callable[[], Mapping[str, Sequence[str]]] = dict
    clocks: Mapping[str, Clock] = field(default_factory=dict)

    def advance(self, source: str, to: Any) -> None:
        """Promise that a source has reached an instant: what comes before it is late.

        That helps where a source is silent for good, and everybody waits for it.
        """
        self._put("advance", source, instant_of(self.clocks, source, to))

    def pause(self, source: str) -> None:
        """Read no more of a source in files, until it is resumed."""
        self._put("pause", source)

    def resume(self, source: str) -> None:
        """Go on with a source."""
        self._put("resume", source)

    def limit(self, source: str, rows: int) -> None:
        """Take at most about so many rows of a source in files into a batch."""
        self._put("limit", source, rows)

    def attach(self, source: str, copy: str | None = None, *, since: Any = None) -> None:
        """Let a merge take an input in: a source, or a copy of one.

        It vouches for all events that end at or after `since`; None: for all events.
        """
        value = None if since is None else instant_of(self.clocks, source, since)
        self._put("attach", source, value, copy)

    def detach(self, source: str, copy: str | None = None) -> None:
        """Let a merge ignore an input from now on; its output loses and repeats nothing."""
        self._put("detach", source, copy=copy)

    def rejoin(self, source: str, copy: str | None = None) -> None:
        """Let a merge take in again what was detached; a copy is read from its beginning."""
        self._put("rejoin", source, copy=copy)

    def feedback(self, end: Any, since: Any = None) -> None:
        """Say that of the output only what ends at an instant or later is of interest.

        Rows that cannot matter to it are left out where they come in. What holds at the instant
        or later does not change. With `since`, nothing that is of interest starts before that: so
        aggregates and other operators with state need not know how long a result has been there.
        """
        first = None if since is None else instant_of(self.clocks, "", since)
        self._put("feedback", "", instant_of(self.clocks, "", end), since=first)

    def spare(self, source: str, copy: str, end: int) -> None:
        """Note that a copy may leave out events that end before an instant: it was told so."""
        self._put("spare", source, end, copy)

    def _put(
        self,
        verb: str,
        source: str,
        value: int | None = None,
        copy: str | None = None,
        since: int | None = None,
    ) -> None:
        content = {"verb": verb, "source": source, "value": value, "copy": copy, "since": since}
        known = command_of(content, self.sources, self.copies(), self.folder.inputs)
        self.folder.put(known)


def source_clocks(plan: PhysicalPlan) -> dict[str, Clock]:
    """How the sources of a plan count time, those that have one."""
    every = {name: source.clock for name, source in plan.sources.items()}
    return {name: clock for name, clock in every.items() if clock is not None}


def instant_of(clocks: Mapping[str, Clock], source: str, when: Any) -> int:
    """An instant of a source; without one that is known, of those that there are."""
    clock = clocks.get(source) or next(iter(clocks.values()), MICROSECONDS)
    return int(clock.instant(when))


def _wrong(what: str, hint: str) -> PlanError:
    return PlanError(what, where="a command for a running query", hint=hint)


def _near(word: str, names: Sequence[str]) -> str:
    near = get_close_matches(word, names, 1)
    there = f"there are {', '.join(names)}" if names else "there are none yet"
    return f"did you mean '{near[0]}'?" if near else there
