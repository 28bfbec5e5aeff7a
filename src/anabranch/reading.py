"""The statements of a script, with those of the scripts that it includes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from anabranch.errors import PlanError
from anabranch.language.text.read_statements import read_script
from anabranch.language.text.script import Script
from anabranch.language.text.statements import Include, Statement
from anabranch.runtime.option import shown
from anabranch.runtime.spark.source_functions import resolve_path

DEEPEST_INCLUDE: Final = 16
"""So many scripts may include one another in a row; more is taken for a cycle."""


def read_statements(text: str, name: str | None = None) -> Iterator[Statement]:
    """The statements of a text, in order; `name` is the path of its script, if it has one.

    Raises:
        PlanError: It is no text.
        QueryError: A statement cannot be read, or a script that is included.
    """
    given: Any = text
    if not isinstance(given, str):
        raise PlanError(
            f"a script must be a string, not {shown(given)}",
            where="engine.sql(...)",
            hint="pass the statements themselves; for a file: engine.sql(path.read_text())",
        )
    yield from _read(Script(text, name), 0)


def _read(script: Script, depth: int) -> Iterator[Statement]:
    for statement in read_script(script):
        if not isinstance(statement, Include):
            yield statement
            continue
        if depth >= DEEPEST_INCLUDE:
            raise script.wrong(
                "scripts include each other in a cycle",
                statement.span,
                "remove one of the INCLUDE statements",
            )
        path = resolve_path(statement.path, script.name)
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError:
            raise script.wrong(
                f"the script '{statement.path}' cannot be read",
                statement.span,
                "give its path from here, or from the folder of this script",
            ) from None
        yield from _read(Script(text, path), depth + 1)
