"""`CREATE STREAM name (columns) SOURCE ... ORDERED BY ...`."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from anabranch.errors import QueryError
from anabranch.language.text.script import Span
from anabranch.language.text.statements import CreateSource, SourceCall
from anabranch.language.text.types import parse_type
from anabranch.language.text.words import Words

_HINT: Final = (
    "write CREATE STREAM name (column TYPE, ...) SOURCE 'path' [ORDERED BY column [KEEP] "
    "[UNTIL column]] [EDGES [BY column, ...]] [ORDERED [TIES]] [KEYED] [DELAY duration] "
    "[HEARTBEAT duration] [LATE DROP | ADJUST | FAIL | REVISE] [ARCHIVE 'path'] "
    "[KEEP duration | count ROWS] [CHRONON duration] "
    "[RATE count [PER duration]] [DISTINCT (column count, ...)] [WITH (option = value, ...)]"
)
_KEEP_HINT: Final = (
    "write KEEP 30 DAYS, KEEP 10000000 ROWS, or both: KEEP 30 DAYS, 10000000 ROWS; for times that "
    "are whole numbers KEEP 500 CHRONONS"
)
_POLICIES: Final = ("DROP", "ADJUST", "FAIL", "REVISE")


def read_create_source(words: Words, name: str, *, relation: bool, replace: bool) -> CreateSource:
    """The rest of the statement, behind the name."""
    columns, unique = _columns(words) if words.take("(") else (None, ())
    if not (words.take("SOURCE") or words.take("FROM")):
        raise words.wrong(f"'{name}' has no SOURCE", _HINT)
    source = _source(words)
    found: dict[str, Any] = {}
    while not words.done:
        clause, value = _clause(words)
        if clause in found:
            raise words.wrong(f"{clause.upper()} is given twice", _HINT)
        found[clause] = value
    start, keep, end = found.pop("ordered by", (None, False, None))
    age, rows = found.pop("keep", (None, None))
    _check_time(words, name, columns, start, end)
    return CreateSource(
        script=words.script,
        span=words.span,
        name=name,
        source=source,
        columns=columns,
        relation=relation,
        start=start,
        end=end,
        keep=keep,
        keep_age=age,
        keep_rows=rows,
        options=found.pop("with", {}),
        unique=unique,
        replace=replace,
        **found,
    )


def _columns(words: Words) -> tuple[pa.Schema, tuple[tuple[str, ...], ...]]:
    """Columns with types, and which of them are unique."""
    fields: dict[str, pa.Field] = {}
    unique: list[tuple[str, ...]] = []
    while True:
        if words.take("UNIQUE") or words.take("PRIMARY", "KEY"):
            unique.append(_key(words, list(fields)))
            if words.take(")"):
                break
            words.demand(",", _HINT)
            continue
        name = words.name("the name of a column", _HINT)
        at = words.here
        tokens = words.until(",", ")", "UNIQUE", "PRIMARY")
        if not tokens:
            raise words.wrong(f"the type of '{name}' is missing", f"write {name} INT")
        span = (tokens[0].start, tokens[-1].end + 1)
        try:
            kind = parse_type(words.script.text[slice(*span)])
        except QueryError as problem:
            raise words.script.wrong(problem.what, span, problem.hint) from None
        if name.lower() in fields:
            raise words.script.wrong(
                f"there are two columns '{name}'", at, "give every column a name of its own"
            )
        fields[name.lower()] = pa.field(name, kind)
        if words.take("UNIQUE") or words.take("PRIMARY", "KEY"):
            unique.append((name.lower(),))
        if words.take(")"):
            break
        words.demand(",", _HINT)
    spelled = {lower: field.name for lower, field in fields.items()}
    sets = tuple(tuple(spelled[name] for name in names) for names in unique)
    return pa.schema(list(fields.values())), sets


def _key(words: Words, columns_named: list[str]) -> tuple[str, ...]:
    """`(a, b)` behind UNIQUE."""
    hint = "write UNIQUE (column, ...) after the columns"
    words.demand("(", hint)
    names = []
    while True:
        name = words.name("a column", hint).lower()
        if name not in columns_named:
            raise words.wrong(f"there is no column '{name}' before UNIQUE", hint)
        names.append(name)
        if words.take(")"):
            return tuple(names)
        words.demand(",", hint)


def _source(words: Words) -> SourceCall:
    span = words.here
    if not words.done and words.tokens[words.at].token_type == TokenType.STRING:
        return SourceCall(function=None, arguments=(words.text("the path", _HINT),), span=span)
    function = words.name("a path or a function", _HINT)
    arguments: list[Any] = []
    words.demand("(", "write a path in quotes, or a function: SOURCE connect('port34100')")
    while not words.take(")"):
        if arguments:
            words.demand(",", _HINT)
        arguments.append(_literal(words))
    return SourceCall(function=function, arguments=tuple(arguments), span=span)


def _literal(words: Words) -> Any:
    """A text, a number, TRUE or FALSE."""
    if words.done:
        raise words.wrong("a value is missing", _HINT)
    token = words.tokens[words.at]
    if token.token_type == TokenType.STRING:
        words.at += 1
        return token.text
    sign = -1 if words.take("-") else 1
    token = words.tokens[min(words.at, len(words.tokens) - 1)]
    if token.token_type == TokenType.NUMBER:
        words.at += 1
        return sign * (int(token.text) if token.text.isdigit() else float(token.text))
    for word, value in (("TRUE", True), ("FALSE", False)):
        if words.take(word):
            return value
    raise words.wrong(f"'{token.text}' is not a value", "write a string in quotes or a number")


def _clause(words: Words) -> tuple[str, Any]:
    if words.take("ORDERED", "BY"):
        start = words.name("the column of time", _HINT)
        keep = _keeps_column(words)
        end = words.name("the column with the end", _HINT) if words.take("UNTIL") else None
        return "ordered by", (start, keep or _keeps_column(words), end)
    if words.take("EDGES"):
        return "edges", _edges(words) if words.take("BY") else ()
    if words.take("ORDERED"):
        return "ordered", "ties" if words.take("TIES") else True
    if words.take("KEYED"):
        return "keyed", True
    for clause in ("DELAY", "HEARTBEAT", "CHRONON"):
        if words.take(clause):
            return clause.lower(), words.duration(f"the duration of {clause}")
    if words.take("LATE"):
        policy = next((each for each in _POLICIES if words.take(each)), None)
        if policy is None:
            raise words.wrong(
                "LATE needs a policy for late rows",
                "write LATE DROP, LATE ADJUST, LATE FAIL or LATE REVISE",
            )
        return "late", policy.lower()
    if words.take("RATE"):
        return "rate", _rate(words)
    if words.take("DISTINCT"):
        return "distinct", _value_counts(words)
    if words.take("ARCHIVE"):
        return "archive", _archive(words)
    if words.take("KEEP"):
        return "keep", _keep(words)
    if words.take("WITH"):
        return "with", _options(words)
    raise words.wrong(f"'{words.tokens[words.at].text}' is not expected here", _HINT)


def _keeps_column(words: Words) -> bool:
    """KEEP behind the column of time; with a bound behind it, it is that of the archive."""
    if words.word != "KEEP" or words.next_kind in (TokenType.NUMBER, TokenType.STRING):
        return False
    return words.next_kind != TokenType.INTERVAL and words.take("KEEP")


def _archive(words: Words) -> str:
    hint = "write ARCHIVE and a folder: ARCHIVE 'archive/quotes'"
    at = words.here
    path = words.text("the folder of ARCHIVE", hint)
    if not path.strip():
        raise words.script.wrong("the folder of ARCHIVE is empty", at, hint)
    return path


def _keep(words: Words) -> tuple[str | None, int | None]:
    """`30 DAYS`, `1000 ROWS`, or both of them; the word KEEP may stand before each."""
    age: str | None = None
    rows: int | None = None
    while True:
        at = words.here
        bound = words.duration("the bound of KEEP")
        if words.take("ROWS") or words.take("ROW"):
            if rows is not None:
                raise words.script.wrong("KEEP has a number of rows twice", at, _KEEP_HINT)
            rows = _row_count(words, bound, at)
        else:
            if age is not None:
                raise words.script.wrong("KEEP has an age twice", at, _KEEP_HINT)
            if bound.replace(".", "").isdigit() and not words.take("CHRONONS"):
                raise words.script.wrong(
                    f"'{bound}' has no unit: is it an age or a number of rows?", at, _KEEP_HINT
                )
            age = bound
        if not (words.take(",") or words.take("KEEP")):
            return age, rows


def _row_count(words: Words, count: str, at: Span) -> int:
    if not count.isdigit() or not int(count):
        raise words.script.wrong(f"'{count}' is not a number of rows", at, _KEEP_HINT)
    return int(count)


def _rate(words: Words) -> str:
    """`600 PER MINUTE`, `5 PER 10 SECONDS`, or a number alone, per second or chronon."""
    count = _number(words, "the number of rows of RATE", "write RATE 600 PER MINUTE")
    if not words.take("PER"):
        return str(count)
    has_count = not words.done and words.tokens[words.at].token_type == TokenType.NUMBER
    if has_count:
        return f"{count} per {words.duration('the time of RATE')}"
    return f"{count} per {words.name('the unit of time of RATE', 'write RATE 600 PER MINUTE')}"


def _value_counts(words: Words) -> dict[str, float]:
    """`(item 1000, bidder 50)` behind DISTINCT."""
    hint = "write DISTINCT (column count, ...), such as DISTINCT (item 1000)"
    words.demand("(", hint)
    found: dict[str, float] = {}
    while True:
        name = words.name("a column", hint)
        if name.lower() in map(str.lower, found):
            raise words.wrong(f"the column '{name}' is named twice in DISTINCT", hint)
        found[name] = _number(words, f"the number of values of '{name}'", hint)
        if words.take(")"):
            return found
        words.demand(",", hint)


def _number(words: Words, what: str, hint: str) -> float:
    if words.done or words.tokens[words.at].token_type != TokenType.NUMBER:
        raise words.wrong(f"{what} is missing", hint)
    number = _literal(words)
    assert isinstance(number, int | float)
    return number


def _edges(words: Words) -> tuple[str, ...]:
    """The columns behind EDGES BY."""
    names = [words.name("the key of the edges", _HINT)]
    while words.take(","):
        names.append(words.name("the key of the edges", _HINT))
    return tuple(names)


def _options(words: Words) -> dict[str, Any]:
    hint = "write WITH (max_rows_per_batch = 10000)"
    words.demand("(", hint)
    found: dict[str, Any] = {}
    while not words.take(")"):
        if found:
            words.demand(",", hint)
        quoted = not words.done and words.tokens[words.at].token_type == TokenType.STRING
        name = words.text("an option", hint) if quoted else words.name("an option", hint)
        words.demand("=", hint)
        if name in found:
            raise words.wrong(f"the option '{name}' is given twice", hint)
        found[name] = _literal(words)
    return found


def _check_time(
    words: Words, name: str, columns: pa.Schema | None, start: str | None, end: str | None
) -> None:
    if columns is None:
        return
    columns_named = [column.lower() for column in columns.names]
    for column in (start, end):
        if column is not None and column.lower() not in columns_named:
            raise words.script.wrong(
                f"'{name}' is ordered by '{column}', which is not one of its columns",
                words.span,
                f"declare it: {column} TIMESTAMP; columns are: {', '.join(columns.names)}",
            )
