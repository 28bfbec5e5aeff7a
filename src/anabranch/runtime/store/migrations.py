"""Changes of a running query, in the folder `migrations` of its checkpoint.

`<number>.json` has the record of a change. `plan-<hash>.pickle` is what the query computes since a
change: `query.json` names the one that is in force, and that alone decides after a crash; what can
read it is in `plan-<hash>.json`.
`moves-<number>-<output>.arrow` is what an output takes over in the batch of a change; it goes when
a later batch is committed.
`expected-<hash>.json` is what the plans were chosen by that a user may start the query with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, final

from anabranch.errors import EngineError
from anabranch.model.clock import Clock
from anabranch.model.record import OMITTED, plain, record
from anabranch.model.time import BEGINNING, Time
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.query_statistics import PricedWith

How: TypeAlias = Literal["auto", "clip", "replay", "state"]
"""How a query changes: by clip, by replay, by the state of its user operators, or what is best."""

MigrationVerb: TypeAlias = Literal["change", "add", "drop"]
"""What happens to a query: it becomes another one, it joins those that run, or it leaves them."""

MigrationState: TypeAlias = Literal["requested", "switched", "finished", "refused"]

PLAN: Final = "plan-"
"""How names of files with plans begin."""

EXPECTED: Final = "expected-"
"""How names of files begin with the statistics that a plan was chosen by."""

MOVES: Final = "moves-"
"""How names of files begin with what an output takes over in the batch of a change."""

_FORM_HINT: Final = "resume the query with the version of Anabranch that wrote the checkpoint"
_HINT: Final = "remove the file: the query does not need it to resume"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRecord:
    """A change of a running query, and what became of it.

    Attributes:
        number: Counts the changes of a checkpoint, from 1.
        state: `requested`: nothing has changed yet; `switched`: both plans run; `finished`: only
            the new one does; `refused`: the query stays as it was.
        how: By clip, by replay or by its state; `auto` until that is decided.
        output: The number of the output that changes, of several the first; None: queries were
            added or dropped.
        others: The numbers of the others that change with it, from the same instant on.
        text: The changed query as SQL, where it was handed in so.
        script: Where that text comes from.
        not_before: The earliest instant that was asked for.
        reoptimize: Whether the same query gets the plan that the optimizer chooses now.
        at: The instant from which on the new answer counts.
        batch: The first batch of the new plan.
        finished: The first batch without the old plan.
        reason: Why this way was chosen, or why the change was refused.
        error: Why it was refused, in full: what, where, and what to do.
        what: What changes, in words.
        kept: Stages that go on with their state.
        added: Stages that begin.
        requested_at: When it was asked for, in seconds since 1970.
        verb: Whether a query changes, joins (`add`) or leaves (`drop`); `what` names it.
        to: Where the results of a query that joins go; with `reoptimize` the folder that was named,
            which tells one of several queries from the others.
        force: A query leaves although others read its log.
        modules: The Python files with operators and functions that were handed in with the text.
    """

    number: int
    state: MigrationState = "requested"
    how: How = "auto"
    output: int | None = 0
    text: str | None = None
    script: str | None = None
    not_before: int | None = None
    reoptimize: bool = field(default=False, metadata=OMITTED)
    at: int | None = None
    batch: int | None = None
    finished: int | None = None
    reason: str = ""
    error: str = field(default="", metadata=OMITTED)
    what: str = ""
    kept: tuple[str, ...] = field(default=(), metadata=OMITTED)
    added: tuple[str, ...] = field(default=(), metadata=OMITTED)
    requested_at: float = 0.0
    verb: MigrationVerb = field(default="change", metadata=OMITTED)
    to: str | None = field(default=None, metadata=OMITTED)
    force: bool = field(default=False, metadata=OMITTED)
    modules: tuple[str, ...] = field(default=(), metadata=OMITTED)
    others: tuple[int, ...] = field(default=(), metadata=OMITTED)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The numbers of all outputs that change."""
        return () if self.output is None else (self.output, *self.others)

    def since(self, clock: Clock) -> str:
        """T as people read it; empty while it is not known.

        >>> from anabranch.model.clock import INTEGERS
        >>> MigrationRecord(number=1, at=70).since(INTEGERS)
        '70'
        """
        if self.at is None:
            return ""
        return "the beginning" if self.at == BEGINNING else clock.format(self.at)

    def in_words(self, clock: Clock) -> str:
        """A change that is not finished yet, as `ps` and `explain` show it.

        >>> from anabranch.model.clock import INTEGERS
        >>> MigrationRecord(number=2, state="switched", how="clip", at=70).in_words(INTEGERS)
        'change 2 by clip: the old answer before 70, the new one from there on'
        """
        if self.state == "requested":
            begins = {"add": f"'{self.what}' joins", "drop": f"'{self.what}' leaves"}
            return f"change {self.number}: {begins.get(self.verb, 'begins')} with the next batch"
        at = "the next instant" if self.at is None else clock.format(Time(self.at))
        return (
            f"change {self.number} by {self.how}: the old answer before {at}, the new one from "
            "there on"
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInForce:
    """The plan of a query that has changed while it ran, as `query.json` names it.

    Attributes:
        migration: The number of the last change.
        file: The file with the plan.
        then: The file with the plan behind the change; empty once that is the one in force.
        asked: The fingerprints of the plans that a user may start the query with.
        expected: The files with the statistics that lead to these plans, besides those that the
            query began with.
    """

    migration: int
    file: str
    then: str = ""
    asked: tuple[str, ...]
    expected: tuple[str, ...] = field(default=(), metadata=OMITTED)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanForm:
    """What wrote a plan, and what can read it.

    Attributes:
        version: The version of Anabranch.
        python: The version of Python.
        has_code: Whether it has code of users, which only this version of Python can run.
        classes: By the name of each class of which it has objects, a hash of the names of fields.
    """

    version: str
    python: str
    has_code: bool
    classes: Mapping[str, str]


@final
@dataclass(frozen=True, slots=True)
class MigrationFolder:
    """The changes of one checkpoint."""

    folder: Folder

    @staticmethod
    def of(checkpoint: str) -> MigrationFolder:
        """Those of the checkpoint in a folder."""
        return MigrationFolder(Folder.at(checkpoint).child("migrations"))

    def numbers(self) -> list[int]:
        """The numbers of all changes, in order."""
        stems = [name.removesuffix(".json") for name in self.folder.names()]
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def read(self, number: int) -> MigrationRecord | None:
        """A change; None if there is none of this number."""
        content = self.folder.read_json(f"{number}.json")
        if content is None:
            return None
        where = f"{self.folder.path}/{number}.json"
        return record(MigrationRecord, content, where=where, hint=_HINT)

    def records(self) -> list[MigrationRecord]:
        """All changes, oldest first."""
        found = [self.read(number) for number in self.numbers()]
        return [each for each in found if each is not None]

    def add(self, wanted: MigrationRecord) -> MigrationRecord:
        """Write down a change under the next number."""
        number = max(self.numbers(), default=0) + 1
        return self.write(replace(wanted, number=number))

    def write(self, changed: MigrationRecord) -> MigrationRecord:
        """Write down what has become of a change."""
        self.folder.write_json(f"{changed.number}.json", plain(changed))
        return changed

    def waiting(self) -> list[MigrationRecord]:
        """The changes that were asked for and have not begun."""
        return [each for each in self.records() if each.state == "requested"]

    def in_progress(self) -> MigrationRecord | None:
        """The change during which both plans run, if there is one."""
        found = [each for each in self.records() if each.state == "switched"]
        return found[-1] if found else None

    def unfinished(self) -> MigrationRecord | None:
        """The change that is in progress, else the one that begins next, if there is one."""
        found = [each for each in self.records() if each.state in ("requested", "switched")]
        return next((each for each in found if each.state == "switched"), next(iter(found), None))

    def write_plan(self, data: bytes, form: PlanForm) -> str:
        """Keep what a query computes from now on; its name says what is in it."""
        name = f"{PLAN}{hashlib.sha256(data).hexdigest()}.pickle"
        self.folder.write_json(_form_of(name), plain(form))
        self.folder.write(name, data)
        return name

    def read_form(self, name: str) -> PlanForm | None:
        """What can read a plan; None for one that was written before that was noted."""
        content = self.folder.read_json(_form_of(name))
        if content is None:
            return None
        where = f"{self.folder.path}/{_form_of(name)}"
        return record(PlanForm, content, where=where, hint=_FORM_HINT)

    def read_plan(self, name: str) -> bytes:
        """What a query computes.

        Raises:
            EngineError: It is missing or damaged.
        """
        data = self.folder.read(name)
        # Nothing is unpickled but what the driver has written: its name says what is in it.
        if data is None or name != f"{PLAN}{hashlib.sha256(data).hexdigest()}.pickle":
            raise EngineError(
                "the plan of a query that was changed while it ran is missing or damaged",
                where=f"{self.folder.path}/{name}",
                hint="restore the checkpoint from a copy, or start the query with a new checkpoint",
            )
        return data

    def write_expected(self, statistics: PlanStatistics) -> str:
        """Keep what a plan was chosen by; the name of the file says what is in it."""
        content = plain(PricedWith.of(statistics))
        text = json.dumps(content, sort_keys=True)
        name = f"{EXPECTED}{hashlib.sha256(text.encode()).hexdigest()}.json"
        self.folder.write_json(name, content)
        return name

    def remove_files(self, *but: str) -> None:
        """Remove the plans that are not in force any more, and what belongs to them."""
        kept = {*but, *map(_form_of, but)}
        for name in self.folder.names():
            if name.startswith((PLAN, MOVES, EXPECTED)) and name not in kept:
                self.folder.remove(name)


def _form_of(plan: str) -> str:
    """The name of the file with the form of a plan."""
    return f"{plan.removesuffix('.pickle')}.json"
