"""What the queries of one engine share: Spark, the number of shards, the runs, what to close."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

from anabranch.adapt.decision import Reoptimize
from anabranch.algebra.modules.user_operator import Template
from anabranch.errors import PlanError
from anabranch.runs import Runs
from anabranch.runtime.store.state_store import KEEP


def _no_sql(text: str) -> Any:
    """A host without an engine binds no text."""
    raise PlanError(
        "there is no engine to read a query by", where=text[:80], hint="pass a Stream instead"
    )


class ReadApart(Protocol):
    """Reads the queries of a script that knows nothing of the streams of an engine."""

    def __call__(self, text: str, name: str | None, modules: Sequence[str] = ()) -> list[Any]:
        """Those of a text with its name; `modules` are Python files that were handed in with it."""


def _no_script(text: str, name: str | None, modules: Sequence[str] = ()) -> list[Any]:  # noqa: ARG001
    return [_no_sql(name or text)]


@final
@dataclass(slots=True, eq=False, kw_only=True)
class Host:
    """The inside of an engine, as its streams and runs see it.

    Attributes:
        start_spark: Starts a session, or takes the one of this process; called once, when Spark is
            first needed.
        session: The Spark session, once there is one; its owner sets it to one that was given.
        shards: The number of shards that was set; None: one per core.
        versions: How many versions of its state a query keeps.
        reoptimize: When queries change their plans by themselves; None: never.
        sql: Runs the statements of a script in the engine.
        read_apart: The queries of a script that knows nothing of the streams of the engine.
        modules: The user operators that queries can call, by name.
        runs: The queries that were started.
        closing: What is closed when the engine stops, in this order.
    """

    start_spark: Callable[[], Any]
    modules: Mapping[str, Template]
    sql: Callable[[str], Any] = _no_sql
    read_apart: ReadApart = _no_script
    session: Any = None
    shards: int | None = None
    versions: int = KEEP
    reoptimize: Reoptimize | None = None
    runs: Runs = field(default_factory=Runs)
    closing: list[Callable[[], None]] = field(default_factory=list)
    _own: bool = False

    @property
    def spark(self) -> Any:
        """The Spark session; it is started when it is first asked for."""
        if self.session is None:
            from anabranch.runtime.spark.session import is_running

            self._own = not is_running()
            self.session = self.start_spark()
        return self.session

    @property
    def shard_count(self) -> int:
        """Into how many shards keyed state is cut."""
        if self.shards is not None:
            return self.shards
        from anabranch.runtime.spark.session import parallelism

        return parallelism(self.spark)

    def stop(self) -> None:
        """Stop all runs, close what is to be closed, and stop the Spark that was started here."""
        self.runs.stop()
        for close in self.closing:
            close()
        self.closing.clear()
        if self._own:
            self.session.stop()
            self.session, self._own = None, False
