"""How functions of streams are read: `SHIFT(Bid, 5 MINUTES)` in FROM."""

from __future__ import annotations

from typing import Any, Final, Protocol

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.language.text.window_text import Amount, ArgumentText, StreamFunctionText

STREAM_FUNCTIONS: Final = {
    "ISTREAM": "ISTREAM(stream)",
    "DSTREAM": "DSTREAM(stream [, anchor => 'last_valid' | 'first_invalid'])",
    "RSTREAM": "RSTREAM(stream)",
    "COALESCE": "COALESCE(stream)",
    "CANONICAL": "CANONICAL(stream)",
    "SPLIT": "SPLIT(stream, length)",
    "SHIFT": "SHIFT(stream, duration)",
    "CLIP": "CLIP(stream [, start] [, end])",
    "LIFETIME": "LIFETIME(stream, duration => size | extend => size | at_most => size)",
    "CLEANSE": "CLEANSE(stream [, cut => FALSE])",
    "TO_SIGNED": "TO_SIGNED(stream [, column => 'sign'])",
    "FROM_SIGNED": "FROM_SIGNED(stream [, column => 'sign'])",
    "MAX_UNION": "MAX_UNION(stream, stream)",
    "STRICT_DIFFERENCE": "STRICT_DIFFERENCE(stream, stream)",
}
"""Functions of streams, and how they are written."""

TWO_STREAMS: Final = ("MAX_UNION", "STRICT_DIFFERENCE")
_QUERY: Final = (TokenType.SELECT, TokenType.WITH)


class StreamParser(Protocol):
    """What is needed of a parser."""

    _curr: Token
    _next: Token
    _prev: Token

    def _advance(self, times: int = 1) -> None: ...
    def _match(self, token_type: TokenType, advance: bool = True) -> Any: ...
    def _parse_table(self) -> exp.Expr | None: ...
    def _parse_statement(self) -> exp.Expr | None: ...
    def _argument_name(self) -> str | None: ...
    def _amount(self, what: str) -> Amount: ...
    def _close(self, closing: TokenType, hint: str) -> None: ...
    def _wrong(self, what: str, token: Token, hint: str) -> Exception: ...


def read_stream_function(reader: StreamParser) -> exp.Expr | None:
    """A function of streams, if its name and a parenthesis are next."""
    first = reader._curr
    name = first.text.upper()
    if name not in STREAM_FUNCTIONS or reader._next.token_type != TokenType.L_PAREN:
        return None
    hint = f"write {STREAM_FUNCTIONS[name]}"
    reader._advance(2)
    tables = [_stream(reader, name, hint)]
    given: list[ArgumentText] = []
    named: list[tuple[str, ArgumentText]] = []
    while reader._match(TokenType.COMMA):
        if name in TWO_STREAMS and len(tables) < 2:
            tables.append(_stream(reader, name, hint))
            continue
        key = reader._argument_name()
        argument = _argument(reader, hint)
        if key is not None:
            named.append((key.lower(), argument))
        elif named:
            raise reader._wrong(
                "an argument without a name follows one with a name", reader._prev, hint
            )
        else:
            given.append(argument)
    if isinstance(tables[-1].this, exp.Query) and not tables[-1].meta.get("wrapped", True):
        hint = f"{hint}; put a query in parentheses if something follows it"
    reader._close(TokenType.R_PAREN, hint)
    made = exp.Table(this=exp.Anonymous(this=name))
    made.meta["stream_function"] = StreamFunctionText(
        name=name,
        tables=tuple(tables),
        given=tuple(given),
        named=tuple(named),
        span=(first.start, reader._prev.end + 1),
    )
    return made


def _stream(reader: StreamParser, name: str, hint: str) -> exp.Expr:
    """A stream as in FROM, or a query, which needs no parentheses of its own here."""
    at = reader._curr
    if at.token_type in _QUERY:
        bare = exp.Subquery(this=reader._parse_statement())
        bare.meta["wrapped"] = False
        return bare
    named = at.token_type in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.L_PAREN)
    is_function = at.text.upper() in STREAM_FUNCTIONS
    table = reader._parse_table() if named or is_function else None
    if table is None:
        raise reader._wrong(f"{name} needs the name of a stream, or a query", at, hint)
    return table


def _argument(reader: StreamParser, hint: str) -> ArgumentText:
    at = reader._curr
    if at.token_type == TokenType.TIMESTAMP:
        reader._advance()
    word = reader._curr
    plain = word.text.replace("_", "a").isalnum() and not word.text[:1].isdigit()
    if word.token_type == TokenType.STRING or (plain and word.token_type != TokenType.INTERVAL):
        reader._advance()
        return ArgumentText(str(word.text), None, (at.start, reader._prev.end + 1))
    if word.token_type not in (TokenType.NUMBER, TokenType.DASH, TokenType.INTERVAL):
        raise reader._wrong("an argument is missing", word, hint)
    amount = reader._amount("an argument")
    return ArgumentText(amount.text, amount.unit, amount.span)
