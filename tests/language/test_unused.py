"""Nothing that is parsed is ignored: every part of a text is used, or refused where it stands."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from anabranch.aggregates.table import FORMS, FUNCTIONS
from anabranch.algebra.explain import explain_tree
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.errors import AnabranchError, QueryError
from anabranch.expressions.expression import Expression
from anabranch.language.bind.select import bind_query
from anabranch.language.names.catalog import Catalog, CatalogEntry
from anabranch.language.names.context import Context
from anabranch.language.text.aggregate_text import bind_aggregate
from anabranch.language.text.script import Script
from anabranch.language.text.statements import Describe, Drop
from anabranch.language.text.unused import refuse_unused
from anabranch.language.text.used import FLAGS, REFUSED_LATER, USED
from anabranch.language.text.words import parse_query, tokenize
from anabranch.reading import read_statements
from tests.algebra.function_arguments import rows, written
from tests.language.streams import plan, registry

GOLDEN = Path(__file__).parent.parent / "golden"
SCHEMA = pa.schema([("a", pa.int64())])
IN_SPARK = partial(Expression.parse, types=lambda _text, _schema: pa.int64())
TEXT = Script("SELECT a FROM s")
TYPES: list[type[exp.Expr]] = sorted(
    {
        kind
        for kind in vars(exp).values()
        if inspect.isclass(kind) and issubclass(kind, exp.Expression)
    },
    key=lambda kind: kind.__name__,
)


def refused(node: exp.Expr) -> QueryError | None:
    """What is said of a node in SELECT."""
    query = exp.Select(expressions=[node])
    try:
        refuse_unused(query, TEXT, tokenize(TEXT)[0])
    except QueryError as error:
        return error
    return None


def test_every_type_of_node_that_is_not_used_is_refused() -> None:
    assert len(TYPES) > 1000
    for kind in TYPES:
        if kind in USED or issubclass(kind, REFUSED_LATER):
            continue
        error = refused(kind())
        assert error is not None, kind
        assert error.hint, kind
        assert "line 1, column" in error.where, kind


def test_every_argument_that_is_not_used_is_refused() -> None:
    for kind, used in USED.items():
        for name in kind.arg_types:
            if name in used:
                continue
            error = refused(kind(**{name: exp.Null()}))
            assert error is not None, (kind, name)
            assert error.hint, (kind, name)
            assert "line 1, column" in error.where, (kind, name)


def test_aggregates_that_no_stream_has_are_refused_by_name() -> None:
    for kind in TYPES:
        if not issubclass(kind, exp.AggFunc) or kind in USED:
            continue
        with pytest.raises(QueryError, match="is not an aggregate"):
            bind_aggregate(kind(this=exp.column("a")), "x", SCHEMA)


def test_arguments_of_the_parser_are_those_that_were_looked_at(update_golden: bool) -> None:
    """A new version of the parser that knows another argument must be looked at."""
    golden = GOLDEN / "parser_arguments.txt"
    lines = []
    for kind, used in sorted(USED.items(), key=lambda each: each[0].__name__):
        if kind in FORMS:
            form = FORMS[kind][1]
            assert {*form.parts, *form.checked, *form.refused} == set(kind.arg_types) - FLAGS.get(
                kind, frozenset()
            ), f"{kind.__name__} is declared in {FORMS[kind][0].name}.py"
            continue
        rest = sorted(set(kind.arg_types) - used)
        uses = " ".join(sorted(used)) or "-"
        lines.append(f"{kind.__name__}: {uses} | refused: {' '.join(rest) or '-'}")
    text = "\n".join(lines) + "\n"
    if update_golden:
        golden.write_text(text)
    assert golden.read_text() == text


def test_odd_queries_mean_what_they_say_or_are_refused(update_golden: bool) -> None:
    golden = GOLDEN / "odd_queries.txt"
    cases = [case.split("\n----\n") for case in golden.read_text().strip("\n").split("\n====\n")]
    found = [(case[0], said(case[0])) for case in cases]
    if update_golden:
        golden.write_text("\n====\n".join(f"{sql}\n----\n{text}" for sql, text in found) + "\n")
    assert len(found) > 150
    for (sql, text), case in zip(found, cases, strict=True):
        if "hint: " in text:
            assert "line " in text, sql
        if not update_golden:
            assert text == case[1], sql


def said(sql: str) -> str:
    """The plan of a query, or why there is none."""
    try:
        return explain_tree(plan(sql))
    except AnabranchError as error:
        return str(error)


# Each shows what some arguments are for: without them the plan is another one, or there is none.
SHOWING = """
SELECT /*+ BROADCAST(b) */ a.itemID FROM Bid a JOIN OpenAuction b ON a.itemID = b.itemID
WITH x(a) AS (SELECT itemID FROM Bid) SELECT a FROM x
SELECT DISTINCT itemID FROM Bid b
SELECT itemID AS i, s.* EXCEPT (id) FROM Bid, sensor AS s(id, temperature, q)
SELECT b.itemID FROM Bid b LEFT JOIN OpenAuction o ON b.itemID = o.itemID
SELECT itemID FROM Bid b LEFT SEMI JOIN OpenAuction o USING (itemID)
SELECT itemID FROM Bid NATURAL JOIN OpenAuction
SELECT x.itemID FROM ((SELECT itemID FROM Bid) ORDER BY itemID LIMIT 3) AS x
SELECT x.i FROM (WITH y AS (SELECT itemID FROM Bid) SELECT itemID FROM y) AS x(i)
SELECT itemID FROM Bid UNION ALL SELECT itemID FROM OpenAuction ORDER BY itemID LIMIT 3
SELECT itemID FROM Bid UNION SELECT itemID FROM OpenAuction
WITH x AS (SELECT 5 AS c FROM Bid) SELECT itemID FROM Bid UNION ALL SELECT c FROM x
SELECT itemID FROM Bid EXCEPT ALL SELECT itemID FROM OpenAuction ORDER BY itemID LIMIT 3
SELECT itemID FROM Bid EXCEPT SELECT itemID FROM OpenAuction
WITH x AS (SELECT 5 AS c FROM Bid) SELECT itemID FROM Bid EXCEPT ALL SELECT c FROM x
SELECT itemID FROM Bid INTERSECT ALL SELECT itemID FROM OpenAuction ORDER BY itemID LIMIT 3
SELECT itemID FROM Bid INTERSECT SELECT itemID FROM OpenAuction
WITH x AS (SELECT 5 AS c FROM Bid) SELECT itemID FROM Bid INTERSECT ALL SELECT c FROM x
SELECT itemID, COUNT(*) FROM Bid WHERE itemID > 1 GROUP BY itemID HAVING COUNT(*) > 2
SELECT itemID, COUNT(*) FROM Bid GROUP BY ALL
SELECT itemID, LAG(itemID, 2, 5) OVER (ORDER BY bid_price) AS b FROM Bid
SELECT itemID, LEAD(itemID, 2, 5) OVER (ORDER BY bid_price) AS b FROM Bid
SELECT itemID FROM Bid QUALIFY ROW_NUMBER() OVER (PARTITION BY itemID ORDER BY bid_price) <= 3
SELECT itemID FROM Bid ORDER BY bid_price DESC NULLS FIRST LIMIT 3
SELECT itemID FROM Bid ORDER BY bid_price FETCH FIRST 5 ROWS ONLY
SELECT -id, ~id, NOT id = 1, (id), NULL IS NULL, TRUE, X'1F', r'a' FROM sensor
SELECT id + 1, id - 1, id * 2, id / 2, id DIV 2, id % 2, place || 'x', 'a' 'b' FROM sensor
SELECT id & 1, id | 1, id ^ 1, shiftleft(id, 1), id << 1, id >> 1 FROM sensor
SELECT id = 1 AND id <> 2 OR id < 3, id <= 4, id > 5, id >= 6, id <=> 7 FROM sensor
SELECT id IS DISTINCT FROM 5, place RLIKE 'x', id IS NOT NULL, id BETWEEN 1 AND 2 FROM sensor
SELECT place LIKE 'x', place NOT LIKE 'x', place ILIKE 'x', place NOT ILIKE 'x' FROM sensor
SELECT place LIKE 'x!%' ESCAPE '!', id IN (1, 2), id NOT IN (3) FROM sensor
SELECT CASE id WHEN 1 THEN 2 ELSE 3 END, IF(id = 1, 2, 3) FROM sensor
SELECT CAST(id AS STRING), TRY_CAST(place AS DECIMAL(5, 2)), place::INT FROM sensor
SELECT CAST(NULL AS ARRAY<INT>), CAST(NULL AS STRUCT<a: INT, b: STRING>) FROM sensor
SELECT DATE '2020-01-01' + INTERVAL '1' DAY, EXTRACT(YEAR FROM DATE '2020-01-01') FROM sensor
SELECT TRIM(LEADING 'x' FROM place), TRIM(place), SUBSTRING(place FROM 2 FOR 3) FROM sensor
SELECT POSITION('x' IN place), position('x', place, 2) FROM sensor
SELECT OVERLAY(place PLACING 'x' FROM 2 FOR 1), upper(place) FROM sensor
SELECT array(1, 2)[0], transform(array(1, 2), x -> x + id), struct(id AS a).a FROM sensor
SELECT id FROM sensor WHERE exists(array(1, 2), x -> x > id)
SELECT id FROM sensor s WHERE EXISTS (SELECT 1 FROM Bid b WHERE b.itemID = s.id)
SELECT id FROM sensor WHERE (id, id) IN (SELECT itemID, itemID FROM Bid)
SELECT id FROM sensor WHERE id IN (SELECT itemID FROM Bid)
SELECT id FROM sensor WHERE id > ALL (SELECT itemID FROM Bid) AND id < ANY (SELECT itemID FROM Bid)
SELECT SUM(id), AVG(id), MIN(id), MAX(id), MEDIAN(id), COUNT(DISTINCT id) FROM sensor
SELECT VARIANCE(id), VAR_POP(id), STDDEV(id), STDDEV_SAMP(id), STDDEV_POP(id) FROM sensor
SELECT COUNT_IF(id = 1), PERCENTILE(id, 0.5), PERCENTILE_DISC(id, 0.5) FROM sensor
SELECT PERCENTILE_CONT(id, 0.5), PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY id) FROM sensor
SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY id) FROM sensor
SELECT STRING_AGG(place, ','), STRING_AGG(place, ',' ORDER BY place) FROM sensor
SELECT SUM(id) FILTER (WHERE id > 1) FROM sensor
SELECT t.at, q.price FROM Trade t ASOF JOIN Quote q ON t.sym = q.sym AND t.at >= q.at
SELECT t.at, q.price FROM Trade t JOIN Quote FOR SYSTEM_TIME AS OF t.at q ON t.sym = q.sym
SELECT place COLLATE UTF8_LCASE, DATE '2020-01-01' + INTERVAL '1 2' DAY TO HOUR FROM sensor
"""

EXAMPLES = [
    re.sub(r"\by\b", "id", re.sub(r"\bx\b", column, f"SELECT {own.example} FROM sensor"))
    for own in FUNCTIONS.values()
    for column in ["id" if own.takes(pa.int64()) else "place"]
]

DECORATION = {
    (exp.Limit, "limit_options"): "LIMIT 5 ROWS is LIMIT 5",
    (exp.LimitOptions, "rows"): "LIMIT 5 ROWS is LIMIT 5",
    (exp.Fetch, "limit_options"): "FETCH FIRST 5 ROWS is FETCH FIRST 5",
    (exp.Fetch, "direction"): "FIRST and NEXT are the same",
    (exp.Subquery, "with_"): "the parser puts it into the query inside",
    (exp.Table, "db"): "a stream with it is unknown",
    (exp.Table, "catalog"): "a stream with it is unknown",
    (exp.Column, "db"): "the name of a stream before a struct with fields",
    (exp.Column, "catalog"): "the name of a stream before a struct with fields",
    (exp.Cast, "safe"): "set for TRY_CAST, which is a type of its own",
    (exp.Subquery, "joins"): "refused in parentheses",
    (exp.Table, "joins"): "refused in parentheses",
    (exp.Is, "negate"): "the parser writes NOT",
    (exp.Kwarg, "this"): "of user's modules, whose tests are elsewhere",
    (exp.Kwarg, "expression"): "of user's modules, whose tests are elsewhere",
    **{
        (tree, part): "checked, and changes nothing"
        for tree, (_, form) in FORMS.items()
        for part in form.checked
    },
}


def parsed(sql: str) -> exp.Query:
    """A query as it is read."""
    script = Script(sql)
    return parse_query(script, tokenize(script)[0])


def bound(query: exp.Query, sql: str) -> Node | str:
    """Its plan, or what is wrong with it."""
    try:
        context = Context(script=Script(sql), catalog=registry().catalog, scalar=IN_SPARK)
        return bind_query(query.copy(), context)
    except Exception as error:  # noqa: BLE001
        return type(error).__name__


def without(value: Any) -> Any:
    """Something else in place of a value that counts."""
    if isinstance(value, list):
        return value[:-1]
    return not value if isinstance(value, bool) else None


def test_what_is_listed_as_used_is_used() -> None:
    """Without an argument the plan is another one, or there is none at all."""
    shown: set[tuple[type[exp.Expr], str]] = set()
    for sql in [*SHOWING.strip().splitlines(), *EXAMPLES]:
        query = parsed(sql)
        whole = bound(query, sql)
        assert isinstance(whole, Node), (sql, whole)
        for place, node in enumerate(query.walk()):
            for name, value in node.args.items():
                pair = (type(node), name)
                if value is None or value == [] or pair in shown:
                    continue
                changed = query.copy()
                list(changed.walk())[place].set(name, without(value))
                if bound(changed, sql) != whole:
                    shown.add(pair)
    every = {(kind, name) for kind, used in USED.items() for name in used}
    flags = {(kind, name) for kind, names in FLAGS.items() for name in names}
    counts = sorted(f"{kind.__name__}.{name}" for kind, name in shown & set(DECORATION))
    assert not counts
    assert every >= set(DECORATION), "it is not even listed"
    missing = every - shown - flags - set(DECORATION)
    assert not missing, sorted(f"{kind.__name__}.{name}" for kind, name in missing)


def test_a_function_in_a_query_is_the_one_that_is_written() -> None:
    """Not what the parser takes it for: `date_add` of one dialect is not that of another."""
    arguments, texts = rows().schema, written()
    assert len(texts) > 400
    for text in texts:
        try:
            expected = IN_SPARK(text, arguments)
        except QueryError:
            continue
        script = Script(f"SELECT {text} AS x FROM s")
        entries = {
            "s": CatalogEntry(name="s", kind="stream", node=Source(name="s", schema=arguments))
        }
        context = Context(script=script, catalog=Catalog(entries), scalar=IN_SPARK)
        node = bind_query(parsed(script.text), context)
        assert isinstance(node, Map)
        [(_, found)] = node.columns
        assert found.sql == expected.sql, text


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("DROP TABLE Bid", "'Bid' is a stream, not a table"),
        ("DROP STREAM Person", "'Person' is a table, not a stream"),
        ("DESCRIBE VIEW Bid", "'Bid' is a stream, not a view"),
        ("DESCRIBE STREAM TABLE Bid", "'Bid' is not expected here"),
    ],
)
def test_the_kind_of_an_entry_counts(statement: str, what: str) -> None:
    names = registry()

    def execute() -> None:
        for each in read_statements(statement):
            if isinstance(each, Drop):
                names.drop(each, {})
            elif isinstance(each, Describe):
                names.describe(each)

    with pytest.raises(QueryError, match=what):
        execute()
