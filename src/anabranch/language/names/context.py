"""What the parts of the binder share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import final

import pyarrow as pa
from sqlglot import exp

from anabranch.algebra.node import Node
from anabranch.errors import AnabranchError, QueryError
from anabranch.expressions.expression import Expression, ParseScalar
from anabranch.expressions.spark_text import intervals, rewrite
from anabranch.language.names.catalog import Catalog, CatalogEntry
from anabranch.language.names.functions import expand_functions
from anabranch.language.names.scope import Scope
from anabranch.language.text.script import Script, Span, span_of


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLeaf:
    """A stream as it was known: of which entry, after which revision or at which instant.

    An instant is in microseconds since 1970 (UTC).
    """

    entry: str
    revision: int | None = None
    instant: int | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The text, the names there are, and what was noticed on the way.

    Attributes:
        script: The text of the query.
        catalog: Streams, relations, views, functions.
        named: The queries of WITH, by name in small letters.
        notes: Remarks for the author of the query.
        used: The names of entries that the query reads.
        known: The leaves that are read from archives, by name.
        scalar: Reads a scalar expression over some columns.
        in_workers: The same where Spark cannot stand in for workers.
    """

    script: Script
    catalog: Catalog
    scalar: ParseScalar = Expression.parse
    in_workers: ParseScalar = Expression.parse
    named: Mapping[str, CatalogEntry] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    known: dict[str, KnownLeaf] = field(default_factory=dict)

    def with_named(self, entry: CatalogEntry) -> Context:
        """The same with one more name."""
        return replace(self, named={**self.named, entry.name.lower(): entry})

    def wrong(self, what: str, at: Span | exp.Expr | None, hint: str) -> QueryError:
        """An error that points into the text."""
        return self.script.wrong(what, at, hint)

    def resolve(self, tree: exp.Expr, scope: Scope) -> exp.Expr:
        """An expression in terms of the plan: names of columns and of functions replaced."""
        root = expand_functions(tree, self.catalog.functions, self.script)
        holder = exp.Paren(this=root.copy())
        for column in list(holder.find_all(exp.Column)):
            if not isinstance(column.this, exp.Star) and not column.meta.get("plan"):
                column.replace(scope.resolve(column, self.script))
        inner: exp.Expr = holder.this
        inner.pop()
        return inner

    def bind(self, tree: exp.Expr, schema: pa.Schema, at: exp.Expr | None = None) -> Expression:
        """A resolved expression over the columns of a plan; errors point at what was written."""
        try:
            return self.scalar(rewrite(tree, intervals).sql(dialect="spark"), schema)
        except QueryError as problem:
            raise self.wrong(problem.what, at if at is not None else tree, problem.hint) from None

    def build(self, at: Span | exp.Expr | None, make: Callable[[], Node]) -> Node:
        """A node; what is wrong with it is said of the place in the text."""
        try:
            return make()
        except AnabranchError as problem:
            span = span_of(at) if isinstance(at, exp.Expr) else at
            if span is None:
                raise
            raise self.wrong(problem.what, span, problem.hint) from None
