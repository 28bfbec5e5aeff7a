"""The words of a statement, read one after the other."""

from __future__ import annotations

from typing import Final, final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.language.text.dialect import Anabranch
from anabranch.language.text.foreign import refuse_foreign_query
from anabranch.language.text.script import Script, Span
from anabranch.language.text.time_units import unit_named
from anabranch.language.text.unused import refuse_unused

_CLAUSES: Final = (
    "FROM WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT QUALIFY JOIN ON".split()  # noqa: SIM905
)
_BEFORE: Final = "remove the comma, or write what should follow it"


def tokenize(script: Script) -> list[list[Token]]:
    """The words of every statement.

    Raises:
        QueryError: The text cannot be cut into words.
    """
    try:
        tokens = sqlglot.tokenize(script.text, dialect=Anabranch)
    except TokenError:
        raise script.wrong(
            "the text cannot be split into tokens",
            _open_quote(script.text),
            "look for a quote or a comment that is never closed",
        ) from None
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [statement for statement in found if statement]


def parse_query(script: Script, tokens: list[Token]) -> exp.Query:
    """A SELECT, or several under set operations.

    Raises:
        QueryError: The words do not make a query.
    """
    _refuse_stray_commas(script, tokens)
    _refuse_pipes(script, tokens)
    refuse_foreign_query(script, tokens)
    tree = _parsed(script, tokens)
    _refuse_what_is_no_query(tree, script, tokens)
    refuse_unused(tree, script, tokens)
    while isinstance(tree, exp.Subquery) and not tree.args.get("alias") and tree.this is not None:
        inner = tree.this
        if any(tree.args.get(key) for key in ("order", "limit", "joins", "with_")):
            break
        tree = inner
    _refuse_what_is_no_query(tree, script, tokens)
    assert isinstance(tree, exp.Query)
    return tree


def _refuse_what_is_no_query(tree: exp.Expr, script: Script, tokens: list[Token]) -> None:
    if not isinstance(tree, exp.Query) or isinstance(tree, exp.Values | exp.Table):
        raise script.wrong(
            "this is not a query",
            (tokens[0].start, tokens[-1].end + 1),
            "write SELECT ... FROM ...",
        )


def parse_scalar(script: Script, tokens: list[Token]) -> exp.Expr:
    """One expression."""
    parser = Anabranch().parser()
    try:
        trees = parser.parse_into(exp.Condition, tokens, script.text)
    except ParseError as error:
        raise syntax_error(script, error, tokens[-1]) from None
    (tree,) = trees
    assert tree is not None
    refuse_unused(tree, script, tokens)
    return tree


def _parsed(script: Script, tokens: list[Token]) -> exp.Expr:
    parser = Anabranch().parser()
    try:
        trees = parser.parse(tokens, script.text)
    except ParseError as error:
        raise syntax_error(script, error, tokens[-1]) from None
    (tree,) = trees
    assert tree is not None
    return tree


def syntax_error(script: Script, error: ParseError, last: Token) -> Exception:
    """What the parser says, in three parts; `last` is the last word there is."""
    first = error.errors[0] if error.errors else {}
    word = str(first.get("highlight") or "")
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    line_start = sum(len(part) + 1 for part in script.text.split("\n")[: line - 1])
    span: Span = (max(line_start + column - len(word), 0), line_start + column)
    description = str(first.get("description", ""))
    at_end = span[1] == last.end + 1
    if description.startswith("Expecting"):
        missing = description.removeprefix("Expecting ")
        what = f"'{missing}' is missing {'after' if at_end else 'before'} '{word}'"
    elif description.startswith("Required") or at_end:
        what = f"something is missing after '{word}'"
    else:
        what = f"'{word}' is not expected here"
    hint = (
        "a query is SELECT columns FROM streams WHERE condition GROUP BY columns HAVING condition"
    )
    return script.wrong(what, span, hint)


def _refuse_pipes(script: Script, tokens: list[Token]) -> None:
    """The parser would put the clauses behind `|>` into the query before it."""
    for token in tokens:
        if token.token_type == TokenType.PIPE_GT:
            raise script.wrong(
                "|> is not supported",
                (token.start, token.end + 1),
                "write a nested query: SELECT ... FROM (SELECT ...) WHERE ...",
            )


def _refuse_stray_commas(script: Script, tokens: list[Token]) -> None:
    """The parser would read over them."""
    for this, after, behind in zip(tokens, [*tokens[1:], None], [*tokens[2:], None, None]):
        if this.token_type != TokenType.COMMA:
            continue
        if behind is not None and behind.token_type == TokenType.FARROW:
            continue  # a parameter may be called like a clause: limit => 20
        if after is None:
            raise script.wrong("the text ends with a comma", (this.start, this.end + 1), _BEFORE)
        word = after.text.upper()
        quoted = after.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
        if not quoted and (word.split()[0] in _CLAUSES or word == ")"):
            span = (this.start, this.end + 1)
            raise script.wrong(f"there is a comma before {word}", span, _BEFORE)


def _open_quote(text: str) -> Span:
    quote = max((text.rfind(mark) for mark in "'\"`"), default=0)
    start = max(quote, 0)
    return start, start + 1


@final
class Words:
    """A cursor over the words of one statement."""

    def __init__(self, script: Script, tokens: list[Token]) -> None:
        """Begin at the first word."""
        self.script = script
        self.tokens = tokens
        self.at: int = 0

    @property
    def span(self) -> Span:
        """Where the statement stands."""
        return self.tokens[0].start, self.tokens[-1].end + 1

    @property
    def here(self) -> Span:
        """The next word, or the end."""
        token = self.tokens[min(self.at, len(self.tokens) - 1)]
        return token.start, token.end + 1

    @property
    def word(self) -> str:
        """The next word in capitals; nothing at the end, and for texts in quotes."""
        if self.done or self.tokens[self.at].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return str(self.tokens[self.at].text).upper()

    @property
    def next_kind(self) -> TokenType | None:
        """The kind of the word behind the next one; None at the end."""
        return self.tokens[self.at + 1].token_type if self.at + 1 < len(self.tokens) else None

    @property
    def done(self) -> bool:
        """Whether all words are read."""
        return self.at >= len(self.tokens)

    def take(self, *words: str) -> bool:
        """Read these words, if they are next."""
        before = self.at
        for wanted in words:
            if self.word != wanted:
                self.at = before
                return False
            self.at += 1
        return True

    def demand(self, word: str, hint: str) -> None:
        """Read a word that must be there."""
        if not self.take(word):
            raise self.wrong(self._unexpected(), hint)

    def name(self, what: str, hint: str) -> str:
        """Read a name."""
        if self.done:
            raise self.wrong(f"{what} is missing", hint)
        token = self.tokens[self.at]
        plain = token.text.replace("_", "a").isalnum() and not token.text[0].isdigit()
        if token.token_type == TokenType.STRING or not (
            plain or token.token_type == TokenType.IDENTIFIER
        ):
            raise self.wrong(f"{what} is missing", hint)
        self.at += 1
        return str(token.text)

    def text(self, what: str, hint: str) -> str:
        """Read a text in quotes."""
        if self.done or self.tokens[self.at].token_type != TokenType.STRING:
            raise self.wrong(f"{what} is missing", hint)
        self.at += 1
        return str(self.tokens[self.at - 1].text)

    def duration(self, what: str) -> str:
        """Read `5 SECONDS`, `INTERVAL '5' SECOND`, `'5 seconds'` or a count of chronons."""
        self.take("INTERVAL")
        if self.done or self.tokens[self.at].token_type not in (
            TokenType.NUMBER,
            TokenType.STRING,
        ):
            raise self.wrong(f"{what} is missing", "write a number and a unit: 5 SECONDS")
        count = str(self.tokens[self.at].text)
        self.at += 1
        unit = unit_named(self.word)
        if unit is None:
            return count
        self.at += 1
        return f"{count} {unit.lower().removesuffix('s')}"

    def until(self, *closing: str) -> list[Token]:
        """The words up to one of these, outside all brackets."""
        start, depth = self.at, 0
        while not self.done:
            word = self.tokens[self.at].text
            kind = self.tokens[self.at].token_type
            quoted = kind in (TokenType.STRING, TokenType.IDENTIFIER)
            if depth == 0 and not quoted and word.upper() in closing:
                break
            depth += (not quoted) * ((word in "([<") - (word in ")]>")) * bool(word)
            self.at += 1
        return self.tokens[start : self.at]

    def rest(self) -> list[Token]:
        """All words that are left."""
        start, self.at = self.at, len(self.tokens)
        return self.tokens[start:]

    def end(self, hint: str) -> None:
        """There must be no more words."""
        if not self.done:
            raise self.wrong(self._unexpected(), hint)

    def wrong(self, what: str, hint: str) -> Exception:
        """An error at the next word."""
        return self.script.wrong(what, self.here, hint)

    def _unexpected(self) -> str:
        if self.done:
            return "the statement ends too early"
        return f"'{self.tokens[self.at].text}' is not expected here"
