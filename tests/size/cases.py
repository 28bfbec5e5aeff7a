"""Queries of every family, how much they read, and what DuckDB says about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import anabranch as ab
from tests.size.data import Shape

Query = Callable[..., Any]
"""From the streams `s` and `t` of a case to its query."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A query at size.

    Attributes:
        query: From streams to the query.
        oracle: The same over the tables `s` and `t` of events, at the instant `$t`.
        s: The first stream.
        t: The second one, if there is one.
        per_batch: How many files of each stream make a batch.
        shards: More or fewer than tasks, which are two.
        close: Columns of which the oracle rounds after every row.
        copies: The query merges so many copies of `s`.
    """

    query: Query
    oracle: str
    s: Shape
    t: Shape | None = None
    per_batch: int = 1
    shards: int = 2
    close: tuple[str, ...] = ()
    copies: int = 1

    @property
    def rows(self) -> int:
        """All that the query reads."""
        return self.s.rows * self.copies + (self.t.rows if self.t else 0)


@ab.uda(name="spread")
class Spread:
    """The difference of the largest and the smallest key number of a window, and how many."""

    def compute(self, i: list[int]) -> int:
        return (max(i) - min(i)) * 1_000_003 + len(i)


def window(size: int, table: str = "s") -> str:
    """The rows of the last instants."""
    return f"(SELECT * FROM {table} WHERE start <= $t AND start > $t - {size})"


def tumbling(size: int, table: str = "s") -> str:
    """The rows of the last interval that is complete."""
    last = f"(floor(($t + 1) / {size}) * {size} - 1)"
    return f"(SELECT * FROM {table} WHERE start <= {last} AND start > {last} - {size})"


def now(table: str = "s") -> str:
    """What holds."""
    return f'(SELECT * FROM {table} WHERE start <= $t AND "end" > $t)'


def held(table: str, at: str) -> str:
    """What holds at an instant, as keys."""
    return f'SELECT k % 50 AS k, n > 0 AS p FROM {table} WHERE start <= {at} AND "end" > {at}'


MILLION = 1_000_000
FEW_KEYS = "CASE WHEN k >= 1000000 THEN 999 ELSE k END"
AGGREGATES = {
    "c": "COUNT(*)",
    "cv": "COUNT(v)",
    "s": "SUM(v)",
    "a": "AVG(v)",
    "lo": "MIN(n)",
    "hi": "MAX(n)",
    "sd": "SUM(d)",
    "ad": "AVG(n % 1000)",
    "since": "MIN(ts)",
}
IN_SQL = (
    "count(*) AS c, count(v) AS cv, sum(v) AS s, avg(v) AS a, min(n) AS lo, max(n) AS hi, "
    "sum(d) AS sd, avg(n % 1000) AS ad, min(ts) AS since"
)
JOINED = Shape(rows=MILLION // 2, files=20, seed=4)
WITH = Shape(rows=MILLION // 5, files=20, seed=5, keys=50_000, hot=False)
LIVES = Shape(rows=MILLION // 2, files=20, seed=6, elements=True)
OTHERS = Shape(rows=MILLION // 2, files=20, seed=7, elements=True)


def join(how: str) -> Query:
    return lambda s, t: (
        s.select("i", "k").window(4).join(t.select("i AS j", "k AS q").window(6), "k = q", how=how)
    )


def in_sql(how: str, columns: str) -> str:
    return (
        f"SELECT {columns} FROM {window(4)} a {how} JOIN (SELECT i AS j, k AS q FROM "
        f"{window(6, 't')}) b ON a.k = b.q"
    )


def set_operation(name: str) -> Query:
    return lambda s, t: getattr(s.select("k % 50 AS k", "n > 0 AS p"), name)(
        t.select("k % 50 AS k", "n > 0 AS p")
    )


CASES: dict[str, Case] = {
    "filter and map": Case(
        query=lambda s: s.where("n % 3 = 0 AND k IS NOT NULL").select("i", "k", "d", "n - 1 AS m"),
        oracle=f"SELECT i, k, d, n - 1 AS m FROM {now()} WHERE n % 3 = 0 AND k IS NOT NULL",
        s=Shape(rows=2 * MILLION, files=8, seed=2, elements=True),
        per_batch=4,
        shards=1,
    ),
    "filter over many files and one shard": Case(
        query=lambda s: s.where("n > 990").select("i", "v"),
        oracle=f"SELECT i, v FROM {now()} WHERE n > 990",
        s=Shape(rows=MILLION, files=200, seed=3, elements=True),
        per_batch=20,
        shards=1,
    ),
    "sliding windows": Case(
        query=lambda s: s.window(8).group_by("k").agg(**AGGREGATES),
        oracle=f"SELECT k, {IN_SQL} FROM {window(8)} GROUP BY k",
        s=Shape(rows=2 * MILLION, files=40),
        per_batch=10,
        shards=5,
    ),
    "tumbling windows": Case(
        query=lambda s: s.window(20, slide=20).group_by("k").agg(**AGGREGATES),
        oracle=f"SELECT k, {IN_SQL} FROM {tumbling(20)} GROUP BY k",
        s=Shape(rows=4 * MILLION, files=8, seed=8),
        per_batch=4,
        shards=2,
    ),
    "everything in one group": Case(
        query=lambda s: s.window(15, slide=5).agg(
            c="COUNT(*)", big="SUM(CAST(n AS DECIMAL(38, 0)))", d="COUNT(DISTINCT n)"
        ),
        oracle="SELECT count(*) AS c, sum(n)::DECIMAL(38, 0) AS big, count(DISTINCT n) AS d FROM "
        "(SELECT * FROM s WHERE start <= floor(($t + 1) / 5) * 5 - 1 AND "
        "start > floor(($t + 1) / 5) * 5 - 16)",
        s=Shape(rows=MILLION, files=20, seed=9),
        per_batch=5,
        shards=5,
    ),
    "distinct values, variance and median": Case(
        query=lambda s: (
            s.where("v < 1e300")
            .window(10, slide=10)
            .group_by(f"{FEW_KEYS} AS k")
            .agg(d="COUNT(DISTINCT n)", var="VAR_POP(v)", sd="STDDEV_SAMP(v)", m="MEDIAN(v)")
        ),
        oracle=f"SELECT {FEW_KEYS} AS k, count(DISTINCT n) AS d, var_pop(v) AS var, "
        f"stddev_samp(v) AS sd, median(v) AS m FROM {tumbling(10)} WHERE v < 1e300 GROUP BY 1",
        s=Shape(rows=MILLION, files=20, seed=10),
        per_batch=5,
        close=("var", "sd"),
    ),
    "hundreds of batches with corrections": Case(
        query=lambda s: s.group_by("k % 100 AS k").agg(**AGGREGATES),
        oracle=f"SELECT k % 100 AS k, {IN_SQL} FROM {now()} GROUP BY 1",
        s=Shape(rows=MILLION, files=200, seed=11, elements=True),
        shards=2,
    ),
    "corrections of all keys": Case(
        query=lambda s: s.group_by("k").agg(c="COUNT(*)", s="SUM(v)", lo="MIN(n)", t="MAX(ts)"),
        oracle=f"SELECT k, count(*) AS c, sum(v) AS s, min(n) AS lo, max(ts) AS t FROM {now()} "
        "GROUP BY k",
        s=LIVES,
        per_batch=4,
        shards=5,
    ),
    "join": Case(
        query=join("inner"),
        oracle=in_sql("", "i, k, j, q"),
        s=JOINED,
        t=WITH,
        per_batch=5,
        shards=5,
    ),
    "left join": Case(
        query=join("left"),
        oracle=in_sql("LEFT", "i, k, j, q"),
        s=JOINED,
        t=WITH,
        per_batch=10,
    ),
    "semi join": Case(
        query=join("semi"), oracle=in_sql("SEMI", "i, k"), s=JOINED, t=WITH, per_batch=5
    ),
    "anti join": Case(
        query=join("anti"), oracle=in_sql("ANTI", "i, k"), s=JOINED, t=WITH, per_batch=5, shards=5
    ),
    "distinct": Case(
        query=lambda s: s.select("k % 500 AS k", "n > 0 AS p").distinct(),
        oracle=f"SELECT DISTINCT k % 500 AS k, n > 0 AS p FROM {now()}",
        s=LIVES,
        per_batch=4,
        shards=5,
    ),
    "difference": Case(
        query=set_operation("difference"),
        oracle=f"{held('s', '$t')} EXCEPT ALL {held('t', '$t')}",
        s=LIVES,
        t=OTHERS,
        per_batch=5,
    ),
    "intersection": Case(
        query=set_operation("intersection"),
        oracle=f"{held('s', '$t')} INTERSECT ALL {held('t', '$t')}",
        s=LIVES,
        t=OTHERS,
        per_batch=5,
    ),
    "union": Case(
        query=set_operation("union"),
        oracle=f"{held('s', '$t')} UNION ALL {held('t', '$t')}",
        s=LIVES,
        t=OTHERS,
        per_batch=5,
        shards=1,
    ),
    "first rows": Case(
        query=lambda s: (
            s.window(10, slide=5).select("i", "k", "d").top(3, ["d DESC", "i"], by="k % 10 AS g")
        ),
        oracle="SELECT i, k, d FROM (SELECT * FROM s WHERE start <= floor(($t + 1) / 5) * 5 - 1 "
        "AND start > floor(($t + 1) / 5) * 5 - 11) QUALIFY row_number() OVER "
        "(PARTITION BY k % 10 ORDER BY d DESC, i) <= 3",
        s=Shape(rows=MILLION, files=20, seed=12),
        per_batch=5,
    ),
    "first rows of what is corrected": Case(
        query=lambda s: s.select("i", "k", "d").top(3, ["d DESC", "i"], by="k % 100 AS g"),
        oracle=f"SELECT i, k, d FROM {now()} QUALIFY row_number() OVER "
        "(PARTITION BY k % 100 ORDER BY d DESC, i) <= 3",
        s=LIVES,
        per_batch=5,
        shards=3,
    ),
    "last rows of each key": Case(
        query=lambda s: s.select("i", "k").rows_window(3, by="k", order_by="i"),
        oracle="SELECT i, k FROM s WHERE start <= $t QUALIFY row_number() OVER "
        "(PARTITION BY k ORDER BY start DESC, i DESC) <= 3",
        s=Shape(rows=MILLION // 2, files=10, seed=13),
        per_batch=5,
        shards=5,
    ),
    "sessions": Case(
        query=lambda s: s.select("i", "k").session_window(3, by="k", columns=("b", "e")),
        oracle="WITH a AS (SELECT *, start - coalesce(lag(start) OVER w, -999) >= 3 AS new FROM s "
        "WINDOW w AS (PARTITION BY k ORDER BY start, i)), "
        "b AS (SELECT *, sum(new::INT) OVER (PARTITION BY k ORDER BY start, i) AS g FROM a), "
        "c AS (SELECT i, k, min(start) OVER x AS b, max(start) OVER x + 3 AS e FROM b "
        "WINDOW x AS (PARTITION BY k, g)) SELECT * FROM c WHERE b <= $t AND e > $t",
        s=Shape(rows=MILLION // 2, files=10, seed=14, keys=50_000),
        per_batch=5,
        shards=5,
    ),
    "what comes to hold": Case(
        query=lambda s: s.select("k % 50 AS k", "n > 0 AS p").istream(),
        oracle=f"{held('s', '$t')} EXCEPT ALL {held('s', '($t - 1)')}",
        s=LIVES,
        per_batch=5,
    ),
    "what ceases to hold": Case(
        query=lambda s: s.select("k % 50 AS k", "n > 0 AS p").dstream(anchor="first_invalid"),
        oracle=f"{held('s', '($t - 1)')} EXCEPT ALL {held('s', '$t')}",
        s=LIVES,
        per_batch=5,
    ),
    "merge of copies": Case(
        query=lambda *copies: copies[0].merge(*copies[1:], case="r3"),
        oracle=f"SELECT i, k, n, v, d, ts FROM {now()}",
        s=Shape(rows=MILLION // 2, files=20, seed=15, elements=True),
        copies=3,
        per_batch=4,
        shards=5,
    ),
    "an aggregate of the user's": Case(
        query=lambda s: s.tumbling(10, by="k % 100 AS g").agg(x="spread(i)").select("x"),
        oracle="SELECT (max(i) - min(i)) * 1000003 + count(*) AS x FROM s "
        "WHERE start // 10 = $t // 10 GROUP BY k % 100",
        s=Shape(rows=MILLION // 2, files=10, seed=16),
        per_batch=5,
    ),
}

INEXACT = Case(
    query=lambda s: (
        s.where("v < 1e300")
        .window(10, slide=10)
        .group_by(f"{FEW_KEYS} AS k")
        .agg(s="SUM(v / 10)", a="AVG(v / 7)", var="VAR_POP(v / 10)", sd="STDDEV_SAMP(v / 3)")
    ),
    oracle="",
    s=Shape(rows=MILLION, files=20, seed=17),
    per_batch=20,
    shards=1,
)
"""Sums that a float cannot hold; every rounding but the last one would show."""

IN_CI = (
    "filter and map",
    "sliding windows",
    "distinct values, variance and median",
    "corrections of all keys",
    "left join",
    "difference",
    "first rows",
    "first rows of what is corrected",
    "sessions",
    "merge of copies",
    "an aggregate of the user's",
)
"""Of these continuous integration runs a part."""
