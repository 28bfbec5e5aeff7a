"""Types as SQL writes them, and as Arrow does."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.errors import QueryError

_T = exp.DataType.Type
_PLAIN: Final[dict[exp.DType, pa.DataType]] = {
    _T.BOOLEAN: pa.bool_(),
    _T.TINYINT: pa.int8(),
    _T.SMALLINT: pa.int16(),
    _T.INT: pa.int32(),
    _T.BIGINT: pa.int64(),
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.TEXT: pa.string(),
    _T.VARCHAR: pa.string(),
    _T.CHAR: pa.string(),
    _T.BINARY: pa.binary(),
    _T.VARBINARY: pa.binary(),
    _T.DATE: pa.date32(),
    _T.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    _T.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    _T.TIMESTAMPLTZ: pa.timestamp("us", tz="UTC"),
    _T.TIMESTAMPNTZ: pa.timestamp("us"),
    _T.DATETIME: pa.timestamp("us"),
}
_NAMES: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}
_WHOLE: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def parse_type(text: str) -> pa.DataType:
    """A type of Spark's SQL.

    >>> str(parse_type("MAP<STRING, ARRAY<DECIMAL(10, 2)>>"))
    'map<string, list<element: decimal128(10, 2)>>'

    Raises:
        QueryError: There is no such type.
    """
    try:
        tree = exp.DataType.build(text, dialect="spark")
        found = _arrow(tree)
    except (SqlglotError, KeyError, ValueError, AttributeError):
        raise QueryError(
            f"'{text}' is not a type",
            hint="types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), "
            "STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, ARRAY<T>, MAP<K, V>, STRUCT<a: T>",
        ) from None
    _refuse_more(text, tree)
    return found


def _refuse_more(text: str, tree: exp.DataType) -> None:
    """What the parser reads with a type, and nobody would look at: `VARCHAR(10)`, `INT NOT NULL`.

    Raises:
        QueryError: There is such a thing.
    """
    for kind in tree.find_all(exp.DataType):
        sized = [part for part in kind.expressions if isinstance(part, exp.DataTypeParam)]
        if sized and kind.this not in (_T.DECIMAL, _T.BIGDECIMAL):
            raise QueryError(
                f"the size in '{text}' would not be checked",
                hint=f"write {type_name(_arrow(kind))}",
            )
    # Words such as NOT NULL, DEFAULT 5 or COMMENT 'x' are read and not kept.
    written = [token.text.upper() for token in sqlglot.tokenize(text, dialect="spark")]
    kept = [token.text for token in sqlglot.tokenize(tree.sql("spark"), dialect="spark")]
    constraints = any(part.args.get("constraints") for part in tree.find_all(exp.ColumnDef))
    if (len(written) > len(kept) or constraints) and "ZONE" not in written:
        raise QueryError(
            f"'{text}' is more than a type",
            hint="a column has a name and a type; UNIQUE or PRIMARY KEY may follow",
        )


def _arrow(kind: exp.DataType) -> pa.DataType:
    if kind.this in (_T.DECIMAL, _T.BIGDECIMAL):
        sizes = [int(part.this.this) for part in kind.expressions]
        precision, scale = [*sizes, *(10, 0)[len(sizes) :]]
        return pa.decimal128(precision, scale)
    if kind.this in (_T.ARRAY, _T.LIST):
        return pa.list_(pa.field("element", _arrow(kind.expressions[0])))
    if kind.this == _T.MAP:
        key, value = kind.expressions
        return pa.map_(_arrow(key), _arrow(value))
    if kind.this == _T.STRUCT:
        return pa.struct([(part.name, _arrow(part.args["kind"])) for part in kind.expressions])
    return _PLAIN[kind.this]


def type_name(kind: pa.DataType) -> str:
    """A type as SQL writes it.

    >>> type_name(pa.struct([("a", pa.list_(pa.int32()))]))
    'STRUCT<a: ARRAY<INT>>'
    """
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{type_name(kind.key_type)}, {type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        parts = (kind.field(position) for position in range(kind.num_fields))
        return f"STRUCT<{', '.join(f'{part.name}: {type_name(part.type)}' for part in parts)}>"
    return _NAMES.get(kind, str(kind).upper())


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, if there is one: INT and BIGINT give BIGINT."""
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if left in _WHOLE and right in _WHOLE:
        return max(left, right, key=_WHOLE.index)
    numbers = [
        each in _WHOLE or pa.types.is_floating(each) or pa.types.is_decimal(each)
        for each in (left, right)
    ]
    if not all(numbers):
        return None
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    return _common_decimal(left, right)


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    digits = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
    sizes = [
        (each.precision - each.scale, each.scale)
        if pa.types.is_decimal(each)
        else (digits[each], 0)
        for each in (left, right)
    ]
    whole, scale = max(size[0] for size in sizes), max(size[1] for size in sizes)
    return pa.decimal128(whole + scale, scale) if whole + scale <= 38 else None
