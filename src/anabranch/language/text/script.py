"""A text with statements, and errors that point into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.expressions.scalar_sql import point_at

Span = tuple[int, int]
"""Where something stands in a text: from its first character up to, not including, its end."""


@final
@dataclass(frozen=True, slots=True)
class Script:
    """The text of some statements; `name` is where it comes from, if it is a file."""

    text: str
    name: str | None = None

    def wrong(self, what: str, at: Span | exp.Expr | None, hint: str) -> QueryError:
        """An error with its line, and carets below the span."""
        span = self._span(at)
        where = "" if span is None else point_at(self.text, *span)
        if self.name is not None and where:
            where = f"{self.name}, {where}".replace("\n", "\n" + " " * (len(self.name) + 2))
        return QueryError(what, where=where or (self.name or ""), hint=hint)

    def written(self, at: Span | exp.Expr) -> str:
        """The text of a span as it was written, on one line."""
        span = self._span(at)
        return "" if span is None else " ".join(self.text[span[0] : span[1]].split())

    def _span(self, at: Span | exp.Expr | None) -> Span | None:
        """Where something stands; brackets that it opens are closed."""
        if not isinstance(at, exp.Expr):
            return at
        span = span_of(at)
        if span is None:
            return None
        start, end = span
        written = self.text[start:end]
        for _ in range(written.count("(") - written.count(")")):
            behind = self.text[end:].lstrip()
            if not behind.startswith(")"):
                break
            end = len(self.text) - len(behind) + 1
        return start, end


def span_of(tree: exp.Expr) -> Span | None:
    """Where a part of a parsed text stands: from its first word with a position to its last."""
    found = [
        (node.meta["start"], node.meta["end"] + 1)
        for node in tree.walk()
        if "start" in node.meta and node.meta.get("end") is not None
    ]
    if not found:
        return None
    return min(start for start, _ in found), max(end for _, end in found)
