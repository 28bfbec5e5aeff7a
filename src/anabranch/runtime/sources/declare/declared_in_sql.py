"""What `CREATE STREAM` and `CREATE TABLE` declare of a source."""

from __future__ import annotations

from typing import Any

from anabranch.errors import PlanError
from anabranch.language.text.statements import CreateSource
from anabranch.model.clock import chronon_of
from anabranch.runtime.option import LARGEST, POSITIVE_DURATION, UnfitError, unknown_option
from anabranch.runtime.sources.archive_bounds import Keep
from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.expectations import value_counts
from anabranch.runtime.sources.options import IN_WITH, SOURCE_OPTIONS
from anabranch.runtime.sources.spec import Limits


def declared_in_sql(statement: CreateSource) -> Declared:
    """What a statement says of its source.

    Raises:
        QueryError: There is no such option, or it does not take this value.
    """
    options = own_options(statement)
    usual = Limits() if not statement.relation else Limits(None, None)
    limits = Limits(
        options.get("max_rows_per_batch", usual.rows),
        options.get("max_files_per_batch", usual.files),
    )
    return Declared(
        name=statement.name,
        start=_spelled(statement, statement.start),
        end=_spelled(statement, statement.end),
        kind=options.get("kind"),
        schema=statement.columns,
        delay=statement.delay,
        late=statement.late or "drop",  # type: ignore[arg-type]
        archive=statement.archive,
        keep=Keep(statement.keep_age, statement.keep_rows),
        heartbeat=statement.heartbeat,
        chronon=None if statement.chronon is None else chronon_of(statement.chronon),
        ends=options.get("ends", statement.relation),
        limits=limits,
        relation=statement.relation,
        hides_times=not statement.keep,
        unique=statement.unique,
        rate=statement.rate,
        distinct=value_counts(statement.distinct),
        ordered=statement.ordered,
        keyed=statement.keyed,
        may_be_stamped=not statement.relation,
        copies=options.get("copies", False),
        given=frozenset([*options, *_clauses(statement)]),
    )


def own_options(statement: CreateSource) -> dict[str, Any]:
    """The options of `WITH` that are ours, checked; case does not count.

    Those of `spark(...)` go to Spark, all but the column with the kind, which Spark does not know.

    Raises:
        QueryError: There is no such option, it is said twice, or does not take this value.
    """
    found: dict[str, Any] = {}
    for name, value in statement.options.items():
        option = name.lower()
        if statement.source.is_spark and option != "kind":
            continue
        if option not in IN_WITH:
            what, hint = unknown_option(name, IN_WITH)
            raise statement.script.wrong(what, statement.span, hint)
        if option in found:
            raise statement.script.wrong(
                f"the option '{option}' is given twice", statement.span, "leave one of them out"
            )
        try:
            found[option] = SOURCE_OPTIONS[option].checked_text(value, where="WITH")
        except PlanError as problem:
            raise statement.script.wrong(problem.what, statement.span, problem.hint) from None
    return found


def _clauses(statement: CreateSource) -> list[str]:
    """The options that stand in clauses of their own."""
    clauses = {
        "start": statement.start,
        "end": statement.end,
        "schema": statement.columns,
        "delay": statement.delay,
        "late": statement.late,
        "archive": statement.archive,
        "keep": statement.keep_age or statement.keep_rows,
        "heartbeat": statement.heartbeat,
        "chronon": statement.chronon,
        "ordered": statement.ordered or None,
        "keyed": statement.keyed or None,
        "unique": statement.unique or None,
        "rate": statement.rate,
        "distinct": statement.distinct,
        "edges": statement.edges,
    }
    return [name for name, value in clauses.items() if value is not None]


def checked_durations(statement: CreateSource) -> None:
    """Check the durations of a statement one by one, before they meet the stream.

    Raises:
        QueryError: One of them is none.
    """
    durations = {
        "delay": statement.delay,
        "heartbeat": statement.heartbeat,
        "chronon": statement.chronon,
    }
    for clause in ("rate", "distinct"):
        _check_expected(statement, clause)
    if statement.keep_age is not None:
        _check_age(statement, statement.keep_age)
    if statement.keep_rows is not None and statement.keep_rows > LARGEST:
        raise statement.script.wrong(
            f"KEEP cannot count {statement.keep_rows} rows",
            statement.span,
            f"the largest number is {LARGEST}; leave it out to keep every row",
        )
    for name, value in durations.items():
        option = SOURCE_OPTIONS[name]
        try:
            option.checked(value, where=str(option.clause))
        except PlanError as problem:
            what = problem.what.replace(name, str(option.clause), 1)
            hint = f"write {option.clause} 5 SECONDS, or leave it out"
            raise statement.script.wrong(what, statement.span, hint) from None


def _check_age(statement: CreateSource, age: str) -> None:
    try:
        POSITIVE_DURATION.check(age)
    except UnfitError:
        raise statement.script.wrong(
            f"KEEP must have an age above 0, not '{age}'",
            statement.span,
            "write KEEP 30 DAYS, or leave it out to keep every row",
        ) from None


def _check_expected(statement: CreateSource, clause: str) -> None:
    """Refuse numbers of rows and of values that cannot be meant."""
    option = SOURCE_OPTIONS[clause]
    try:
        option.checked(getattr(statement, clause), where=str(option.clause))
    except PlanError as problem:
        example = "RATE 600 PER MINUTE" if clause == "rate" else "DISTINCT (item 1000)"
        what = problem.what.replace(clause, str(option.clause), 1)
        raise statement.script.wrong(
            what, statement.span, f"write {example}, or leave it out"
        ) from None


def _spelled(statement: CreateSource, name: str | None) -> str | None:
    """A column as it was declared, whatever the case of its letters."""
    if name is None or statement.columns is None:
        return name
    spelled = {each.lower(): str(each) for each in statement.columns.names}
    return spelled[name.lower()]
