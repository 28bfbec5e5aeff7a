"""What the binder uses of each type of node that the parser makes, and why it refuses the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from sqlglot import exp

from anabranch.aggregates.table import FORMS


@final
@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is refused, what to write instead, and the words it begins with."""

    what: str
    hint: str
    words: tuple[str, ...] = ()


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BINARY: Final = _names("this expression")
_UNARY: Final = _names("this")
_QUERY: Final = "with_ order limit"

CLAUSES_OF_STREAMS: Final[Mapping[str, str]] = {
    "window": "a window",
    "granularity": "a granularity",
    "axis": "a window of the time axis",
    "known": "FOR KNOWN AS OF",
}
"""What the dialect keeps in `meta` of a table or a nested query, and what messages call it."""

WORDS_OF_OTHERS: Final = _names(
    "ANY ALL ONLY GLOBAL POSITIONAL FINAL PARTITION USE FORCE IGNORE SETTINGS FORMAT SAMPLE"
)
"""Words that mean something behind a table in other dialects; here they would be an alias."""

FLAGS: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    exp.Div: _names("typed safe"),
    exp.DPipe: _names("safe"),
    exp.Concat: _names("safe coalesce"),
    exp.Count: _names("big_int"),
    exp.Bracket: _names("offset safe"),
    exp.TryCast: _names("requires_string"),
    exp.Window: _names("over"),
    exp.DataType: _names("nested"),
}
"""Arguments that the parser sets for the whole dialect: nobody writes them."""

_QUERIES: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    exp.Select: _names(
        f"{_QUERY} hint expressions distinct from_ joins where group having qualify"
    ),
    exp.Hint: _names("expressions"),
    exp.Subquery: _names(f"{_QUERY} this alias joins"),
    exp.Union: _names(f"{_QUERY} this expression distinct"),
    exp.Except: _names(f"{_QUERY} this expression distinct"),
    exp.Intersect: _names(f"{_QUERY} this expression distinct"),
    exp.With: _names("expressions"),
    exp.CTE: _names("this alias"),
    exp.TableAlias: _names("this columns"),
    exp.From: _UNARY,
    exp.Join: _names("this on side kind using method"),
    exp.Table: _names("this alias db catalog joins version"),
    exp.Version: _names("this kind expression"),
    exp.Where: _UNARY,
    exp.Group: _names("expressions all"),
    exp.Having: _UNARY,
    exp.Qualify: _UNARY,
    exp.Order: _names("this expressions"),
    exp.Ordered: _names("this desc nulls_first"),
    exp.Limit: _names("expression limit_options"),
    exp.Fetch: _names("direction count limit_options"),
    exp.LimitOptions: _names("rows"),
    exp.Distinct: _names("expressions"),
    exp.Star: _names("except_"),
    exp.Alias: _names("this alias"),
    exp.Window: _names("this partition_by order"),
}

_SCALARS: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    exp.Column: _names("this table db catalog"),
    exp.Identifier: _names("this quoted"),
    exp.Dot: _BINARY,
    exp.Literal: _names("this is_string"),
    exp.RawString: _UNARY,
    exp.HexString: _UNARY,
    exp.Boolean: _UNARY,
    exp.Null: frozenset(),
    exp.Var: _UNARY,
    exp.Paren: _UNARY,
    exp.Tuple: _names("expressions"),
    exp.Concat: _names("expressions"),
    **dict.fromkeys((exp.Neg, exp.BitwiseNot, exp.Not), _UNARY),
    **dict.fromkeys((exp.And, exp.Or, exp.Add, exp.Sub, exp.Mul, exp.Div), _BINARY),
    **dict.fromkeys((exp.IntDiv, exp.Mod, exp.DPipe, exp.NullSafeEQ, exp.NullSafeNEQ), _BINARY),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _BINARY),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _BINARY),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _BINARY),
    **dict.fromkeys((exp.Like, exp.ILike), _names("this expression negate")),
    **dict.fromkeys((exp.RegexpLike, exp.Escape, exp.Collate, exp.IntervalSpan), _BINARY),
    exp.Is: _names("this expression negate"),
    exp.In: _names("this expressions query"),
    exp.Between: _names("this low high"),
    exp.Case: _names("this ifs default"),
    exp.If: _names("this true false"),
    **dict.fromkeys((exp.Cast, exp.TryCast), _names("this to safe")),
    exp.DataType: _names("this expressions"),
    exp.DataTypeParam: _UNARY,
    exp.ColumnDef: _names("this kind"),
    exp.Interval: _names("this unit"),
    exp.Extract: _BINARY,
    exp.Trim: _names("this expression position"),
    exp.Substring: _names("this start length"),
    exp.StrPosition: _names("this substr position"),
    exp.Overlay: _names("this expression from_ for_"),
    exp.Bracket: _names("this expressions"),
    exp.Lambda: _names("this expressions"),
    exp.Transform: _BINARY,
    exp.Anonymous: _names("this expressions"),
    exp.Kwarg: _BINARY,
    exp.Exists: _UNARY,
    exp.All: _UNARY,
    exp.Any: _UNARY,
}

_AGGREGATES: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    **{tree: frozenset(form.parts + form.checked) for tree, (_, form) in FORMS.items()},
    exp.CountIf: _UNARY,
    exp.RowNumber: frozenset(),
    exp.Rank: frozenset(),
    exp.DenseRank: frozenset(),
    exp.Lag: _names("this offset default"),
    exp.Lead: _names("this offset default"),
    exp.Filter: _BINARY,
    exp.WithinGroup: _BINARY,
}

USED: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    kind: used | FLAGS.get(kind, frozenset())
    for kind, used in {**_QUERIES, **_SCALARS, **_AGGREGATES}.items()
}
"""The arguments of each type of node that the binder looks at, or prints for those below it."""

REFUSED_LATER: Final[tuple[type[exp.Expr], ...]] = (
    exp.AggFunc,
    exp.CurrentDate,
    exp.CurrentTimestamp,
    exp.CurrentUser,
    exp.CurrentRole,
    exp.SessionUser,
)
"""Types of which all are refused by name where they stand: the message is a better one there.

An aggregate that is not in `USED` is none that a stream can have, or the name of a user's module,
which gets all its arguments.
"""

_NO_TIES: Final = "LIMIT takes a number of rows: LIMIT 10"
_WINDOWS: Final = "write windows in FROM: WINDOW(PARTITION BY a ROWS 10); aggregate with GROUP BY"
_GROUPINGS: Final = "write one query per grouping and combine them with UNION ALL"
_OUT: Final = "leave it out"

REFUSED: Final[Mapping[str | tuple[type[exp.Expr], str], Refusal]] = {
    "hints": Refusal("hints are not supported", f"{_OUT}: the optimizer decides", ("WITH",)),
    "locks": Refusal(
        "a lock is not supported: a query changes nothing", _OUT, ("FOR UPDATE", "FOR SHARE", "FOR")
    ),
    "kind": Refusal("SELECT AS is not supported", "write struct(a, b) AS c", ("AS STRUCT", "AS")),
    "into": Refusal("INTO is not supported", "write CREATE STREAM name AS SELECT ...", ("INTO",)),
    "offset": Refusal("OFFSET is not supported", "take the first rows only", ("OFFSET",)),
    "connect": Refusal(
        "START WITH ... CONNECT BY is not supported", _OUT, ("START WITH", "CONNECT BY")
    ),
    "cluster": Refusal("CLUSTER BY is not supported", _OUT, ("CLUSTER BY",)),
    "distribute": Refusal("DISTRIBUTE BY is not supported", _OUT, ("DISTRIBUTE BY",)),
    "sort": Refusal("SORT BY is not supported", _OUT, ("SORT BY",)),
    "match": Refusal(
        "MATCH_RECOGNIZE is not supported",
        "detect patterns with a module: FROM followed_by(stream, ...)",
        ("MATCH_RECOGNIZE",),
    ),
    "windows": Refusal("a named window is not supported", _WINDOWS, ("WINDOW",)),
    "laterals": Refusal(
        "LATERAL is not supported", "write SELECT explode(items) AS item", ("LATERAL",)
    ),
    "pivots": Refusal(
        "PIVOT is not supported",
        "write one aggregate per column: SUM(a) FILTER (WHERE b = 1)",
        ("PIVOT", "UNPIVOT"),
    ),
    "sample": Refusal(
        "TABLESAMPLE is not supported",
        "choose rows by their content: WHERE pmod(hash(id), 10) = 0",
        ("TABLESAMPLE",),
    ),
    "ordinality": Refusal(
        "WITH ORDINALITY is not supported", "the rows of a stream have no number", ("WITH",)
    ),
    "recursive": Refusal(
        "a recursive query is not supported", "leave RECURSIVE out", ("RECURSIVE",)
    ),
    "materialized": Refusal(
        "MATERIALIZED is not supported",
        "leave it out: what a query reads twice is computed once",
        ("MATERIALIZED",),
    ),
    "by_name": Refusal(
        "columns are matched by position",
        "leave BY NAME out, order the columns",
        ("BY NAME", "CORRESPONDING", "STRICT CORRESPONDING"),
    ),
    "on": Refusal(
        "DISTINCT ON is not supported",
        "write QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) = 1",
        ("DISTINCT",),
    ),
    "percent": Refusal("LIMIT ... PERCENT is not supported", _NO_TIES, ("PERCENT", "%")),
    "with_ties": Refusal("WITH TIES is not supported", _NO_TIES, ("WITH TIES",)),
    "grouping_sets": Refusal("GROUPING SETS is not supported", _GROUPINGS, ("GROUPING SETS",)),
    "cube": Refusal("CUBE is not supported", _GROUPINGS, ("CUBE", "WITH CUBE")),
    "rollup": Refusal("ROLLUP is not supported", _GROUPINGS, ("ROLLUP", "WITH ROLLUP")),
    "totals": Refusal("WITH TOTALS is not supported", _GROUPINGS, ("WITH TOTALS", "TOTALS")),
    "replace": Refusal("* has only EXCEPT", "name the columns instead", ("REPLACE",)),
    "rename": Refusal("* has only EXCEPT", "name the columns instead", ("RENAME",)),
    "ilike": Refusal("* has only EXCEPT", "name the columns instead", ("ILIKE",)),
    "spec": Refusal(
        "ROW_NUMBER has no frame",
        "leave ROWS or RANGE out: ROW_NUMBER counts all rows of the snapshot",
        ("ROWS", "RANGE", "GROUPS"),
    ),
    "with_fill": Refusal("WITH FILL is not supported", _OUT, ("WITH FILL",)),
    "symmetric": Refusal(
        "BETWEEN SYMMETRIC is not supported",
        "write BETWEEN least(a, b) AND greatest(a, b)",
        ("SYMMETRIC",),
    ),
    "unnest": Refusal(
        "IN UNNEST is not supported", "write array_contains(values, value)", ("UNNEST",)
    ),
    "join_mark": Refusal("(+) is not supported", "write LEFT JOIN ... ON", ("(",)),
    "format": Refusal(
        "a cast has no FORMAT", "write to_date(text, 'yyyy-MM-dd') or to_timestamp", ("FORMAT",)
    ),
    "collation": Refusal("TRIM has no COLLATE", _OUT, ("COLLATE",)),
    "collate": Refusal("types with a COLLATE are not supported", _OUT, ("COLLATE",)),
    "on_overflow": Refusal(
        "ON OVERFLOW is not supported", f"{_OUT}: strings grow", ("ON OVERFLOW",)
    ),
    (exp.Window, "alias"): Refusal("a named window is not supported", _WINDOWS, ("OVER",)),
    (exp.Limit, "this"): Refusal("an aggregate has no LIMIT", _OUT, ("LIMIT",)),
    (exp.Limit, "expressions"): Refusal(
        "LIMIT ... BY is not supported",
        "write QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) <= 10",
        ("BY",),
    ),
    (exp.Count, "expressions"): Refusal(
        "COUNT takes one expression",
        "write COUNT(*), or COUNT(struct(a, b)); COUNT skips rows where it is NULL",
    ),
    (exp.Max, "expressions"): Refusal("MAX takes one expression", "write greatest(a, b)"),
    (exp.Min, "expressions"): Refusal("MIN takes one expression", "write least(a, b)"),
    (exp.Table, "partition"): Refusal(
        "PARTITION is not supported", "choose rows with WHERE", ("PARTITION",)
    ),
    (exp.Select, "operation_modifiers"): Refusal("this word after SELECT is not supported", _OUT),
    (exp.Join, "hint"): Refusal("join hints are not supported", f"{_OUT}: the optimizer decides"),
}
"""Why arguments are refused, by name, or by type and name; others are refused all the same."""

REFUSED_TYPES: Final[Mapping[type[exp.Expr], Refusal]] = {
    exp.IgnoreNulls: Refusal(
        "IGNORE NULLS is not supported",
        "leave it out: aggregates skip NULL",
        ("IGNORE NULLS", "IGNORE"),
    ),
    exp.RespectNulls: Refusal(
        "RESPECT NULLS is not supported",
        "aggregates skip NULL; replace it with a value: coalesce(a, 0)",
        ("RESPECT NULLS", "RESPECT"),
    ),
    exp.HavingMax: Refusal(
        "HAVING inside an aggregate is not supported", "write FILTER (WHERE ...)", ("HAVING",)
    ),
    exp.Rollup: Refusal("ROLLUP is not supported", _GROUPINGS, ("ROLLUP",)),
    exp.Cube: Refusal("CUBE is not supported", _GROUPINGS, ("CUBE",)),
    exp.GroupingSets: Refusal("GROUPING SETS is not supported", _GROUPINGS, ("GROUPING SETS",)),
    exp.Values: Refusal(
        "VALUES is not allowed in FROM",
        "FROM accepts streams, relations and queries in parentheses",
        ("VALUES",),
    ),
    exp.Lateral: Refusal(
        "LATERAL is not supported", "expand the rows before they become a stream", ("LATERAL",)
    ),
    exp.Unnest: Refusal(
        "UNNEST is not supported", "write SELECT explode(items) AS item", ("UNNEST",)
    ),
    exp.Aliases: Refusal("one column has several names", "write one name after AS"),
    exp.Parameter: Refusal(
        "a parameter has no value here",
        "write the value itself; the name of a column is quoted like this: `@time`",
        ("@", "$"),
    ),
    exp.Placeholder: Refusal("a parameter has no value here", "write the value itself", ("?", ":")),
    exp.SessionParameter: Refusal("a parameter has no value here", "write the value itself"),
    exp.AtTimeZone: Refusal(
        "AT TIME ZONE is not supported",
        "write from_utc_timestamp(at, 'Europe/Berlin')",
        ("AT TIME ZONE",),
    ),
    exp.Slice: Refusal("a[1:2] is not supported", "write slice(a, 1, 2)"),
    exp.Array: Refusal("[...] is not supported", "write array(1, 2)"),
    exp.PropertyEQ: Refusal(":= is not supported", "write name => value", (":=",)),
    exp.StrToDate: Refusal(
        "a cast has no FORMAT", "write to_date(text, 'yyyy-MM-dd')", ("FORMAT",)
    ),
    exp.StrToTime: Refusal(
        "a cast has no FORMAT", "write to_timestamp(text, 'yyyy-MM-dd HH:mm')", ("FORMAT",)
    ),
}
"""Why types of nodes are refused; those in no table are refused all the same."""
