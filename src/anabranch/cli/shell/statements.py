"""What the shell says about each kind of statement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import typer

from anabranch.cli.shell.names import quoted
from anabranch.cli.tables import show_table
from anabranch.display.text_table import cells, numeric
from anabranch.language.text.read_statements import read_script
from anabranch.language.text.script import Script
from anabranch.language.text.statements import (
    AddQuery,
    AlterQuery,
    CreateDerived,
    CreateFunction,
    CreateSource,
    Describe,
    Drop,
    DropQuery,
    Explain,
    Include,
    Select,
    Show,
)
from anabranch.runtime.spark.source_functions import resolve_path

if TYPE_CHECKING:
    from anabranch.cli.shell.session import ShellSession
    from anabranch.engine import Engine


def run_statement(session: ShellSession, text: str, name: str | None) -> None:
    """Run one statement and tell what came of it.

    Raises:
        AnabranchError: It is wrong.
    """
    for statement in read_script(Script(text, name)):
        if isinstance(statement, Include):
            session.run_file(str(Path(resolve_path(statement.path, name))))
            continue
        result = session.engine.sql(text, name=name)
        match statement:
            case CreateSource(relation=relation, name=made):
                _say_created(session.engine, "table" if relation else "stream", made)
            case CreateDerived(kind=kind, name=made):
                _say_created(session.engine, kind.lower(), made)
            case CreateFunction(name=made):
                typer.echo(f"created function {made}", err=True)
            case Drop(kind=kind, name=dropped):
                typer.echo(f"dropped {kind.lower()} {dropped}", err=True)
            case DropQuery(name=left):
                typer.echo(f"query {left} has left", err=True)
            case Show() | Describe() | AlterQuery() | AddQuery():
                _show(result)
            case Explain():
                typer.echo(result["plan"][0].as_py().rstrip())
            case Select():
                session.run_query(result)


def _say_created(engine: Engine, kind: str, name: str) -> None:
    rows = engine.sql(f"DESCRIBE {quoted(name)}").to_pylist()
    columns = ", ".join(f"{row['column']} {row['type']}" for row in rows if not row["remark"])
    typer.echo(f"created {kind} {name} ({columns})", err=True)


def _show(table: pa.Table) -> None:
    if not table.num_rows:
        typer.echo("there are none", err=True)
        return
    rows = table.combine_chunks().to_batches()[0]
    show_table(table.column_names, cells(rows), numeric(table.schema))
