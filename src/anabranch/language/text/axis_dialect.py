"""How windows of the time axis, and modules in FROM, are read."""

from __future__ import annotations

from typing import Any, Final, Protocol

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.language.text.script import Span
from anabranch.language.text.window_text import Amount, AxisWindowText, OperatorText

AXIS_WINDOWS: Final = {
    "HOPPING": "HOPPING(size, hop [, OFFSET size])",
    "TUMBLING": "TUMBLING(size [, OFFSET size])",
    "SNAPSHOT": "SNAPSHOT()",
    "COUNTING": "COUNTING(number [, BY START | BY END])",
    "SESSION": "SESSION(gap)",
}
"""Windows of the time axis, and how they are written."""


class AxisParser(Protocol):
    """What is needed of a parser."""

    _curr: Token
    _next: Token
    _prev: Token
    _tokens: list[Token]
    _index: int

    def _advance(self, times: int = 1) -> None: ...
    def _match(self, token_type: TokenType, advance: bool = True) -> Any: ...
    def _parse_table(self) -> exp.Expr | None: ...
    def _parse_column(self) -> exp.Expr | None: ...
    def _parse_assignment(self) -> exp.Expr | None: ...
    def _argument_name(self) -> str | None: ...
    def _amount(self, what: str) -> Amount: ...
    def _close(self, closing: TokenType, hint: str) -> None: ...
    def _is_word(self, word: str) -> bool: ...
    def _wrong(self, what: str, token: Token, hint: str) -> Exception: ...


def read_axis_window(reader: AxisParser, function: str) -> exp.Expr:
    """What stands in the parentheses of `HOPPING(...)` and its like, up to the last one."""
    first = reader._tokens[reader._index - 2]
    hint = f"write {AXIS_WINDOWS[function]}, then options: clip => 'full'"
    amounts: list[Amount] = []
    options: list[tuple[str, str, Span]] = []
    offset: Amount | None = None
    by_end = False
    more = reader._curr.token_type != TokenType.R_PAREN
    while more:
        at, name = reader._curr, reader._argument_name()
        if name == "OFFSET" or (name is None and reader._is_word("OFFSET")):
            reader._advance(int(name is None))
            offset = reader._amount("the offset of the windows")
        elif name is None and reader._is_word("BY"):
            reader._advance()
            if function != "COUNTING" or reader._curr.text.upper() not in ("START", "END"):
                raise reader._wrong("BY START and BY END belong in COUNTING", at, hint)
            by_end = reader._is_word("END")
            reader._advance()
        elif name is None:
            amounts.append(reader._amount(f"a size for {function}"))
        else:
            value = _word(reader, hint)
            options.append((name.lower(), value, (at.start, reader._prev.end + 1)))
        more = bool(reader._match(TokenType.COMMA))
    # The parser takes the closing parenthesis itself.
    if not reader._match(TokenType.R_PAREN, advance=False):
        reader._close(TokenType.R_PAREN, hint)
    window = exp.Anonymous(this=function)
    window.meta.update(start=first.start, end=reader._curr.end)
    window.meta["axis_window"] = AxisWindowText(
        function=function,
        amounts=tuple(amounts),
        offset=offset,
        by_end=by_end,
        options=tuple(options),
        span=(first.start, reader._curr.end + 1),
    )
    return window


def read_operator(reader: AxisParser) -> exp.Expr:
    """`name(stream [PARTITION BY ...], columns, window, parameters)`; the name is next."""
    first = reader._curr
    name = first.text
    hint = f"write {name}(stream [PARTITION BY column], columns, window, parameters)"
    reader._advance(2)
    reader._match(TokenType.TABLE)
    table = reader._parse_table()
    if table is None:
        raise reader._wrong(f"{name} needs a stream", reader._curr, hint)
    partition = _partition(reader, hint)
    arguments: list[exp.Expr] = []
    named: list[tuple[str, exp.Expr]] = []
    windows: list[AxisWindowText] = []
    while reader._match(TokenType.COMMA):
        at, key = reader._curr, reader._argument_name()
        value = reader._parse_assignment()
        if value is None:
            raise reader._wrong(f"an argument of {name} is missing", at, hint)
        if "axis_window" in value.meta:
            windows.append(value.meta["axis_window"])
        elif key is not None:
            named.append((key.lower(), value))
        else:
            arguments.append(value)
    reader._close(TokenType.R_PAREN, hint)
    made = exp.Table(this=exp.Anonymous(this=name))
    made.meta["module"] = OperatorText(
        name=name,
        table=table,
        partition_by=partition,
        arguments=tuple(arguments),
        named=tuple(named),
        windows=tuple(windows),
        span=(first.start, reader._prev.end + 1),
    )
    return made


def _partition(reader: AxisParser, hint: str) -> tuple[exp.Expr, ...]:
    """`PARTITION BY a`, or `PARTITION BY (a, b)`: a comma would begin the next argument."""
    if not reader._match(TokenType.PARTITION_BY):
        return ()
    several = bool(reader._match(TokenType.L_PAREN))
    found: list[exp.Expr] = []
    more = True
    while more:
        column = reader._parse_assignment() if several else reader._parse_column()
        if column is None:
            raise reader._wrong("PARTITION BY needs a column", reader._curr, hint)
        found.append(column)
        more = several and bool(reader._match(TokenType.COMMA))
    if several:
        reader._close(TokenType.R_PAREN, hint)
    return tuple(found)


def _word(reader: AxisParser, hint: str) -> str:
    """The value of an option: a text, a word, TRUE or FALSE."""
    word = reader._curr
    if word.token_type != TokenType.STRING and not word.text.replace("_", "").isalnum():
        raise reader._wrong("the value of an option is missing", word, hint)
    reader._advance()
    return str(word.text)
