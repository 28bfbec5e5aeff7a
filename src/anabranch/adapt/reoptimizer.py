"""Watches a running query and changes its plan when another one has been better for a while."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final, Protocol, final

from anabranch.adapt.decision import GainVerdict, Patience, Reoptimize, judge, judge_all
from anabranch.algebra.node import Node
from anabranch.errors import AnabranchError
from anabranch.optimizer.statistics import PlanStatistics

_LOG: Final = logging.getLogger("anabranch")


class WatchedQuery(Protocol):
    """What a query that is watched tells, and how it changes."""

    def measured(self) -> PlanStatistics:
        """What was measured of it by now."""

    def running(self) -> Sequence[Node]:
        """The plans that run, one per output."""

    def best(self, statistics: PlanStatistics) -> Sequence[Node]:
        """The plans that the optimizer would choose."""

    def is_changing(self) -> bool:
        """Whether a change is under way."""

    def change(self, outputs: Sequence[int], statistics: PlanStatistics) -> None:
        """Give outputs the plans that the optimizer chooses by these statistics."""


def at_a_start(query: WatchedQuery) -> list[GainVerdict]:
    """What other plans would be worth to a query that resumes, as measured before; none: unknown.

    While a change is under way, both of its plans run, and there is nothing to compare.
    """
    statistics = query.measured()
    if not statistics.sources or query.is_changing():
        return []
    return judge_all(query.running(), query.best(statistics), statistics)


@final
class Reoptimizer:
    """Prices plans after batches, beside the query, and asks for a change."""

    def __init__(self, query: WatchedQuery, settings: Reoptimize) -> None:
        """Watch a query."""
        self._query = query
        self._settings = settings
        self._patience: dict[int, Patience] = {}
        self._refused: str | None = None
        self._busy = threading.Lock()

    def resume(self, batches: int) -> None:
        """Look at a query that resumes: what was measured in so many batches counts as they do.

        One batch has to confirm it.
        """
        with self._busy:
            statistics = self._query.measured()
            before = min(batches, self._settings.batches - 1)
            for output, verdict in enumerate(at_a_start(self._query)):
                streak = before if verdict.gain >= self._settings.factor else 0
                self._patience[output] = Patience(streak, verdict, statistics)

    def after_batch(self, batch: int) -> None:
        """A batch is committed; plans are priced beside the next one."""
        del batch
        if self._busy.locked():
            return
        threading.Thread(target=self.look, name="anabranch-reoptimize", daemon=True).start()

    def look(self) -> GainVerdict | None:
        """Look at the query once, and change it if that has been worth it for long enough.

        What goes wrong here must not end the query: it goes on as it was.
        """
        with self._busy:
            try:
                return self._look()
            except AnabranchError as problem:
                if problem.what != self._refused:
                    _LOG.warning("the plan stays as it is: %s", problem)
                self._refused = problem.what
                self._patience.clear()
                return None

    def _look(self) -> GainVerdict | None:
        query, settings = self._query, self._settings
        if query.is_changing():
            self._patience.clear()
            return None
        statistics = query.measured()
        running = query.running()
        due = [
            output
            for output in range(len(running))
            if self._patience.get(output, Patience()).is_due(statistics, settings)
        ]
        best = query.best(statistics) if due else ()
        for output, node in enumerate(running):
            patience = self._patience.get(output, Patience())
            if output in due:
                verdict = judge(node, best[output], statistics)
                patience = patience.noting(verdict, statistics, settings)
            else:
                patience = patience.unmoved(settings)
            self._patience[output] = patience
        ripe = [
            (each.verdict.gain, output, each.verdict)
            for output, each in self._patience.items()
            if each.verdict is not None and each.is_exhausted(settings)
        ]
        if not ripe:
            return None
        # Together, so that what their plans have in common is still computed once.
        for _, output, verdict in ripe:
            _LOG.info("output %d gets another plan: %s", output, verdict.reason)
        self._patience.clear()
        query.change([output for _, output, _ in ripe], statistics)
        return max(ripe, key=lambda each: each[0])[2]
