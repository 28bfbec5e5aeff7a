"""Functions of numbers and of their bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from anabranch.expressions.functions.arithmetic import (
    EXACT_DIGITS,
    divided,
    divided_whole,
    fitting,
    negated,
    positive_remainder,
    remainder,
)
from anabranch.expressions.functions.signature import (
    Function,
    Signature,
    function,
    same,
    signature,
    table,
)
from anabranch.expressions.functions.value import (
    BIGINT,
    INT,
    Build,
    Value,
    duckdb_name,
    is_decimal,
    is_float,
    is_integer,
)
from anabranch.expressions.functions.widening import MAX_DIGITS, with_common_type


def built(takes: str, build: Build, *, fails: bool = True) -> Signature:
    """A signature whose type and text come out of one function."""

    def kind(values: Sequence[Value]) -> pa.DataType | None:
        found = build(values)
        return None if found is None else found.type

    def text(values: Sequence[Value]) -> str | None:
        found = build(values)
        return None if found is None else found.text

    return signature(takes, kind, text, fails=fails)


def _real(name: str, text: str | None = None) -> tuple[Function, ...]:
    """A function of the reals."""
    spelled = text or f"{name.split()[0]}({{0}})"
    return function(name, signature("double", "double", spelled), digits=True)


def _whole(word: str) -> tuple[Signature, ...]:
    """Floor and ceiling: of a fraction a BIGINT, or a failure; that of NaN is 0."""
    whole = f"(CASE WHEN isnan({{0}}) THEN 0 ELSE CAST({word}({{0}}) AS BIGINT) END)"

    def decimal_type(values: Sequence[Value]) -> pa.DataType:
        kind = values[0].type
        more = 1 if kind.scale else 0
        return pa.decimal128(min(kind.precision - kind.scale + more, MAX_DIGITS), 0)

    def decimal_text(values: Sequence[Value]) -> str:
        name = duckdb_name(decimal_type(values))
        return f"CAST({word}({values[0].text}) AS {name})"

    return (
        signature("integer", "bigint", "CAST({0} AS BIGINT)"),
        signature("fraction", "bigint", whole, fails=True),
        signature("decimal", decimal_type, decimal_text),
    )


def _absolute(values: Sequence[Value]) -> Value | None:
    kind = values[0].type
    if is_decimal(kind) and kind.precision > EXACT_DIGITS:
        return None
    return values[0].called("abs({})", fails=is_integer(kind))


def _round(values: Sequence[Value]) -> Value | None:
    """To a number of digits behind the point, half up."""
    value, digits = values[0], _digits(values)
    if is_integer(value.type):
        return value if digits is not None and digits >= 0 else None
    if digits is None or not 0 <= digits <= 18:
        return None
    if is_decimal(value.type):
        scale = min(digits, value.type.scale)
        precision = value.type.precision - value.type.scale + 1 + scale
        kind = pa.decimal128(precision, scale) if precision <= MAX_DIGITS else None
        return None if kind is None else value.called(f"CAST({{}} AS {duckdb_name(kind)})", kind)
    if not is_float(value.type):
        return None
    if digits == 0:
        # There is no negative zero in Spark's result.
        return value.called(f"CAST(round({{}}) + 0.0 AS {duckdb_name(value.type)})")
    # A float is first the double next to it, with all the digits of that.
    written = (
        f"CAST(CAST(CAST(CAST({{}} AS DOUBLE) AS VARCHAR) AS DECIMAL(38, {digits})) AS VARCHAR)"
    )
    rounded = f"CAST({written} AS {duckdb_name(value.type)})"
    return value.called(f"(CASE WHEN abs({{}}) < 1e16 THEN {rounded} ELSE {{}} END)")


def _round_even(values: Sequence[Value]) -> Value | None:
    """To a whole number; of two that are as near, to the even one."""
    value, digits = values[0], _digits(values)
    if is_integer(value.type):
        return value if digits is not None and digits >= 0 else None
    if digits == 0 and is_float(value.type):
        name = duckdb_name(value.type)
        return value.called(f"CAST(round_even({{}}, 0) + 0.0 AS {name})")
    return None


def _digits(values: Sequence[Value]) -> int | None:
    if len(values) == 1:
        return 0
    return values[1].literal if isinstance(values[1].literal, int) else None


def _bits(sign: str) -> Build:
    def build(values: Sequence[Value]) -> Value | None:
        pair = with_common_type(list(values))
        if pair is None or not is_integer(pair[0].type):
            return None
        text = f"({pair[0].text} {sign} {pair[1].text})"
        if sign == "^":
            text = f"xor({pair[0].text}, {pair[1].text})"
        return Value(text=text, type=pair[0].type)

    return build


bit_and: Build = _bits("&")
bit_or: Build = _bits("|")
bit_xor: Build = _bits("^")


def bit_not(values: Sequence[Value]) -> Value | None:
    """All bits turned round."""
    return values[0].called("(~{})") if is_integer(values[0].type) else None


def _shift(way: str) -> Build:
    """Bits shifted, by as many bits as the type has at most."""

    def build(values: Sequence[Value]) -> Value | None:
        value, by = values
        if value.type not in (INT, BIGINT) or by.type == BIGINT or not is_integer(by.type):
            return None
        width = value.type.bit_width
        bits = f"(CAST({by.text} AS INTEGER) & {width - 1})"
        name = duckdb_name(value.type)
        if way == "right":
            return value.called(f"({{}} >> CAST({bits} AS {name}))")
        # In a wider type, where nothing is lost, and back round the edge.
        unsigned = f"((CAST({{}} AS HUGEINT) + {2**width}) % {2**width})"
        if way == "right unsigned":
            power = f"CAST(pow(2, {bits}) AS HUGEINT)"
            moved = f"({unsigned} // {power})"
        else:
            # What is shifted out is taken away before, so that a HUGEINT suffices.
            kept = f"({unsigned} % CAST(pow(2, {width} - {bits}) AS HUGEINT))"
            moved = f"({kept} * CAST(pow(2, {bits}) AS HUGEINT))"
        signed = (
            f"(CASE WHEN {moved} >= {2 ** (width - 1)} THEN {moved} - {2**width} ELSE {moved} END)"
        )
        return value.called(f"CAST({signed} AS {name})")

    return build


shift_left: Build = _shift("left")
shift_right: Build = _shift("right")


def _bit(values: Sequence[Value]) -> str | None:
    value, at = values[0], values[1].literal
    if not isinstance(at, int) or not 0 <= at < value.type.bit_width - 1:
        return None
    return f"CAST((CAST({value.text} AS BIGINT) >> {at}) & 1 AS TINYINT)"


def _bucket(values: Sequence[Value]) -> str:
    """Which of equal steps between two bounds; 0 below, one more above."""
    value, low, high, steps = (each.text for each in values)
    at = f"CAST(floor({steps} * ({value} - {low}) / ({high} - {low})) AS BIGINT) + 1"
    down = f"CAST(floor({steps} * ({low} - {value}) / ({low} - {high})) AS BIGINT) + 1"
    legal = f"{steps} > 0 AND {steps} < {2**63 - 1} AND {low} <> {high} AND NOT isnan({value})"
    legal += f" AND isfinite({low}) AND isfinite({high})"
    upwards = (
        f"CASE WHEN {value} < {low} THEN 0 WHEN {value} >= {high} THEN {steps} + 1 ELSE {at} END"
    )
    downwards = (
        f"CASE WHEN {value} > {low} THEN 0 WHEN {value} <= {high} THEN {steps} + 1 ELSE {down} END"
    )
    return (
        f"(CASE WHEN {legal} THEN CASE WHEN {low} < {high} THEN {upwards} ELSE {downwards} END END)"
    )


_FACTORIALS: Final = "(CASE WHEN {0} BETWEEN 0 AND 20 THEN CAST(factorial({0}) AS BIGINT) END)"
_POWER: Final = (
    "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
    " WHEN isnan({1}) OR ({0} = 1 OR {0} = -1) AND isinf({1}) THEN CAST('nan' AS DOUBLE)"
    " ELSE pow({0}, {1}) END)"
)
_SIGN: Final = "(CASE WHEN isnan({0}) OR {0} = 0 THEN {0} ELSE CAST(sign({0}) AS DOUBLE) END)"
_SQUARE_ROOT: Final = "(CASE WHEN {0} < 0 THEN CAST('nan' AS DOUBLE) ELSE sqrt({0}) END)"
_OUTSIDE: Final = (
    "(CASE WHEN abs({{0}}) > 1 OR isnan({{0}}) THEN CAST('nan' AS DOUBLE) ELSE {0}({{0}}) END)"
)
_FINITE: Final = (
    "(CASE WHEN isfinite({{0}}) OR {{0}} IS NULL THEN {0} ELSE CAST('nan' AS DOUBLE) END)"
)

NUMBERS: Final = table(
    function("abs", built("number", _absolute)),
    function("negative", built("number", negated)),
    function("positive", signature("number", same, "{0}")),
    function("sign signum", signature("double", "double", _SIGN)),
    function("floor", *_whole("floor")),
    function("ceil ceiling", *_whole("ceil")),
    function(
        "round",
        built("number", _round, fails=False),
        built("number, int constant", _round, fails=False),
    ),
    function(
        "bround",
        built("number", _round_even, fails=False),
        built("number, int constant", _round_even, fails=False),
    ),
    function("rint", signature("double", "double", "round_even({0}, 0)")),
    function("sqrt", signature("double", "double", _SQUARE_ROOT)),
    _real("cbrt"),
    _real("exp"),
    _real("expm1", "(CASE WHEN abs({0}) < 1e-5 THEN {0} + {0} * {0} / 2 ELSE exp({0}) - 1 END)"),
    _real("ln", "(CASE WHEN {0} > 0 THEN ln({0}) END)"),
    _real("log10", "(CASE WHEN {0} > 0 THEN log10({0}) END)"),
    _real("log2", "(CASE WHEN {0} > 0 THEN log2({0}) END)"),
    function(
        "log",
        signature("double", "double", "(CASE WHEN {0} > 0 THEN ln({0}) END)"),
        signature(
            "double, double", "double", "(CASE WHEN {0} > 0 AND {1} > 0 THEN ln({1}) / ln({0}) END)"
        ),
        digits=True,
    ),
    function("pow power", signature("double, double", "double", _POWER), digits=True),
    _real("sin", _FINITE.format("sin({0})")),
    _real("cos", _FINITE.format("cos({0})")),
    _real("tan", _FINITE.format("tan({0})")),
    _real("cot", _FINITE.format("1 / tan({0})")),
    _real("sec", _FINITE.format("1 / cos({0})")),
    _real("csc", _FINITE.format("1 / sin({0})")),
    _real("asin", _OUTSIDE.format("asin")),
    _real("acos", _OUTSIDE.format("acos")),
    _real("atan"),
    function(
        "atan2", signature("double, double", "double", "atan2({0} + 0.0, {1} + 0.0)"), digits=True
    ),
    _real("sinh"),
    _real("cosh"),
    _real("tanh"),
    _real("degrees"),
    _real("radians"),
    function("pi", signature("", "double", "pi()")),
    function("e", signature("", "double", "CAST('2.718281828459045' AS DOUBLE)")),
    function("factorial", signature("int", "bigint", _FACTORIALS)),
    function("mod", built("any, any", remainder)),
    function("pmod", built("any, any", positive_remainder)),
    function("div", built("any, any", divided_whole)),
    function("try_add", built("number, number", partial(fitting, sign="+"), fails=False)),
    function("try_subtract", built("number, number", partial(fitting, sign="-"), fails=False)),
    function("try_multiply", built("number, number", partial(fitting, sign="*"), fails=False)),
    function("try_divide", built("number, number", partial(divided, safe=True), fails=False)),
    function("try_mod", built("number, number", partial(remainder, safe=True), fails=False)),
    function("shiftleft", built("integer, integer", shift_left, fails=False)),
    function("shiftright", built("integer, integer", shift_right, fails=False)),
    function(
        "shiftrightunsigned", built("integer, integer", _shift("right unsigned"), fails=False)
    ),
    function(
        "bit_count",
        signature("boolean", "int", "CAST({0} AS INTEGER)"),
        signature("bigint", "int", "CAST(bit_count({0}) AS INTEGER)"),
    ),
    function(
        "getbit bit_get",
        signature("integer, int constant", "tinyint", _bit),
    ),
    function(
        "bin", signature("bigint", "string", "(CASE WHEN {0} = 0 THEN '0' ELSE bin({0}) END)")
    ),
    function(
        "width_bucket",
        signature("double, double, double, bigint", "bigint", _bucket),
    ),
)
