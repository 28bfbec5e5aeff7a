"""A change of a running query, as whoever asked for it sees it."""

from __future__ import annotations

import threading
from typing import Any, final

import pyarrow as pa

from anabranch.errors import EngineError, PlanError
from anabranch.model.clock import Clock
from anabranch.model.record import plain
from anabranch.runtime.store.migrations import MigrationRecord


@final
class Migration:
    """A change of a running query: `run.migrate(...)` returns it at once.

    It is `requested` until the next batch begins, `switched` while both plans run, and `finished`
    when the old one is gone; or it was `refused`, and the query stays as it was.
    """

    def __init__(self, record: MigrationRecord, clock: Clock) -> None:
        """What is known by now."""
        self._changed = threading.Condition()
        self._record = record
        self._clock = clock

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
            EngineError: It has not begun after so many seconds.
        """
        return self._await(("switched", "finished"), timeout)

    def await_finished(self, timeout: float | None = None) -> Migration:
        """Wait until the old plan is gone: the stable point has passed T.

        Raises:
            PlanError: The change was refused.
            EngineError: It has not ended after so many seconds.
        """
        return self._await(("finished",), timeout)

    def _await(self, wanted: tuple[str, ...], timeout: float | None) -> Migration:
        with self._changed:
            self._changed.wait_for(lambda: self._record.state in (*wanted, "refused"), timeout)
            state, reason = self._record.state, self._record.reason
        if state == "refused":
            raise PlanError(
                f"the query was not changed: {reason}",
                where=f"change {self.number}",
                hint="the query runs on as it was",
            )
        if state not in wanted:
            raise EngineError(
                f"change {self.number} is still {state} after {timeout} seconds",
                hint="it goes on by itself; wait longer, or look at `anabranch migrations`",
            )
        return self

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
