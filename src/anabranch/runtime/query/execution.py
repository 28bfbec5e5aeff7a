"""A query of Spark that starts again where its plan changes or the machine was only too busy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from anabranch.runtime.revisions.reviser import Reviser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from anabranch.runtime.query.assembly import Assembly

_RETRIES: Final = 3
_TOO_BUSY: Final = "Python worker failed to connect back"


class Execution:
    """A query of Spark, which one run or several have in common."""

    def __init__(
        self, spark: SparkSession, begin: Callable[[], StreamingQuery], assembly: Assembly
    ) -> None:
        """Start it; `begin` can be called again after a failure."""
        self.spark = spark
        self.assembly = assembly
        assembly.switcher.follow = self._follow
        self._begin = begin
        self._retries = _RETRIES
        self._restart = threading.Lock()
        self._stopped = False
        self._spent: dict[int, dict[str, int]] = {}
        with self._restart:
            self.query: StreamingQuery = begin()

    @property
    def reviser(self) -> Reviser | None:
        """Who corrects the past of the query, if somebody does."""
        return self.assembly.reviser

    @property
    def checkpoint(self) -> str:
        """The folder of its checkpoint."""
        return self.assembly.opened.path

    @property
    def is_stopped(self) -> bool:
        """Whether somebody has ended the query."""
        return self._stopped

    def is_over(self) -> bool:
        """Whether the query has ended or failed, and does not start again by itself."""
        query = self.query
        try:
            if query.isActive:
                return False
            has_failed = query.exception() is not None
        except Exception:  # noqa: BLE001  # Spark has been stopped, and cannot be asked
            return True
        return not (has_failed and self.started_again(query))

    def close(self) -> None:
        """Let go of everything, once the query has ended."""
        self.assembly.close()

    def stop(self) -> None:
        """End the query; a change of its plan that is under way does not start it again."""
        with self._restart:
            self._stopped = True
            self.query.stop()

    def started_again(self, ended: StreamingQuery) -> bool:
        """Go on from the checkpoint: with another plan, or where the machine was only too busy.

        Spark gives a new Python process ten seconds to call back, and gives up the query if that
        is not enough.
        """
        with self._restart:
            if self.query is not ended:
                # Somebody else has noticed, too.
                return True
            problem = ended.exception()
            if problem is None or self._stopped:
                return False
            new = self.assembly.switcher.take()
            if new is not None:
                self._begin = self.assembly.changed(new)
            elif self.assembly.switcher.take_repeat():
                pass
            elif self._retries == 0 or _TOO_BUSY not in str(problem):
                return False
            else:
                self._retries -= 1
            self.query = self._begin()
            return True

    def _follow(self, begun: threading.Event) -> None:
        """Start Spark's query with its new plan when it has given up its batch, in the background.

        The event is set when it has been started.
        """

        def wait() -> None:
            # The first batch may begin before `begin` has returned.
            with self._restart:
                query = self.query
            # A query that changes its plan ends with an error, which is not for anybody.
            with suppress(Exception):
                query.awaitTermination()
            with suppress(Exception):
                self.started_again(query)
            begun.set()

        threading.Thread(target=wait, name="anabranch-switch", daemon=True).start()

    def milliseconds(self, batches: Sequence[int]) -> list[dict[str, int]]:
        """What Spark measured of these batches, as far as it is known."""
        missing = [batch for batch in batches if batch not in self._spent]
        if missing:
            # The last one is what usually is missing, and all of them are a lot to ask for.
            last = self.query.lastProgress
            seen = [last] if missing[1:] == [] and last else self.query.recentProgress
            self._spent |= {each.batchId: dict(each.durationMs) for each in seen}
        return [self._spent.get(batch, {}) for batch in batches]
