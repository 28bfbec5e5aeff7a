"""What is wrong with a declaration of a name that something else has."""

from __future__ import annotations

from anabranch.algebra.source import Source
from anabranch.errors import AnabranchError, PlanError
from anabranch.language.names.catalog import CatalogEntry
from anabranch.language.text.statements import CreateDerived, CreateSource


def taken_in_python(leaf: Source, existing: CatalogEntry) -> AnabranchError:
    """The error of `engine.stream` and `engine.relation`."""
    method = "engine.relation" if leaf.relation else "engine.stream"
    return PlanError(
        f"there is already a {_kind(existing)} '{existing.name}'",
        where=f"{method}(..., name='{leaf.name}') declares another one",
        hint=f"to replace it write {method}(..., name='{existing.name}', replace=True); or choose "
        "another name",
    )


def taken_in_sql(statement: CreateSource | CreateDerived, existing: CatalogEntry) -> AnabranchError:
    """The error of `CREATE`."""
    return statement.script.wrong(
        f"there is already a {_kind(existing)} '{existing.name}'",
        statement.span,
        f"choose another name, DROP it first, or write CREATE OR REPLACE {kind_in_sql(existing)}",
    )


def _kind(entry: CatalogEntry) -> str:
    return "derived stream" if entry.kind == "derived" else entry.kind


def kind_in_sql(entry: CatalogEntry) -> str:
    """The word of SQL for its kind."""
    return {"table": "TABLE", "view": "VIEW"}.get(entry.kind, "STREAM")
