"""What is no scalar expression over one row, and why."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from anabranch.expressions.functions.names import AGGREGATES, GENERATORS, WINDOW_FUNCTIONS
from anabranch.expressions.spark_text import is_unclear

UNSTABLE: Final = frozenset(
    """
    aes_encrypt ago assert_true curdate current_catalog current_connection_id current_database
    current_date current_path current_query current_query_id current_schema current_setting
    current_time current_timestamp current_timezone current_transaction_id current_user currval
    error gen_random_uuid get_current_time get_current_timestamp getdate getvariable
    in_search_path input_file_block_length input_file_block_start input_file_name java_method
    localtime localtimestamp monotonically_increasing_id nextval now raise_error rand randn random
    rand_str randstr reflect session_user setseed setval shuffle sleep_ms spark_partition_id stats
    today transaction_timestamp try_reflect txid_current uniform user uuid uuidv4 uuidv7
    vector_type version write_log
    """.split()  # noqa: SIM905
)
"""Functions that do not give the same answer for the same row at any time and place."""

_UNSTABLE_NODES: Final = re.compile(r"(Current|Local|Utc|Session|Rand|Uuid).*")


_TODAY: Final = ("now", "today", "tomorrow", "yesterday")
_READS_TIMES: Final = frozenset(
    """
    date timestamp to_date to_timestamp to_timestamp_ltz to_timestamp_ntz try_to_date
    try_to_timestamp
    """.split()  # noqa: SIM905
)
_EXPLODE_HINT: Final = (
    "an expression returns one value; write stream.explode('items AS item'), or in SQL SELECT "
    "explode(items) AS item"
)
_STABLE_HINT: Final = "an answer must depend on the row alone, or a correction could not undo it"
_NOW_HINT: Final = (
    f"{_STABLE_HINT}; for the rows of the last hour write a window: FROM Bid WINDOW(RANGE 1 HOUR), "
    "stream.window('1 hour')"
)
_VALUE_HINT: Final = "write the value itself; the name of a column is quoted like this: `@time`"
_NOW: Final = ("now", "current_timestamp", "localtimestamp", "curdate", "current_date")


def why_not_scalar(node: exp.Expr) -> tuple[str, str, str] | None:
    """What is wrong, what to do, and a pattern that finds the span; None if nothing is."""
    name = name_of_call(node)
    at_name = rf"\b{re.escape(name)}\b"
    if isinstance(node, exp.Window) or name in WINDOW_FUNCTIONS:
        what, hint = "a window function is not a scalar expression", "write windows in FROM"
        return what, hint, r"\bover\b" if isinstance(node, exp.Window) else at_name
    if isinstance(node, (exp.Query, exp.Subquery)):
        what = "a query inside a scalar expression is not supported"
        return what, "make it a stream of its own", r"\bselect\b"
    if name in AGGREGATES or isinstance(node, exp.Any | exp.All):
        hint = "aggregates belong with GROUP BY, not in an expression over one row"
        return f"{name} is an aggregate", hint, at_name
    if name in GENERATORS:
        return f"{name} makes several rows out of one", _EXPLODE_HINT, at_name
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and node.name == "*"):
        return "'*' is not a value", "name the column", r"\*"
    if isinstance(node, (exp.Placeholder, exp.Parameter, exp.SessionParameter)):
        return "a parameter has no value here", _VALUE_HINT, r"\?|[:@$]\w+"
    if name in UNSTABLE or _UNSTABLE_NODES.fullmatch(type(node).__name__):
        hint = _NOW_HINT if name in _NOW else _STABLE_HINT
        return f"{name} is not deterministic", hint, at_name
    if name == "unix_timestamp" and not node.expressions:
        return f"{name}() is not deterministic", _STABLE_HINT, at_name
    if _is_today(node):
        word = _first_text(node)
        return f"'{word}' is not deterministic", _STABLE_HINT, re.escape(word)
    if is_unclear(node):
        what = "the precedence of operators is not clear"
        return what, "add parentheses", re.escape(node.sql("spark", comments=False))
    if isinstance(node, exp.Block):
        return "there is more than one expression", "write one scalar expression", ";"
    return None


def name_of_call(node: exp.Expr) -> str:
    """The name of a function, or of another kind of node."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else node.key


def _first_text(node: exp.Expr) -> str:
    first = (
        node.expressions[0] if isinstance(node, exp.Anonymous) and node.expressions else node.this
    )
    return first.name.strip().lower() if isinstance(first, exp.Literal) and first.is_string else ""


def _is_today(node: exp.Expr) -> bool:
    """Whether Spark would put in the time at which it reads the query."""
    reads = name_of_call(node) in _READS_TIMES or isinstance(node, exp.Cast)
    return reads and _first_text(node) in _TODAY
