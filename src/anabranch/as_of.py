"""Queries about another time: what was known then, what held then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

from anabranch.errors import PlanError
from anabranch.language.text.statements import Select
from anabranch.reading import read_statements
from anabranch.runtime.sources.spec import KnowledgePoint
from anabranch.stream import Stream
from anabranch.travel import as_known


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTime:
    """Where queries are asked as of another time; `Engine.as_of` makes it.

    Attributes:
        plan: Makes a query out of a text.
        known: What of the archives counts; None: what is known now.
        at: The instant for which answers are shown; None: queries are handed on as they are.
    """

    plan: Callable[[str], Any]
    known: KnowledgePoint | None = None
    at: Any = None

    def sql(self, text: str) -> Any:
        """A query as of then: a `Stream`, or with `at` its answer at that instant, a table.

        Raises:
            PlanError: It is not one query, or a stream that it reads has no archive.
            QueryError: It is wrong.
        """
        statements = list(read_statements(text))
        if len(statements) != 1 or not isinstance(statements[0], Select):
            raise PlanError(
                "as of another time one query can be asked",
                where="as_of(...).sql(...)",
                hint="declare streams and views with engine.sql(...) before, and pass a SELECT",
            )
        query: Stream = self.plan(text)
        if self.known is not None:
            node, sources = as_known(query.node, query.sources, self.known)
            query = replace(query, node=node, sources=sources)
        return query if self.at is None else query.snapshot(self.at)

    def stream(self, name: str) -> Any:
        """All columns of a stream or view as of then."""
        return self.sql(f"SELECT * FROM {name}")
