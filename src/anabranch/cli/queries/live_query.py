"""Queries that a shell has started on Spark and that go on behind its back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final, final

from anabranch.algebra.node import clock_of
from anabranch.cli.queries.live_answer import Answer
from anabranch.cli.queries.running import Announcement
from anabranch.errors import AnabranchError, QueryError
from anabranch.runtime.query.asking.waiting import stop_after_batch
from anabranch.runtime.query.run import Run
from anabranch.stream import Stream

_LOOK: Final = 1.0
_REST: Final = 4.0
"""Reading a result again takes at most one part in so many of the time."""


@final
class LiveQuery:
    """A run, what it has said so far, and its entry among the queries of this machine."""

    def __init__(self, query: Stream, to: str | None, *, allow_unbounded: bool) -> None:
        """Start a query; without a target for its results only the answer keeps them."""
        clock = clock_of(query.node)
        self.answer: Answer = Answer(query.schema, clock=clock)
        # Read from the log of another query, it would end with that one.
        self.run: Run = query.start(
            to,
            share=False,
            foreach=self.answer.add if to is None else None,
            allow_unbounded=allow_unbounded,
        )
        self._to = to
        self._lock = threading.Lock()
        self._committed = -1
        self._rested = 0.0
        self._announcement = Announcement(
            self.run, self.run.name, script="shell", to=to or "shell", clock=clock
        )

    @property
    def name(self) -> str:
        """What SHOW QUERIES calls it."""
        return self.run.name

    @property
    def status(self) -> str:
        """Whether it is running; a run that starts itself again is asked by one thread only."""
        with self._lock:
            return self.run.status

    def feed(self, *, at_once: bool = False) -> None:
        """Where the results go elsewhere, read them again: now, or when that is not too often."""
        if self._to is None:
            return
        metrics, now = self.run.metrics(), time.monotonic()
        committed = metrics[-1]["batch"] if metrics else -1
        if committed == self._committed or (now < self._rested and not at_once):
            return
        self._committed = committed
        self.answer.replace(self.run.table(raw=True))
        after = time.monotonic()
        self._rested = after + _REST * (after - now)

    def look(self) -> str | None:
        """Tell others how far it is; what became of it, if it has ended."""
        if self.status != "running":
            self._announcement.close()
            return f"{self.name} has {self._end()}"
        if self._announcement.is_asked():
            self._announcement.refresh("stopping")
            self.stop()
            return f"{self.name} was asked to stop and has stopped"
        self._announcement.refresh()
        return None

    def stop(self) -> None:
        """End it after its batch."""
        stop_after_batch(self.run)
        self._announcement.close()

    def _end(self) -> str:
        try:
            self.run.await_end(1)
        except AnabranchError as problem:
            return f"failed\n{type(problem).__name__}: {problem}"
        return "ended"

    def close(self) -> None:
        """Forget it, however it ended."""
        self._announcement.close()


@final
class LiveQueries:
    """All of them; a thread keeps their entries up to date."""

    def __init__(self) -> None:
        """None yet."""
        self._queries: dict[str, LiveQuery] = {}
        self._running: dict[str, LiveQuery] = {}
        self._notices: list[str] = []
        self._closed = threading.Event()
        self._keeper: threading.Thread | None = None

    def __iter__(self) -> Iterator[LiveQuery]:
        return iter(list(self._queries.values()))

    def add(self, query: LiveQuery) -> None:
        """Keep an eye on a query."""
        self._queries[query.name] = self._running[query.name] = query
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="queries", daemon=True)
            self._keeper.start()

    def find(self, name: str) -> LiveQuery:
        """The query of a name; case does not count.

        Raises:
            QueryError: There is none.
        """
        names = {each.lower(): each for each in self._queries}
        if name.lower() in names:
            return self._queries[names[name.lower()]]
        near = get_close_matches(name.lower(), list(names), 1)
        guess = f"did you mean '{names[near[0]]}'? " if near else ""
        listed = f"there are: {', '.join(names.values())}" if names else "no query has been started"
        raise QueryError(f"there is no query '{name}'", where="this shell", hint=guess + listed)

    def forget_end(self, query: LiveQuery) -> None:
        """Whoever ends a query need not be told."""
        self._running.pop(query.name, None)

    def notices(self) -> list[str]:
        """What has happened to queries since this was asked last."""
        found, self._notices = self._notices, []
        return found

    def close(self) -> None:
        """Forget all of them."""
        self._closed.set()
        if self._keeper is not None:
            self._keeper.join()
        for query in self:
            query.close()

    def _keep(self) -> None:
        while not self._closed.wait(_LOOK):
            for query in list(self._running.values()):
                notice = query.look()
                if notice is not None and self._running.pop(query.name, None) is not None:
                    self._notices.append(notice)
