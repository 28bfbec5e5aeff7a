"""Spark's SQL with windows in FROM (Kraemer 2007, figure 7.1), as a dialect of sqlglot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import ClassVar, Final, Literal, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.aggregates.table import SQL_NAMES
from anabranch.expressions.functions.names import AGGREGATES, SCALARS, WINDOW_FUNCTIONS
from anabranch.expressions.spark_text import OF_THEIR_OWN, Written
from anabranch.language.text.axis_dialect import (
    AXIS_WINDOWS,
    AxisParser,
    read_axis_window,
    read_operator,
)
from anabranch.language.text.clause_parser import ClauseParser
from anabranch.language.text.script import Span
from anabranch.language.text.stream_dialect import STREAM_FUNCTIONS, read_stream_function
from anabranch.language.text.window_text import (
    Amount,
    AxisText,
    GranularityText,
    KnownText,
    MergeText,
    WindowText,
)

AXIS_FUNCTIONS: Final = ("TUMBLE", "HOP", "SESSION")
_OTHER_WINDOWS: Final = {
    "TUMB": "it is a function: FROM TUMBLE(Bid, 10 MINUTES)",
    "HOPP": "it is a function: FROM HOP(Bid, 1 MINUTE, 10 MINUTES)",
    "HOP": "it is a function: FROM HOP(Bid, 1 MINUTE, 10 MINUTES)",
    "SLID": "write WINDOW(RANGE 10 MINUTES SLIDE 1 MINUTE)",
    "SESS": "it is a function: FROM SESSION(Bid, 10 MINUTES)",
}
_SHAPE: Final = "WINDOW([PARTITION BY columns] RANGE | ROWS size [SLIDE size])"
_MERGE: Final = "write MERGE(stream, stream, ...), then options: inserts => 'leading'"
CALLED: Final = "called"
"""Where a call keeps the name that was written: functions have several."""

_AGGREGATES: Final = AGGREGATES | SQL_NAMES.keys()
"""Those of Spark, of which some are refused, and those of the table."""

_KNOWN: Final = _AGGREGATES | SCALARS


_BEGINS_STREAM: Final = (
    *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.L_PAREN, TokenType.TABLE),
)


def _axis_window(name: str, parser: AxisParser) -> exp.Expr:
    return read_axis_window(parser, name)


E = TypeVar("E", bound=exp.Expr)


class _Percentile(exp.Quantile):
    """`PERCENTILE(x, p)`; a third argument is remembered, so that it can be refused."""

    @classmethod
    def from_arg_list(cls, args: Sequence[exp.Expr]) -> exp.Quantile:  # type: ignore[override]
        call = exp.Quantile.from_arg_list(list(args[:2]))
        call.meta["frequencies"] = len(args) > 2
        call.meta[CALLED] = "PERCENTILE"
        return call


class Anabranch(Spark):
    """The dialect: `anabranch` for sqlglot."""

    ORIGINAL_NAME_META_KEY: str = CALLED

    class Tokenizer(Spark.Tokenizer):
        """No word swallows what is behind it; two quotes in a text are one, as in Spark 4."""

        COMMANDS: ClassVar[set[TokenType]] = set()
        STRING_ESCAPES: ClassVar[list[str]] = [*Written.Tokenizer.STRING_ESCAPES]

    class Parser(ClauseParser):
        """Reads what may stand behind a name in FROM; it is kept in `meta` of the table."""

        # A scalar function stays a call by its name, with the arguments as they are written: what
        # sqlglot makes of `date_add` or `element_at` would be printed in other words again.
        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
            name: build
            for name, build in SparkParser.FUNCTIONS.items()
            if name.lower() in _AGGREGATES | WINDOW_FUNCTIONS
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
            **{
                name: parser
                for name, parser in SparkParser.FUNCTION_PARSERS.items()
                if name in OF_THEIR_OWN or name.lower() in _AGGREGATES
            },
            "PERCENTILE": lambda self: self._parse_distinct_arg_function(_Percentile),
            **{name: partial(_axis_window, name) for name in AXIS_WINDOWS},
            # The word of FROM means the same windows in GROUP BY.
            "TUMBLE": partial(_axis_window, "TUMBLING"),
        }

        # `array(1, 2)[0]` is an item of an array; elsewhere ARRAY[0] is an array of one item.
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {}

        # SESSION(gap) is a window in GROUP BY.
        FUNC_TOKENS: ClassVar[set[TokenType]] = {*SparkParser.FUNC_TOKENS, TokenType.SESSION}

        def validate_expression(self, expression: E, args: list[exp.Expr] | None = None) -> E:
            """Whether a function has the arguments that it needs."""
            if args is None or not isinstance(expression, exp.Func):
                return super().validate_expression(expression, args)
            name = expression.sql_name()
            if name.lower() in _KNOWN or not expression.error_messages(args):
                return super().validate_expression(expression, args)
            # Spark has no such function: it is a module that takes other arguments.
            return exp.Anonymous(this=name, expressions=args)  # type: ignore[return-value]

        def _parse_table(
            self,
            schema: bool = False,
            joins: bool = False,
            alias_tokens: Collection[TokenType] | None = None,
            *rest: bool,
            **options: bool,
        ) -> exp.Expr | None:
            if schema:
                return super()._parse_table(schema, joins, alias_tokens, *rest, **options)
            table = (
                self._axis_function()
                or self._merge_function()
                or self._stream_function()
                or self._operator_function()
            )
            if table is None:
                table = super()._parse_table(schema, False, alias_tokens, *rest, **options)
            if table is not None:
                self._read_behind(table, alias_tokens or self.TABLE_ALIAS_TOKENS)
                if joins:
                    for join in self._parse_joins():
                        table.append("joins", join)
            return table

        def _read_behind(self, table: exp.Expr, alias_tokens: Collection[TokenType]) -> None:
            """What was known, a time, a window, an alias if there is none yet, a granularity."""
            known = self._known()
            if known is not None:
                table.meta["known"] = known
            at = self._curr
            version = self._parse_version()
            if version is not None:
                if table.args.get("version"):
                    raise self._wrong("the time is given twice", at, "keep one of them")
                table.set("version", version)
            if known is not None and not table.args.get("alias"):
                alias = self._parse_table_alias(alias_tokens=alias_tokens)
                if alias:
                    table.set("alias", alias)
            window = self._window()
            if window is not None:
                table.meta["window"] = window
                if not table.args.get("alias"):
                    alias = self._parse_table_alias(alias_tokens=alias_tokens)
                    if alias:
                        table.set("alias", alias)
                elif self._curr.token_type in (TokenType.ALIAS, TokenType.VAR) and not (
                    self._is_word("GRANULARITY")
                ):
                    raise self._wrong(
                        "this stream has an alias already",
                        self._curr,
                        "write the alias once, before or after the window",
                    )
            again = self._curr
            if self._window() is not None:
                raise self._wrong("there are two windows", again, "keep one of them")
            granularity = self._granularity()
            if granularity is not None:
                table.meta["granularity"] = granularity
                if not table.args.get("alias"):
                    alias = self._parse_table_alias(alias_tokens=alias_tokens)
                    if alias:
                        table.set("alias", alias)

        def _parse_table_alias(
            self, alias_tokens: Collection[TokenType] | None = None
        ) -> exp.TableAlias | None:
            if self._is_word("GRANULARITY") and self._next.token_type == TokenType.L_PAREN:
                return None
            return super()._parse_table_alias(alias_tokens)

        def _parse_join_parts(self) -> tuple[Token | None, Token | None, Token | None]:
            if self._next.token_type == TokenType.ASOF and self._match_set(self.JOIN_SIDES):
                # LEFT ASOF JOIN is ASOF LEFT JOIN.
                side = self._prev
                method, _, kind = super()._parse_join_parts()
                return method, side, kind
            return super()._parse_join_parts()

        def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
            if self._curr.token_type == TokenType.L_BRACKET and self._next.text.upper() in (
                "RANGE",
                "ROWS",
                "PARTITION BY",
            ):
                return this
            return super()._parse_bracket(this)

        def _known(self) -> KnownText | None:
            """`FOR KNOWN AS OF TIMESTAMP '...'`, or the number of a revision."""
            first = self._curr
            if not self._match_text_seq("FOR", "KNOWN"):
                return None
            hint = "write FOR KNOWN AS OF TIMESTAMP '2024-01-01 12:00:00', or the number of a "
            hint += "revision: FOR KNOWN AS OF 3"
            if not self._match_text_seq("AS", "OF"):
                raise self._wrong("AS OF is missing after FOR KNOWN", self._curr, hint)
            revision, instant = None, None
            if self._match_text_seq("TIMESTAMP") and self._match(TokenType.STRING):
                instant = self._prev.text
            elif self._match(TokenType.NUMBER) and self._prev.text.isdigit():
                revision = int(self._prev.text)
            else:
                at = self._curr or self._prev
                raise self._wrong(
                    "FOR KNOWN AS OF needs a timestamp or the number of a revision", at, hint
                )
            span = (first.start, self._prev.end + 1)
            if self._match_text_seq("FOR", "KNOWN"):
                raise self._wrong("FOR KNOWN is given twice", self._prev, "keep one of them")
            return KnownText(revision=revision, instant=instant, span=span)

        def _window(self) -> WindowText | None:
            """`WINDOW(...)`, or `[...]` as the dissertation prints it at times."""
            first = self._curr
            if self._match_pair(TokenType.WINDOW, TokenType.L_PAREN):
                closing = TokenType.R_PAREN
            elif self._match(TokenType.L_BRACKET):
                closing = TokenType.R_BRACKET
            else:
                return None
            partition = self._partition()
            if not self._match_texts(("RANGE", "ROWS")):
                word = self._curr.text.upper() if self._curr else ""
                hint = _OTHER_WINDOWS.get(word[:4], f"write {_SHAPE}")
                raise self._wrong(
                    "a window is a RANGE of time or a number of ROWS", self._curr, hint
                )
            kind: Literal["RANGE", "ROWS"] = (
                "ROWS" if self._prev.text.upper() == "ROWS" else "RANGE"
            )
            least = None
            if self._match_texts(("UNBOUNDED",)):
                size = None
            elif self._match_texts(("MIN",)):
                least = self._amount("the least size of the window")
                if not self._match(TokenType.COMMA) or not self._match_texts(("MAX",)):
                    raise self._wrong(
                        "MIN needs a MAX as well", self._curr, f"write {kind} MIN size, MAX size"
                    )
                size = self._amount("the largest size of the window")
            else:
                size = self._amount("the size of the window")
            slide = (
                self._amount("the slide of the window") if self._match_texts(("SLIDE",)) else None
            )
            order = self._parse_order()
            self._close(closing, f"write {_SHAPE}")
            return WindowText(
                kind=kind,
                size=size,
                least=least,
                slide=slide,
                partition_by=partition,
                order_by=tuple(order.expressions) if isinstance(order, exp.Order) else (),
                span=(first.start, self._prev.end + 1),
            )

        def _granularity(self) -> GranularityText | None:
            if not self._is_word("GRANULARITY") or self._next.token_type != TokenType.L_PAREN:
                return None
            first = self._curr
            self._advance(2)
            coarsest = None
            hint = "write GRANULARITY(size), or GRANULARITY(COARSEST size, FINEST size)"
            if self._match_texts(("COARSEST",)):
                coarsest = self._amount("the coarsest granule")
                if not self._match(TokenType.COMMA) or not self._match_texts(("FINEST",)):
                    raise self._wrong("COARSEST needs a FINEST as well", self._curr, hint)
            granule = self._amount("the granule")
            self._close(TokenType.R_PAREN, hint)
            span = (first.start, self._prev.end + 1)
            return GranularityText(granule=granule, coarsest=coarsest, span=span)

        def _axis_function(self) -> exp.Expr | None:
            """`[TABLE(] TUMBLE(stream, DESCRIPTOR(time), size) [)]`."""
            first, index = self._curr, self._index
            wrapped = self._match_pair(TokenType.TABLE, TokenType.L_PAREN)
            named = self._curr.text.upper() in AXIS_FUNCTIONS
            if not named or self._next.token_type != TokenType.L_PAREN:
                self._retreat(index)
                return None
            function = self._curr.text.upper()
            self._advance(2)
            hint = f"write {function}(stream, DESCRIPTOR(time), {_AXIS_SIZES[function]})"
            self._demand_name("DATA", hint)
            self._match(TokenType.TABLE)
            table = super()._parse_table()
            if table is None:
                raise self._wrong(f"{function} needs a stream", self._curr, hint)
            partition = self._columns_before_sizes()
            descriptor: exp.Expr | None = None
            amounts: list[tuple[str | None, Amount]] = []
            while self._match(TokenType.COMMA):
                at = self._curr
                name = self._argument_name()
                if self._match_texts(("DESCRIPTOR",)):
                    if name not in (None, "TIMECOL"):
                        raise self._wrong(f"{function} has no argument '{name}'", at, hint)
                    if descriptor is not None:
                        raise self._wrong("the time column is given twice", at, hint)
                    descriptor = self._parse_wrapped(self._parse_column)
                else:
                    amounts.append((name, self._amount(f"a size for {function}")))
            self._close(TokenType.R_PAREN, hint)
            if wrapped:
                self._close(TokenType.R_PAREN, hint)
            table.meta["axis"] = AxisText(
                function=function,
                descriptor=descriptor,
                amounts=tuple(amounts),
                partition_by=partition,
                span=(first.start, self._prev.end + 1),
            )
            alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
            if alias:
                table.set("alias", alias)
            return table

        def _merge_function(self) -> exp.Expr | None:
            """`MERGE(stream, stream, ..., inserts => 'leading')`."""
            if not self._is_word("MERGE") or self._next.token_type != TokenType.L_PAREN:
                return None
            first = self._curr
            self._advance(2)
            tables: list[exp.Expr] = []
            options: list[tuple[str, str, Span]] = []
            more = True
            while more:
                at, name = self._curr, self._argument_name()
                if name is None:
                    table = self._parse_table()
                    if table is None:
                        raise self._wrong("MERGE needs streams", self._curr, _MERGE)
                    tables.append(table)
                else:
                    amount = self._amount_or_text()
                    options.append((name.lower(), amount, (at.start, self._prev.end + 1)))
                more = bool(self._match(TokenType.COMMA))
            self._close(TokenType.R_PAREN, _MERGE)
            merged = exp.Table(this=exp.Anonymous(this="MERGE"))
            merged.meta["merge"] = MergeText(
                tables=tuple(tables),
                options=tuple(options),
                span=(first.start, self._prev.end + 1),
            )
            alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
            if alias:
                merged.set("alias", alias)
            return merged

        def _stream_function(self) -> exp.Expr | None:
            """`SHIFT(Bid, 5 MINUTES)` and its like, with an alias."""
            made = read_stream_function(self)
            if made is not None:
                alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
                if alias:
                    made.set("alias", alias)
            return made

        def _operator_function(self) -> exp.Expr | None:
            """`[TABLE(] followed_by(Bid, kind, HOPPING(10, 1), first => 'a') [)]`."""
            index = self._index
            wrapped = self._match_pair(TokenType.TABLE, TokenType.L_PAREN)
            inside = self._tokens[self._index + 2 : self._index + 3]
            if (
                self._curr.token_type != TokenType.VAR
                or self._next.token_type != TokenType.L_PAREN
                or self._curr.text.upper() in STREAM_FUNCTIONS
                or not inside
                or inside[0].token_type not in _BEGINS_STREAM
            ):
                self._retreat(index)
                return None
            made = read_operator(self)
            if wrapped:
                self._close(TokenType.R_PAREN, "close TABLE(...)")
            alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
            if alias:
                made.set("alias", alias)
            return made

        def _parse_string_agg(self) -> exp.GroupConcat:
            first = self._index
            call = super()._parse_string_agg()
            for index in range(first, self._index - 1):
                pair = [token.text.upper() for token in self._tokens[index : index + 2]]
                if pair == ["ON", "OVERFLOW"]:
                    # The parser reads over it.
                    raise self._wrong(
                        "ON OVERFLOW is not supported",
                        self._tokens[index],
                        "leave it out: a string may have any length",
                    )
            return call


_AXIS_SIZES: Final = {
    "TUMBLE": "INTERVAL '10' MINUTES",
    "HOP": "INTERVAL '1' MINUTE, INTERVAL '10' MINUTES",
    "SESSION": "INTERVAL '10' MINUTES",
}
