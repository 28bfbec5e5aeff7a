"""A change of a running query, as whoever asked for it sees it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, final

import pyarrow as pa

from anabranch.errors import AnabranchError, EngineError, PlanError
from anabranch.model.clock import Clock
from anabranch.model.record import plain
from anabranch.runtime.store.migrations import MigrationRecord

_LOOK: Final = 0.5
"""Seconds between two looks at whether the query still runs."""

_REFUSED: Final = {
    "change": ("the query was not changed", "the query runs on as it was"),
    "add": ("the query has not joined", "the others run on as they were"),
    "drop": ("the query has not left", "all queries run on as they were"),
}
"""What has not happened, and what is so instead, by what was asked for."""


def refusal(problem: Exception) -> str:
    r"""Why a change was refused, in one line: what, where, what to do.

    >>> refusal(PlanError("no such file", where="a.sql\n  line 1", hint="check the path"))
    'no such file (a.sql); check the path'
    """
    if not isinstance(problem, AnabranchError):
        return f"{type(problem).__name__}: {problem}"
    where = f" ({problem.where.splitlines()[0].strip()})" if problem.where else ""
    return f"{problem.what}{where}; {problem.hint}" if problem.hint else f"{problem.what}{where}"


def refused_by(problem: Exception) -> dict[str, Any]:
    """What becomes of the record of a change that was refused."""
    return {"state": "refused", "reason": refusal(problem), "error": str(problem)}


@final
class Migration:
    """A change of a running query: `run.migrate(...)` returns it at once.

    It is `requested` until the next batch begins, `switched` while both plans run, and `finished`
    when the old one is gone; or it was `refused`, and the query stays as it was.
    """

    def __init__(
        self,
        record: MigrationRecord,
        clock: Clock,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """What is known by now; `is_over` tells whether the query has ended, or failed."""
        self._changed = threading.Condition()
        self._record = record
        self._clock = clock
        self._is_over = is_over

    def update(self, record: MigrationRecord) -> None:
        """Tell everybody who waits what has become of it."""
        with self._changed:
            self._record = record
            self._changed.notify_all()

    @property
    def record(self) -> MigrationRecord:
        """Its record in the checkpoint."""
        with self._changed:
            return self._record

    @property
    def number(self) -> int:
        """Its number among the changes of the checkpoint."""
        return self.record.number

    @property
    def state(self) -> str:
        """`requested`, `switched`, `finished` or `refused`."""
        return self.record.state

    @property
    def how(self) -> str:
        """`clip` or `replay`; `auto` until that is decided."""
        return self.record.how

    @property
    def reason(self) -> str:
        """Why this way was chosen; for a change that was refused, why it was."""
        return self.record.reason

    @property
    def at(self) -> int | None:
        """T, in chronons: from this instant on the answer is that of the new query."""
        return self.record.at

    @property
    def instant(self) -> str | None:
        """T as the stream prints times."""
        at = self.at
        return None if at is None else str(self._clock.format(at))

    def await_switched(self, timeout: float | None = None) -> Migration:
        """Wait until the new plan runs.

        Raises:
            PlanError: The change was refused.
            EngineError: It has not begun after so many seconds, or the query has ended before.
        """
        return self._await(("switched", "finished"), timeout)

    def await_finished(self, timeout: float | None = None) -> Migration:
        """Wait until the old plan is gone: the stable point has passed T.

        Raises:
            PlanError: The change was refused.
            EngineError: It has not ended after so many seconds, or the query has ended before.
        """
        return self._await(("finished",), timeout)

    def _await(self, wanted: tuple[str, ...], timeout: float | None) -> Migration:
        until = None if timeout is None else time.monotonic() + timeout
        while not self._is_settled(wanted):
            if self._is_over():
                # It may have got there in its last batch.
                break
            left = _LOOK if until is None else min(_LOOK, until - time.monotonic())
            if left <= 0:
                raise EngineError(
                    f"change {self.number} is still {self.state} after {timeout} seconds",
                    hint="it goes on by itself; wait longer, or look at `anabranch migrations`",
                )
            with self._changed:
                self._changed.wait_for(lambda: self._is_settled(wanted), left)
        record = self.record
        if record.state == "refused":
            what, hint = _REFUSED[record.verb]
            raise PlanError(f"{what}: {record.reason}", where=f"change {record.number}", hint=hint)
        if record.state not in wanted:
            has_begun = record.state == "switched"
            raise EngineError(
                f"the query has ended while change {record.number} was {record.state}",
                hint="start it again with the same checkpoint, and "
                + ("the change goes on" if has_begun else "ask for the change again"),
            )
        return self

    def _is_settled(self, wanted: tuple[str, ...]) -> bool:
        return self.state in (*wanted, "refused")

    def json(self) -> dict[str, Any]:
        """All that is known, as plain values."""
        found: dict[str, Any] = plain(self.record)
        return {**found, "instant": self.instant}

    def table(self) -> pa.Table:
        """One row for a shell: number, state, how, the instant T, and why."""
        found = {
            "change": [str(self.number)],
            "state": [self.state],
            "how": [self.how],
            "from": [self.instant or ""],
            "reason": [self.reason],
        }
        return pa.table({name: pa.array(texts, pa.string()) for name, texts in found.items()})

    def __repr__(self) -> str:
        return f"<Migration {self.number}: {self.state}, how={self.how!r}, at={self.instant}>"
