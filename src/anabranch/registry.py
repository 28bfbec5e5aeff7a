"""The names that SQL knows in one engine, and what statements do to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace as replaced
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, final

import pyarrow as pa
from sqlglot import exp

from anabranch.algebra.analysis.edges import as_edges
from anabranch.algebra.modules.user_operator import Template
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.errors import AnabranchError, PlanError
from anabranch.expressions.expression import Expression, TypeOracle
from anabranch.expressions.scalar_function import Functions, ScalarFunction
from anabranch.language.bind.select import bind_query
from anabranch.language.names.catalog import ArchiveEntry, Catalog, CatalogEntry
from anabranch.language.names.catalog_tables import describe_entry, show_entries
from anabranch.language.names.context import Context
from anabranch.language.names.operators import OperatorCatalog, show_functions
from anabranch.language.names.taken import kind_in_sql, taken_in_python, taken_in_sql
from anabranch.language.text.axis_dialect import AXIS_WINDOWS
from anabranch.language.text.script import Script
from anabranch.language.text.statements import (
    CreateDerived,
    CreateFunction,
    CreateSource,
    Describe,
    Drop,
    Show,
)
from anabranch.language.text.stream_dialect import STREAM_FUNCTIONS
from anabranch.rebinding import BoundQuery, Wrong, bind_anew
from anabranch.runtime.option import NAME, Option
from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.declare.declared_in_sql import checked_durations, declared_in_sql
from anabranch.runtime.sources.declare.known_source import known_source
from anabranch.runtime.sources.files.delta_table import DELTA
from anabranch.runtime.sources.spec import KnowledgePoint
from anabranch.runtime.spark.source_functions import Connect, resolve_path
from anabranch.userops.bases import operator_of
from anabranch.userops.library import default_library

MODULE_NAME: Final = Option(name="name", kind=NAME)


@final
class Registry:
    """Streams, relations, views and functions by name; case does not count."""

    def __init__(self, modules: Mapping[str, Template] | None = None) -> None:
        """No names yet but those of modules; None: those that are installed."""
        self._entries: dict[str, CatalogEntry] = {}
        self._functions: dict[str, CreateFunction] = {}
        self._scalars: dict[str, ScalarFunction] = {}
        self._sources: dict[str, Any] = {}
        self._again: dict[str, Callable[[], BoundQuery]] = {}
        self.connectors: dict[str, Connect] = {}
        self._taken: set[str] = set()
        library = default_library if modules is None else lambda: modules
        self.modules: OperatorCatalog = OperatorCatalog(library, self._scalars)

    @property
    def catalog(self) -> Catalog:
        """All names, as queries see them."""
        return Catalog(
            MappingProxyType(self._entries),
            MappingProxyType(self._functions),
            self.modules,
        )

    @property
    def scalars(self) -> Functions:
        """The functions that were written in Python."""
        self.modules.load()
        return MappingProxyType(self._scalars)

    def plan(self, query: exp.Query, script: Script, text: str, types: TypeOracle) -> BoundQuery:
        """The plan of a query; `types` knows what only Spark evaluates."""
        in_workers = partial(Expression.parse, functions=self.scalars.values())
        context = Context(
            script=script,
            catalog=self.catalog,
            scalar=partial(in_workers, types=types),
            in_workers=in_workers,
        )
        node = bind_query(query.copy(), context)
        for name, leaf in context.known.items():
            known = KnowledgePoint(revision=leaf.revision, instant=leaf.instant)
            self._sources[name] = known_source(self._sources[leaf.entry], name, known)
        return BoundQuery(
            node=node, notes=tuple(context.notes), uses=frozenset(context.used), text=text
        )

    def name_for(self, name: str | None, source: Any) -> str:
        """The name that was given, or one after the path that no other stream has."""
        if name is not None:
            self._taken.add(name)
            return name
        stem = "stream"
        if isinstance(source, str | Path):
            source = str(source).removeprefix(DELTA)
            stem = Path(source).stem.strip("*.") or Path(source).parent.name or stem
        chosen, number = stem, 1
        while chosen in self._taken or chosen.lower() in self._entries:
            number += 1
            chosen = f"{stem}{number}"
        self._taken.add(chosen)
        return chosen

    def sources_of(self, node: Node) -> dict[str, Any]:
        """Where the leaves of a plan come from."""
        names = [each.name for each in node.walk() if isinstance(each, Source)]
        return {name: self._sources[name] for name in names}

    def add_leaf(
        self,
        leaf: Source,
        source: Any,
        hidden: tuple[str, ...] = (),
        time: str | None = None,
        edges: tuple[str, ...] | None = None,
        *,
        replace: bool = False,
        wrong: Wrong = PlanError,
        taken: Callable[[CatalogEntry], AnabranchError] | None = None,
    ) -> None:
        """A stream or relation from outside gets its name; the same one again changes nothing.

        `time` is the column of its start; its rows may be edges by a key. With `replace` it takes
        the place of what has the name, and what is derived from that is bound anew. `wrong` makes
        an error out of what happened and a hint, and `taken` one where something else has the name.

        Raises:
            PlanError: Something else has the name; or something derived does not bind any more.
        """
        node = leaf if edges is None else as_edges(leaf, edges)
        entry = CatalogEntry(
            name=leaf.name,
            kind="table" if leaf.relation else "stream",
            node=node,
            hidden=hidden,
            time=time,
            archive=_archive_of(source),
        )
        existing = self._entries.get(leaf.name.lower())
        if existing is not None and not replace:
            if existing == entry and self._sources.get(leaf.name) == source:
                return
            raise taken(existing) if taken is not None else taken_in_python(leaf, existing)
        with self._changed(leaf.name, wrong):
            if existing is not None:
                self._sources.pop(existing.name, None)
            self._again.pop(leaf.name.lower(), None)
            self._sources[leaf.name] = source
            self._entries[leaf.name.lower()] = entry

    @contextmanager
    def _changed(self, name: str | None, wrong: Wrong) -> Iterator[None]:
        """Change names, then bind anew what is derived from one of them; all of it, or nothing.

        Without a name everything that is derived is bound anew.
        """
        kept: tuple[dict[str, Any], ...] = (
            self._entries,
            self._sources,
            self._functions,
            self._scalars,
            self._again,
        )
        before = [dict(names) for names in kept]
        try:
            yield
            bind_anew(self._entries, self._again, name, wrong)
        except BaseException:
            for names, old in zip(kept, before):
                names.clear()
                names.update(old)
            raise

    def declare(
        self, statement: CreateSource, describe: Callable[[Declared], tuple[Any, Source]]
    ) -> None:
        """`CREATE STREAM ... SOURCE` and `CREATE TABLE`; the same one again changes nothing."""
        try:
            checked_durations(statement)
            declared = declared_in_sql(statement)
            if declared.archive is not None:
                path = resolve_path(declared.archive, statement.script.name)
                declared = replaced(declared, archive=path)
            source, leaf = describe(declared)
        except AnabranchError as problem:
            problem.where = problem.where or f"source '{statement.name}'"
            raise
        times = [name for name in (statement.start, statement.end) if name is not None]
        hidden = tuple(name for name in times if name not in leaf.schema.names)
        edges = statement.edges
        self.add_leaf(
            leaf,
            source,
            hidden,
            statement.start,
            edges,
            replace=statement.replace,
            wrong=_at(statement),
            taken=partial(taken_in_sql, statement),
        )

    def derive(
        self,
        statement: CreateDerived,
        planned: BoundQuery,
        again: Callable[[], BoundQuery] | None = None,
    ) -> CatalogEntry:
        """`CREATE STREAM ... AS` and `CREATE VIEW`; `again` plans the query anew.

        The same definition again changes nothing.
        """
        entry = CatalogEntry(
            name=statement.name,
            kind="view" if statement.kind == "VIEW" else "derived",
            node=planned.node,
            query=planned.text,
            uses=planned.uses,
        )
        existing = self._entries.get(statement.name.lower())
        if existing is not None and not statement.replace:
            if existing == entry:
                return existing
            raise taken_in_sql(statement, existing)
        with self._changed(statement.name, _at(statement)):
            self._entries[statement.name.lower()] = entry
            self._again[statement.name.lower()] = again or (lambda: planned)
        return entry

    def define(self, statement: CreateFunction) -> None:
        """`CREATE FUNCTION`."""
        key = statement.name.lower()
        existing = self._functions.get(key) or self._scalars.get(key)
        if existing is not None and not statement.replace:
            raise statement.script.wrong(
                f"there is already a function '{existing.name}'",
                statement.span,
                "write CREATE OR REPLACE FUNCTION",
            )
        if key in self.modules:
            raise statement.script.wrong(
                f"'{statement.name}' is a module: {self.modules[key].signature}",
                statement.span,
                "choose another name; a module takes precedence over a function",
            )
        if statement.name.upper() in AXIS_WINDOWS:
            raise statement.script.wrong(
                f"{statement.name.upper()} is a window of the time axis",
                statement.span,
                "choose another name",
            )
        with self._changed(None, _at(statement)):
            self._scalars.pop(key, None)
            self._functions[key] = statement

    def register(self, module: Any, name: str | None = None, *, replace: bool = False) -> None:
        """A module or a function written in Python gets its name; case does not count.

        Raises:
            PlanError: It is neither, or the name is no word, or is taken.
        """
        if name is not None:
            MODULE_NAME.checked(name, where="Engine.register(...)")
        module = operator_of(module)
        if not isinstance(module, Template | ScalarFunction):
            raise PlanError(
                f"{module!r} cannot be registered",
                where="Engine.register",
                hint="put @anabranch.uda, @anabranch.udo or @anabranch.udf above it",
            )
        wanted = (name or module.name).lower()
        where = f"register {module.signature}"
        reserved = wanted.upper() in AXIS_WINDOWS or wanted.upper() in STREAM_FUNCTIONS
        if not wanted.isidentifier() or reserved:
            raise PlanError(
                f"a module cannot be called '{wanted}'",
                where=where,
                hint="give it a name of letters and digits that no window and no stream "
                "function has: name='...'",
            )
        if not replace:
            self._refuse_known(wanted, module, where)
        before = self.modules.get(wanted)
        try:
            with self._changed(None, PlanError):
                self._functions.pop(wanted, None)
                if isinstance(module, ScalarFunction):
                    named = module if module.name == wanted else replaced(module, name=wanted)
                    self._scalars[wanted] = named
                else:
                    self.modules.add(wanted, module)
        except AnabranchError:
            if before is not None:
                self.modules.add(wanted, before)
            raise

    def _refuse_known(self, name: str, module: Template | ScalarFunction, where: str) -> None:
        found = self._scalars.get(name) or self.modules.get(name)
        if name in self._functions:
            problem = f"there is already a function '{name}'"
        elif found is not None and found != module:
            kind = "function" if isinstance(found, ScalarFunction) else "module"
            problem = f"there is already a {kind} '{name}': {found.signature}"
        else:
            return
        raise PlanError(
            problem,
            where=where,
            hint="give it another name: name='...'; or replace the existing one: replace=True",
        )

    def drop(self, statement: Drop, running: Mapping[str, frozenset[str]]) -> None:
        """`DROP`, unless something depends on the name: an entry, or a query that runs."""
        key, script = statement.name.lower(), statement.script
        if statement.kind == "FUNCTION":
            with self._changed(None, _at(statement)):
                found = self._functions.pop(key, None) or self._scalars.pop(key, None)
            if found is None and not statement.if_exists:
                made = [each.name for each in self._functions.values()] + list(self._scalars)
                names = ", ".join(made) or "none"
                raise script.wrong(
                    f"unknown function '{statement.name}'", statement.span, f"there are: {names}"
                )
            return
        entry = self._entries.get(key)
        if entry is None:
            if statement.if_exists:
                return
            hint = self.catalog.nearest(statement.name)
            raise script.wrong(
                f"unknown {statement.kind.lower()} '{statement.name}'", statement.span, hint
            )
        _refuse_other_kind(statement, entry)
        users = [other.name for other in self._entries.values() if entry.name in other.uses]
        if users:
            raise script.wrong(
                f"'{entry.name}' is used by {', '.join(users)}",
                statement.span,
                f"drop {users[0]} first",
            )
        busy = [name for name, uses in running.items() if entry.name in uses or name == entry.name]
        if busy:
            raise script.wrong(
                f"'{entry.name}' is used by the running query {', '.join(busy)}",
                statement.span,
                f"stop {busy[0]} first",
            )
        del self._entries[key]
        self._again.pop(key, None)
        self._sources.pop(entry.name, None)

    def show(self, statement: Show) -> pa.Table:
        """`SHOW STREAMS`, `SHOW TABLES`, `SHOW VIEWS`, `SHOW FUNCTIONS`."""
        if statement.what == "FUNCTIONS":
            return show_functions(self._functions, self.scalars, self.modules)
        return show_entries(self._entries.values(), statement.what)

    def describe(self, statement: Describe) -> pa.Table:
        """`DESCRIBE name`: its columns; of a function what it takes and gives."""
        entry = self._entries.get(statement.name.lower())
        if entry is not None and statement.kind is not None:
            _refuse_other_kind(statement, entry)
        if entry is None or statement.kind == "FUNCTION":
            functions = show_functions(self._functions, self.scalars, self.modules)
            names = [each.lower() for each in functions["name"].to_pylist()]
            if statement.name.lower() in names:
                return functions.slice(names.index(statement.name.lower()), 1)
            raise statement.script.wrong(
                f"unknown stream '{statement.name}'",
                statement.span,
                self.catalog.nearest(statement.name),
            )
        return describe_entry(entry)


def _archive_of(source: Any) -> ArchiveEntry | None:
    """Where the rows of a source are kept, for the catalog."""
    spec = getattr(source, "archive", None)
    if spec is None:
        return None
    revised = "; late rows revise results" if source.promise.late == "revise" else ""
    return ArchiveEntry(spec.path, f"{spec.label(source.promise.clock)}{revised}")


def _refuse_other_kind(statement: Drop | Describe, entry: CatalogEntry) -> None:
    """`DROP TABLE` does not mean a stream of that name."""
    kind = kind_in_sql(entry)
    if statement.kind not in (kind, "FUNCTION"):
        raise statement.script.wrong(
            f"'{entry.name}' is a {kind.lower()}, not a {str(statement.kind).lower()}",
            statement.span,
            f"write {kind} {entry.name}",
        )


def _at(statement: CreateSource | CreateDerived | CreateFunction | Drop) -> Wrong:
    """Errors that point at a statement."""

    def wrong(what: str, *, hint: str) -> AnabranchError:
        return statement.script.wrong(what, statement.span, hint)

    return wrong
