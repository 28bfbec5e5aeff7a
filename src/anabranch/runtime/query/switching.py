"""The plan of a running query is exchanged between two batches.

When a batch is to begin with another plan, `query.json` says that this plan is in force, and then
the batch is computed by it: nothing of it has been done before, and a process that dies in between
finds the same in the checkpoint. Spark's query runs on. It knows nothing but its sources; tasks are
told by which job a batch is computed (`job_in_force`).

Where the new plan needs other sources, or more of them or of their columns than Spark's DataFrame
reads, that does not do. Then the batch is given up at once: Spark has written down what it reads,
and nothing else has happened. Spark's query is started again in the same process, with the new plan
over the same checkpoint, and does that very batch.

In the same way a batch is repeated whose tasks have to be told what they can only learn from each
other (`revisions/holding.py`).
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn, final

from anabranch import __version__
from anabranch.errors import AnabranchError, EngineError, PlanError
from anabranch.kernels.contract.command import Command
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.model.time import Time
from anabranch.runtime.query.work import Work
from anabranch.runtime.store.migrations import MigrationFolder, PlanForm
from anabranch.runtime.store.plan_form import as_bytes, unreadable
from anabranch.runtime.store.query_record import read_query_record

if TYPE_CHECKING:
    from anabranch.runtime.query.committing import Output

_LOG: Final = logging.getLogger("anabranch")


class SwitchError(Exception):
    """A batch is given up, to begin with another plan or once more. Nobody but Spark sees this."""


def _is_news(line: logging.LogRecord) -> bool:
    """Whether a line of py4j's log says more than that a query changes its plan."""
    return line.exc_info is None or line.exc_info[0] is not SwitchError


# py4j logs what a callback raises, with a traceback, though this is how a batch is given up.
logging.getLogger("py4j.clientserver").addFilter(_is_news)


@final
@dataclass(frozen=True, slots=True)
class NextPlan:
    """What a query computes from a batch on, and where its results go."""

    work: Work
    outputs: tuple[Output, ...]


Decide = Callable[[int], NextPlan | None]
"""Asked when a batch begins: makes another plan the one in force, or leaves it (None)."""

Adopt = Callable[[NextPlan], bool]
"""Goes on with another plan right away; false where Spark's query has to be started again."""

Watch = Callable[[int, Sequence[Command], Sequence[Time]], None]
"""Told of every batch that is committed: its number, its commands, the stable points."""


@final
class Switcher:
    """Holds a change until a batch begins; shared between Spark's callback and everybody else."""

    def __init__(self) -> None:
        """Nothing is to change."""
        self.watch: Watch | None = None
        self.adopt: Adopt = lambda _: False
        self.follow: Callable[[threading.Event], None] = threading.Event.set
        self._lock = threading.Lock()
        self._decide: tuple[Decide, threading.Event] | None = None
        self._next: NextPlan | None = None
        self._repeats = False

    def repeat(self) -> NoReturn:
        """Give up a batch that is to be computed once more, from what its sources have.

        Spark keeps what the tasks of a batch have sent, and would not ask them again.

        Raises:
            SwitchError: Always.
        """
        with self._lock:
            self._repeats = True
        self.follow(threading.Event())
        raise SwitchError

    def take_repeat(self) -> bool:
        """Whether a batch was given up to be repeated; said once."""
        with self._lock:
            found, self._repeats = self._repeats, False
            return found

    @property
    def is_asked(self) -> bool:
        """Whether a change waits for a batch to begin, or has just been made."""
        with self._lock:
            return self._decide is not None or self._next is not None

    def ask(self, decide: Decide) -> threading.Event:
        """Let the next batch that begins ask whether there is another plan.

        The event is set when that batch has begun, with the plan that was decided on.

        Raises:
            PlanError: Another change waits for that.
        """
        with self._lock:
            if self._decide is not None or self._next is not None:
                raise PlanError(
                    "another change of this query is about to begin",
                    where="a running query",
                    hint="wait until it has begun: a query changes once at a time",
                )
            begun = threading.Event()
            self._decide = decide, begun
            return begun

    def before(self, batch: int) -> None:
        """A batch begins, perhaps with another plan.

        Raises:
            SwitchError: Spark's query has to be started again for that.
        """
        with self._lock:
            asked, self._decide = self._decide, None
        if asked is None:
            return
        decide, begun = asked
        is_over = True
        try:
            found = decide(batch)
            if found is not None and not self.adopt(found):
                with self._lock:
                    self._next = found
                is_over = False
                self.follow(begun)
                raise SwitchError
        finally:
            if is_over:
                begun.set()

    def after(self, batch: int, commands: Sequence[Command], stables: Sequence[Time]) -> None:
        """A batch is committed; who watches must not fail it."""
        if self.watch is None:
            return
        try:
            self.watch(batch, commands, stables)
        except AnabranchError as problem:
            _LOG.warning("%s", problem)

    def take(self) -> NextPlan | None:
        """The plan to go on with, once."""
        with self._lock:
            found, self._next = self._next, None
            return found


def seal_work(work: Work) -> tuple[bytes, PlanForm]:
    """What a query computes as bytes, without DataFrames, which live in one process only.

    With them goes what can read them.

    Raises:
        PlanError: Something that it refers to cannot be written down.
    """
    try:
        bare = replace(work, frames=(), older=None)
        return as_bytes(bare, __version__)
    except (pickle.PicklingError, TypeError, AttributeError) as problem:
        raise PlanError(
            "the changed query cannot be written to the checkpoint",
            where=" ".join(str(problem).split()),
            hint="a function refers to an object that exists in this process only: a "
            "connection, a lock, a session; open it inside the function",
        ) from problem


def work_in_force(checkpoint: str | None, asked: Work) -> Work:
    """What a query computes that was changed while it ran; `asked` where it was not.

    Raises:
        PlanError: The checkpoint is in the middle of a change to another query, or behind it.
    """
    stored = None if checkpoint is None else read_query_record(checkpoint)
    if stored is None or stored.in_force is None:
        return asked
    assert checkpoint is not None
    in_force = stored.in_force
    if plan_fingerprint(asked.plan) not in in_force.asked:
        raise PlanError(
            "the query of this checkpoint was changed while it ran, and this is another query",
            where=f"{checkpoint}: change {in_force.migration}",
            hint="start the query as it was changed to, or all queries that it has now, in the "
            "order in which they joined; `anabranch migrations` shows the change",
        )
    return load_work(MigrationFolder.of(checkpoint), in_force.file, asked)


def load_work(folder: MigrationFolder, file: str, asked: Work) -> Work:
    """What a query computes, as it was written down; with what belongs to this process.

    Raises:
        EngineError: It cannot be read.
    """
    form = folder.read_form(file)
    why = None if form is None else unreadable(form)
    if why is not None:
        raise _unreadable_plan(folder, file, form, why)
    try:
        work = pickle.loads(folder.read_plan(file))  # noqa: S301 (its name is its hash)
    except (ImportError, AttributeError, TypeError, pickle.UnpicklingError) as problem:
        raise _unreadable_plan(folder, file, form, str(problem)) from problem
    assert isinstance(work, Work)
    limits = {each.name: each.limits for each in asked.files}
    return replace(
        work,
        files=tuple(
            replace(each, limits=limits.get(each.name, each.limits)) for each in work.files
        ),
        frames=asked.frames,
        parts=asked.parts,
        least=asked.least,
        sizes=asked.sizes,
        keep=asked.keep,
        revisions=asked.revisions,
        replay=asked.replay,
    )


def _unreadable_plan(
    folder: MigrationFolder, file: str, form: PlanForm | None, why: str
) -> EngineError:
    writer = "the version of Anabranch that wrote the checkpoint"
    if form is not None:
        writer = f"what wrote the checkpoint: Anabranch {form.version} on Python {form.python}"
    return EngineError(
        "the plan of a query that was changed while it ran cannot be read by this version",
        where=f"{folder.folder.path}/{file}: {why}",
        hint=f"resume the query with {writer}; or start it anew, with another checkpoint",
    )
