"""Queries of one group that mean the same share their stages; checkpoints are found again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from anabranch.algebra.join import Join
from anabranch.engine import Engine, Stream
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.optimizer.meaning.sharing import Sharing
from anabranch.planning import PlannedQueries, plan_queries
from anabranch.runtime.sources.declare.shared_results import publish
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.layout import first_layout
from anabranch.runtime.store.query_record import QueryRecord, write_query_record

SCRIPT = """
CREATE STREAM Bid (itemID INT, price DOUBLE, at BIGINT) SOURCE 'bids.csv' ORDERED BY at;
CREATE STREAM Sale (item INT, amount DOUBLE, at BIGINT) SOURCE 'sales.csv' ORDERED BY at;
"""
PAIRS = {
    "a condition": (
        "SELECT itemID, COUNT(*) AS n FROM Bid WINDOW(RANGE 10) WHERE price > 1 AND itemID <> 2 "
        "GROUP BY itemID",
        "SELECT itemID AS item, COUNT(*) AS many FROM Bid WINDOW(RANGE 10) "
        "WHERE 2 <> itemID AND 1 < price GROUP BY itemID",
    ),
    "another spelling": (
        "SELECT itemID, COUNT(*) AS n FROM Bid WINDOW(RANGE 10) WHERE price BETWEEN 1 AND 5 + 4 "
        "AND itemID NOT IN (2, 3) GROUP BY itemID",
        "SELECT itemID, COUNT(*) AS n FROM Bid WINDOW(RANGE 10) WHERE NOT (itemID = 3 OR "
        "2 = itemID OR price < 1) AND 9 >= price GROUP BY itemID",
    ),
    "a join": (
        "SELECT b.price, s.amount FROM Bid WINDOW(RANGE 10) AS b JOIN Sale WINDOW(RANGE 5) AS s "
        "ON b.itemID = s.item",
        "SELECT y.amount, x.price AS paid FROM Sale WINDOW(RANGE 5) AS y, "
        "Bid WINDOW(RANGE 10) AS x WHERE y.item = x.itemID",
    ),
    "a union": (
        "SELECT DISTINCT id FROM ((SELECT itemID AS id FROM Bid WINDOW(RANGE 3)) UNION ALL "
        "(SELECT item AS id FROM Sale WINDOW(RANGE 3))) AS u",
        "SELECT DISTINCT id FROM ((SELECT item AS id FROM Sale WINDOW(RANGE 3)) UNION ALL "
        "(SELECT itemID AS id FROM Bid WINDOW(RANGE 3))) AS u",
    ),
}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.chdir(tmp_path)
    Path("bids.csv").write_text("itemID,price,at\n1,2.5,1\n2,3.5,2\n1,0.5,4\n")
    Path("sales.csv").write_text("item,amount,at\n1,1.5,1\n3,3.5,3\n")
    with Engine() as engine:
        engine.sql(SCRIPT)
        yield engine


def pair(engine: Engine, name: str) -> list[Stream]:
    return [engine.sql(text) for text in PAIRS[name]]


def stateful(planned: PlannedQueries) -> int:
    started = LocalRunner(planned.physical).traces
    return len(started)


@pytest.mark.parametrize("name", list(PAIRS))
def test_queries_that_mean_the_same_share_their_state(engine: Engine, name: str) -> None:
    queries = pair(engine, name)
    together = plan_queries(queries)
    assert stateful(together) == stateful(plan_queries(queries[:1]))
    assert stateful(plan_queries(queries, sharing="text")) > stateful(together)
    rules = [step.rule for step in together.queries[1].optimized.steps]
    assert rules[0] == "share_equal_parts"


@pytest.mark.parametrize("name", list(PAIRS))
def test_the_first_query_runs_as_it_does_alone(engine: Engine, name: str) -> None:
    queries = pair(engine, name)
    alone = plan_queries(queries[:1]).queries[0].optimized.node
    assert plan_queries(queries).queries[0].optimized.node == alone


@pytest.mark.parametrize("name", list(PAIRS))
def test_a_group_that_began_by_text_resumes_so(engine: Engine, name: str, tmp_path: Path) -> None:
    """The state of earlier versions is found, and one that began by meaning, too."""
    queries = pair(engine, name)
    for sharing in get_args(Sharing):
        checkpoint = str(tmp_path / f"checkpoint-{sharing}")
        begun = plan_queries(queries, sharing=sharing).physical
        write_query_record(
            Folder.at(checkpoint),
            QueryRecord(
                plan=plan_fingerprint(begun),
                query="q",
                shards=2,
                routed=True,
                layout=first_layout(begun, "q"),
            ),
        )
        found = plan_queries(queries, checkpoint=checkpoint).physical
        assert plan_fingerprint(found) == plan_fingerprint(begun)
        # A query is added to the group: what was there is found again.
        more = [*queries, engine.sql("SELECT item FROM Sale WINDOW(RANGE 77) WHERE amount > 1")]
        grown = plan_queries(more, checkpoint=checkpoint).queries[1].optimized.node
        assert grown == plan_queries(more, sharing=sharing).queries[1].optimized.node


def test_a_group_of_an_earlier_version_resumes_as_it_shared(engine: Engine, tmp_path: Path) -> None:
    """That version knew two sides of a comparison, but not BETWEEN and its bounds."""
    queries = [*pair(engine, "a condition"), *pair(engine, "another spelling")]
    written = "9741a17f8c11cc99"
    kinds = {sharing: plan_queries(queries, sharing=sharing) for sharing in get_args(Sharing)}
    assert plan_fingerprint(kinds["earlier"].physical) == written
    assert [stateful(planned) for planned in kinds.values()] == [2, 3, 4]
    record = QueryRecord(plan=written, query="q", shards=2, routed=True)
    write_query_record(Folder.at(str(tmp_path / "checkpoint")), record)
    found = plan_queries(queries, checkpoint=str(tmp_path / "checkpoint"))
    assert plan_fingerprint(found.physical) == written
    assert found.queries[1].optimized.steps[0].rule == "share_equal_parts"


def test_a_join_of_two_streams_is_read_by_a_join_of_three(engine: Engine, tmp_path: Path) -> None:
    queries = [
        engine.sql(PAIRS["a join"][0]),
        engine.sql(
            "SELECT o.price, s.amount FROM Bid WINDOW(RANGE 20) AS o, Bid WINDOW(RANGE 10) AS b, "
            "Sale WINDOW(RANGE 5) AS s WHERE o.itemID = b.itemID AND s.item = b.itemID"
        ),
    ]
    planned = plan_queries(queries)
    assert stateful(planned) == 2
    assert planned.queries[1].optimized.steps[0].rule == "share_equal_parts"
    # An earlier version computed both joins of the second query by themselves.
    checkpoint = str(tmp_path / "checkpoint")
    begun = plan_queries(queries, sharing="earlier").physical
    assert plan_fingerprint(begun) != plan_fingerprint(planned.physical)
    record = QueryRecord(plan=plan_fingerprint(begun), query="q", shards=2, routed=True)
    write_query_record(Folder.at(checkpoint), record)
    found = plan_queries(queries, checkpoint=checkpoint).physical
    assert plan_fingerprint(found) == plan_fingerprint(begun)


def test_queries_that_join_by_where_share_the_join(engine: Engine) -> None:
    """What both have as they are written is a product, with a row for every pair."""
    text = (
        "SELECT b.price, s.amount FROM Bid WINDOW(RANGE 10) AS b, Sale WINDOW(RANGE 5) AS s "
        "WHERE b.itemID = s.item AND price > "
    )
    queries = [engine.sql(f"{text}{least}") for least in (1, 2)]
    planned = plan_queries(queries)
    joins = [
        {node for node in query.optimized.node.walk() if isinstance(node, Join)}
        for query in planned.queries
    ]
    (shared,) = joins[0] | joins[1]
    assert shared.predicate is not None
    assert stateful(planned) == 1


def test_as_written_shares_what_is_written_alike_only(engine: Engine) -> None:
    queries = pair(engine, "a condition")
    planned = plan_queries(queries, plan="as-written")
    assert [query.optimized.steps for query in planned.queries] == [(), ()]
    assert stateful(planned) == 2


@pytest.mark.parametrize("name", list(PAIRS))
def test_results_that_another_query_publishes_are_read_by_meaning(
    engine: Engine, name: str
) -> None:
    first, second = pair(engine, name)
    first.run_local("out")
    published = [publish(first.node, "first", "out")]
    planned = plan_queries([second], published=published)
    assert list(planned.physical.sources) == ["results of first"]
    assert planned.queries[0].optimized.steps[0].rule == "read_published_results"
    apart = plan_queries([second], published=published, sharing="text")
    assert "results of first" not in apart.physical.sources


def test_five_hundred_queries_are_planned_in_seconds(engine: Engine) -> None:
    """Half of them mean what another one does."""
    texts = [
        f"SELECT itemID, SUM(price) AS s{number} FROM Bid WINDOW(RANGE {10 + number // 2 % 50}) "
        f"WHERE {condition} GROUP BY itemID"
        for number in range(500)
        for condition in [
            f"price > {number // 2 % 7} AND itemID <> 3"
            if number % 2
            else f"3 <> itemID AND {number // 2 % 7} < price"
        ]
    ]
    queries = [engine.sql(text) for text in texts]
    began = time.process_time()
    planned = plan_queries(queries)
    seconds = time.process_time() - began
    assert stateful(planned) == 250
    assert len(planned.physical.outputs) == 500
    # It takes about half a second of one core; the bound leaves room for busy machines.
    assert seconds < 5
