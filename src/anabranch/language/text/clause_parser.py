"""What our clauses are made of: amounts with units, named arguments, closing brackets."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.language.text.script import Script, Span
from anabranch.language.text.time_units import UNITS, unit_named
from anabranch.language.text.window_text import Amount


class ClauseParser(SparkParser):
    """Spark's parser, which also reads the parts of clauses that Spark does not have."""

    def _amount_or_text(self) -> str:
        """A word, a text, or a number of units of time."""
        if self._curr.token_type in (TokenType.STRING, TokenType.VAR):
            self._advance()
            return str(self._prev.text)
        amount = self._amount("a value")
        return amount.written

    def _argument_name(self) -> str | None:
        """`SIZE =>`."""
        if self._next.token_type not in (TokenType.FARROW, TokenType.ARROW):
            return None
        name = self._curr.text.upper()
        self._advance(2)
        return name

    def _demand_name(self, wanted: str, hint: str) -> None:
        """The name of the next argument, if it has one, must be this."""
        at = self._curr
        name = self._argument_name()
        if name not in (None, wanted):
            raise self._wrong(f"there is no argument '{name}' here", at, hint)

    def _partition(self) -> tuple[exp.Expr, ...]:
        if not self._match(TokenType.PARTITION_BY):
            return ()
        return tuple(self._parse_csv(self._parse_assignment))

    def _columns_before_sizes(self) -> tuple[exp.Expr, ...]:
        """`PARTITION BY a, b`, in front of other arguments."""
        found: list[exp.Expr] = []
        more = self._match(TokenType.PARTITION_BY)
        while more:
            column = self._parse_column()
            found += [column] if column else []
            more = (
                self._curr.token_type == TokenType.COMMA
                and self._next.token_type in self.IDENTIFIER_TOKENS
                and self._next.text.upper() not in ("DESCRIPTOR", "TIMECOL", "SIZE", "GAP")
            )
            self._advance(int(more))
        return tuple(found)

    def _amount(self, what: str) -> Amount:
        """`10`, `10 MINUTES`, `INTERVAL '10' MINUTE` or `'10 minutes'`."""
        first = self._curr
        self._match(TokenType.INTERVAL)
        sign = "-" if self._match(TokenType.DASH) else ""
        word = self._curr
        if self._match(TokenType.STRING):
            count, _, rest = word.text.strip().partition(" ")
            unit = rest.strip().upper() or None
        elif self._match(TokenType.NUMBER):
            count, unit = f"{sign}{word.text}", None
        else:
            raise self._wrong(
                f"{what} is missing",
                word,
                "write a positive number, for times with a unit: 10 MINUTES",
            )
        if unit is None and (named := unit_named(self._curr.text)) is not None:
            unit = named
            self._advance()
        elif unit is None and self._curr.token_type == TokenType.VAR and not self._is_word("SLIDE"):
            raise self._wrong(
                f"'{self._curr.text}' is not a unit of time",
                self._curr,
                f"units are: {', '.join(UNITS)}, also in the plural",
            )
        return Amount(count, unit, (first.start, self._prev.end + 1))

    def _close(self, closing: TokenType, hint: str) -> None:
        if not self._match(closing):
            word = self._curr
            what = f"'{word.text}' is not expected here" if word else "the text ends too early"
            raise self._wrong(what, word, hint)

    def _is_word(self, word: str) -> bool:
        return bool(self._curr) and self._curr.text.upper() == word

    def _wrong(self, what: str, token: Token, hint: str) -> Exception:
        token = token or self._prev
        span: Span = (token.start, token.end + 1)
        return Script(self.sql).wrong(what, span, hint)
