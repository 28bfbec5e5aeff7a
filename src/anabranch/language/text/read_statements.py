"""From the text of a script to its statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Final, TypeAlias

from sqlglot.tokenizer_core import Token

from anabranch.language.text.foreign import CREATED, STATEMENTS, refuse_watermark
from anabranch.language.text.read_source import read_create_source
from anabranch.language.text.script import Script
from anabranch.language.text.statements import (
    AddQuery,
    AlterQuery,
    CreateDerived,
    CreateFunction,
    Describe,
    Drop,
    DropQuery,
    EntryKind,
    Explain,
    Include,
    Select,
    Show,
    Statement,
)
from anabranch.language.text.words import Words, parse_query, parse_scalar, tokenize

Reader: TypeAlias = Callable[[Words], Statement]

_CREATE_HINT: Final = (
    "write CREATE STREAM name (columns) SOURCE 'path' ORDERED BY column, CREATE STREAM name AS "
    "query, CREATE TABLE name SOURCE 'path', CREATE VIEW name AS query or CREATE FUNCTION"
)
_FUNCTION_HINT: Final = "write CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE RETURN x * 2"
_SHOWN: Final = ("STREAMS", "TABLES", "VIEWS", "FUNCTIONS", "QUERIES")


def read_script(script: Script) -> list[Statement]:
    """All statements of a script, in order.

    Raises:
        QueryError: One of them is not a statement.
    """
    return [_read(script, tokens) for tokens in tokenize(script)]


def _read(script: Script, tokens: list[Token]) -> Statement:
    words = Words(script, tokens)
    reader = READERS.get(words.word)
    if reader is None and words.word not in ("SELECT", "WITH", "(", "FROM"):
        near = get_close_matches(words.word, ("SELECT", "WITH", *READERS), 1)
        guess = f"did you mean {near[0]}? " if near else ""
        words_allowed = ", ".join(("SELECT", "WITH", *(word for word in READERS if word != "DESC")))
        raise words.wrong(
            f"'{tokens[0].text}' does not begin a statement",
            STATEMENTS.get(words.word, f"{guess}statements begin with: {words_allowed}"),
        )
    if reader is None:
        return Select(script=script, span=words.span, query=parse_query(script, tokens))
    words.take(words.word)
    return reader(words)


def _read_create(words: Words) -> Statement:
    replace = words.take("OR", "REPLACE")
    words.take("TEMPORARY") or words.take("TEMP")
    if words.take("FUNCTION"):
        return _read_function(words, replace)
    kinds: tuple[EntryKind, ...] = ("STREAM", "TABLE", "VIEW")
    kind = next((each for each in kinds if words.take(each)), None)
    if kind is None:
        hint = CREATED.get(words.word, _CREATE_HINT)
        raise words.wrong("CREATE what? Name a STREAM, TABLE, VIEW or FUNCTION", hint)
    refuse_watermark(words.script, words.tokens)
    if words.take("IF", "NOT", "EXISTS"):
        raise words.wrong(
            "IF NOT EXISTS is not supported", "write CREATE OR REPLACE to replace a definition"
        )
    name = words.name(f"the name of the {kind.lower()}", _CREATE_HINT)
    if words.take("AS"):
        if kind == "TABLE":
            raise words.wrong(
                "a table cannot be defined by a query",
                "define a derived stream: CREATE STREAM name AS query",
            )
        if words.done:
            raise words.wrong("the query is missing", f"write CREATE {kind} {name} AS SELECT ...")
        query = parse_query(words.script, words.rest())
        return CreateDerived(
            script=words.script,
            span=words.span,
            name=name,
            query=query,
            kind=kind,
            replace=replace,
        )
    if kind == "VIEW":
        raise words.wrong(
            "a view must be defined by a query", "write CREATE VIEW name AS SELECT ..."
        )
    return read_create_source(words, name, relation=kind == "TABLE", replace=replace)


def _read_function(words: Words, replace: bool) -> CreateFunction:
    name = words.name("the name of the function", _FUNCTION_HINT)
    words.demand("(", _FUNCTION_HINT)
    parameters: list[tuple[str, str]] = []
    while not words.take(")"):
        if parameters:
            words.demand(",", _FUNCTION_HINT)
        parameter = words.name("the name of a parameter", _FUNCTION_HINT)
        kind = _written(words, words.until(",", ")"))
        if not kind:
            raise words.wrong(f"the type of '{parameter}' is missing", _FUNCTION_HINT)
        parameters.append((parameter, kind))
    returns = None
    if words.take("RETURNS"):
        returns = _written(words, words.until("RETURN", "AS")) or None
    if not (words.take("RETURN") or words.take("AS")):
        raise words.wrong("the function has no RETURNS type", _FUNCTION_HINT)
    if words.done:
        raise words.wrong("the expression is missing", _FUNCTION_HINT)
    return CreateFunction(
        script=words.script,
        span=words.span,
        name=name,
        parameters=tuple(parameters),
        returns=returns,
        body=parse_scalar(words.script, words.rest()),
        replace=replace,
    )


def _written(words: Words, tokens: list[Token]) -> str:
    return words.script.text[tokens[0].start : tokens[-1].end + 1] if tokens else ""


def _read_drop(words: Words) -> Statement:
    hint = (
        "write DROP STREAM name, DROP TABLE name, DROP VIEW name, DROP FUNCTION name or DROP QUERY "
        "name"
    )
    if words.take("QUERY"):
        left = words.name("the name of a running query", hint)
        words.end(hint)
        return DropQuery(script=words.script, span=words.span, name=left)
    kinds: tuple[EntryKind, ...] = ("STREAM", "TABLE", "VIEW", "FUNCTION")
    kind = next((each for each in kinds if words.take(each)), None)
    if kind is None:
        raise words.wrong("DROP what? Name a STREAM, TABLE, VIEW, FUNCTION or QUERY", hint)
    if_exists = words.take("IF", "EXISTS")
    name = words.name("the name", hint)
    words.end(hint)
    return Drop(script=words.script, span=words.span, kind=kind, name=name, if_exists=if_exists)


def _read_alter(words: Words) -> Statement:
    hint = "write ALTER QUERY name AS SELECT ..."
    words.demand("QUERY", hint)
    name = words.name("the name of a running query", hint)
    words.demand("AS", hint)
    if words.done:
        raise words.wrong("the query is missing", hint)
    query = parse_query(words.script, words.rest())
    return AlterQuery(script=words.script, span=words.span, name=name, query=query)


def _read_add(words: Words) -> Statement:
    hint = "write ADD QUERY name TO 'folder' AS SELECT ..."
    words.demand("QUERY", hint)
    name = words.name("a name for the query", hint)
    to = words.text("where its results go", hint) if words.take("TO") else None
    words.demand("AS", hint)
    if words.done:
        raise words.wrong("the query is missing", hint)
    query = parse_query(words.script, words.rest())
    return AddQuery(script=words.script, span=words.span, name=name, to=to, query=query)


def _read_show(words: Words) -> Statement:
    hint = f"write SHOW {', SHOW '.join(_SHOWN[:-1])} or SHOW {_SHOWN[-1]}"
    what = next((each for each in _SHOWN if words.take(each)), None)
    if what is None:
        raise words.wrong("SHOW what? Name a list that exists", hint)
    words.end(hint)
    return Show(script=words.script, span=words.span, what=what)


def _read_describe(words: Words) -> Statement:
    hint = "write DESCRIBE name, or DESCRIBE STREAM name"
    kinds: tuple[EntryKind, ...] = ("STREAM", "TABLE", "VIEW", "FUNCTION")
    kind = next((each for each in kinds if words.take(each)), None)
    name = words.name("the name", hint)
    words.end(hint)
    return Describe(script=words.script, span=words.span, name=name, kind=kind)


def _read_explain(words: Words) -> Statement:
    if words.done:
        raise words.wrong("the query is missing", "write EXPLAIN SELECT ...")
    query = parse_query(words.script, words.rest())
    return Explain(script=words.script, span=words.span, query=query)


def _read_include(words: Words) -> Statement:
    hint = "write INCLUDE 'streams.sql'"
    path = words.text("the path of a script", hint)
    words.end(hint)
    return Include(script=words.script, span=words.span, path=path)


READERS: Final[Mapping[str, Reader]] = {
    "CREATE": _read_create,
    "DROP": _read_drop,
    "ALTER": _read_alter,
    "ADD": _read_add,
    "SHOW": _read_show,
    "DESCRIBE": _read_describe,
    "DESC": _read_describe,
    "EXPLAIN": _read_explain,
    "INCLUDE": _read_include,
}
