"""What `CREATE STREAM` and `CREATE TABLE` declare of a source."""

from __future__ import annotations

from typing import Final

from anabranch.errors import StreamError
from anabranch.language.statements import (
    CreateSource,
)
from anabranch.model.time import Duration, parse_duration
from anabranch.runtime.declared import Declared
from anabranch.runtime.source_spec import Limits

_OPTIONS: Final = ("max_rows_per_batch", "max_files_per_batch", "ends", "kind", "copies")


def declared_in_sql(statement: CreateSource, chronon: Duration | None) -> Declared:
    """What a statement says of its source; times count in chronons.

    Raises:
        QueryError: There is no such option.
        StreamError: Late rows shall be revised.
    """
    unknown = [name for name in statement.options if name not in _OPTIONS]
    own = statement.source.function is not None and statement.source.function.lower() == "spark"
    if unknown and not own:
        raise statement.script.wrong(
            f"there is no option '{unknown[0]}'",
            statement.span,
            f"options are: {', '.join(_OPTIONS)}",
        )
    options = statement.options
    usual = Limits() if not statement.relation else Limits(None, None)
    limits = Limits(
        options.get("max_rows_per_batch", usual.rows),
        options.get("max_files_per_batch", usual.files),
    )
    if statement.late == "revise":
        raise StreamError(
            "late rows cannot be revised yet",
            where=f"source '{statement.name}'",
            hint="write LATE DROP, LATE ADJUST or LATE FAIL",
        )
    return Declared(
        name=statement.name,
        start=_spelled(statement, statement.start),
        end=_spelled(statement, statement.end),
        kind=options.get("kind"),
        schema=statement.columns,
        delay=_in_chronons(statement.delay, chronon),
        late=statement.late or "drop",  # type: ignore[arg-type]
        heartbeat=_in_microseconds(statement.heartbeat, chronon),
        chronon=chronon,
        ends=bool(options.get("ends", statement.relation)),
        limits=limits,
        relation=statement.relation,
        hides_times=not statement.keep,
        unique=statement.unique,
        may_be_stamped=not statement.relation,
        copies=bool(options.get("copies", False)),
    )


def _in_chronons(text: str | None, chronon: Duration | None) -> Duration | None:
    """A duration in steps of the stream's time."""
    if text is None or chronon is None or text.isdigit():
        return None if text is None else parse_duration(text)
    return Duration(parse_duration(text) // chronon)


def _in_microseconds(text: str | None, chronon: Duration | None) -> Duration | None:
    """A duration by the clock."""
    if text is None or chronon is None or not text.isdigit():
        return None if text is None else parse_duration(text)
    return Duration(parse_duration(text) * chronon)


def _spelled(statement: CreateSource, name: str | None) -> str | None:
    """A column as it was declared, whatever the case of its letters."""
    if name is None or statement.columns is None:
        return name
    spelled = {known.lower(): str(known) for known in statement.columns.names}
    return spelled[name.lower()]
