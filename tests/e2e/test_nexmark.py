"""The queries of examples/ give the answers of DuckDB, out of order and with corrections."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.e2e.auction_answers import AUCTION
from tests.e2e.nexmark_answers import NEXMARK, SECOND, Answers, Question, Row

from anabranch.engine import Engine
from anabranch.model.time import Duration, Time
from anabranch.workloads import nexmark
from anabranch.workloads.arrival import bid_rows
from anabranch.workloads.disturbance import Disturbance
from anabranch.workloads.nexmark_arrival import write_event_elements, write_event_rows
from anabranch.workloads.nexmark_events import SCHEMAS, NexmarkEvents, side_input

EXAMPLES = Path(__file__).parents[2] / "examples"
# 40 seconds around midnight, in steps of a tenth of a second: five events share each of them.
EVENTS = NexmarkEvents(
    events=2_000,
    rate=50,
    open_auctions=20,
    active_persons=20,
    chronon=Duration(SECOND // 10),
    begin=Time(1_793_577_585_000_000),
)
BIDS = nexmark.Nexmark(bids=1_000, rate=1 / 60, open_items=20)


@dataclass(frozen=True)
class Case:
    """A folder with queries and their data, and what they have to answer."""

    folder: Path
    answers: Answers
    instants: list[int]

    def query(self, name: str, streams: str = "streams.sql") -> tuple[str, str]:
        path = self.folder / f"{name}.sql"
        return path.read_text().replace("'streams.sql'", f"'{streams}'"), str(path)

    def check(self, name: str, elements: pa.Table) -> None:
        """Compare all instants."""
        seen = 0
        for instant in self.instants:
            want = self.answers.at(name, instant)
            got = snapshot(elements, instant)
            assert close(got, want), f"{name} at {instant}"
            seen += len(want)
        assert seen > 0


def snapshot(elements: pa.Table, instant: int) -> list[Row]:
    """The rows that hold at an instant, from a table of inserts and adjusts."""
    names = [f'"{name}"' for name in elements.column_names[4:]]
    columns = ", ".join(names)
    # An open end is NULL; an adjust takes one end away and gives another.
    holds = f"start <= {instant} AND {instant} < coalesce({{}}, {2**63 - 1})"
    text = f"""
        SELECT {columns}, sum(CASE kind WHEN 'insert' THEN ({holds.format('"end"')})::INT
          ELSE ({holds.format("new_end")})::INT - ({holds.format('"end"')})::INT END) AS copies
        FROM elements WHERE kind <> 'stable' GROUP BY {columns} HAVING copies <> 0"""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("elements", elements)
    found = connection.execute(text).fetchall()
    return sorted((row[:-1] for row in found for _ in range(row[-1])), key=repr)


def close(got: list[Row], want: list[Row]) -> bool:
    """Equal, but for the last digits of averages."""

    def same(one: Any, other: Any) -> bool:
        if isinstance(one, float) and isinstance(other, float):
            return math.isclose(one, other, rel_tol=1e-9)
        return bool(one == other)

    return len(got) == len(want) and all(
        len(one) == len(other) and all(map(same, one, other)) for one, other in zip(got, want)
    )


def case_of(
    folder: Path,
    tables: Mapping[str, pa.Table],
    questions: Mapping[str, Question],
    instants: list[int],
) -> Case:
    return Case(folder, Answers(tables, questions), sorted(set(instants)))


def times(table: pa.Table, name: str) -> list[int]:
    return [int(value) for value in table.column(name).cast(pa.int64()).to_pylist()]


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """The public benchmark: as rows out of order, and as elements with corrections."""
    tables: dict[str, pa.Table] = {"side_input": side_input()}
    for name in SCHEMAS:
        rows = EVENTS.rows(name, np.arange(EVENTS.count(name)))
        tables[name] = pa.Table.from_batches([rows])
    draw = random.Random(7)
    bids = times(tables["bid"], "dateTime")
    rare = [t for t, a in zip(bids, tables["bid"]["auction"].to_pylist()) if a % 123 == 0]
    expiries = times(tables["auction"], "expires")
    slides = [EVENTS.begin + n * 5 * SECOND - 1 for n in range(1, 8)]
    instants = [
        *(*draw.sample(bids, 6), *rare[:2], *draw.sample(expiries, 4)),
        *(*slides, slides[1] - 1, slides[1] + 1, draw.choice(expiries) - 1),
        *(EVENTS.begin + 45 * SECOND, EVENTS.begin + 605 * SECOND),
    ]
    cases = {}
    for form in ("rows", "elements"):
        folder = tmp_path_factory.mktemp(form) / "nexmark"
        shutil.copytree(EXAMPLES / "nexmark", folder, ignore=shutil.ignore_patterns("data"))
        cases[form] = case_of(folder, tables, NEXMARK, instants)
    shuffled = Disturbance(disorder=Duration(2 * SECOND))
    write_event_rows(cases["rows"].folder / "data", EVENTS, shuffled, files=3)
    write_event_elements(cases["elements"].folder / "data", EVENTS, files=2)
    return cases


@pytest.fixture(scope="session")
def auction(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The auction of the dissertation, a bid per minute."""
    folder = tmp_path_factory.mktemp("auction") / "auction"
    shutil.copytree(EXAMPLES / "auction", folder, ignore=shutil.ignore_patterns("data"))
    streams = {
        "bid": bid_rows(BIDS),
        "open_auction": nexmark.open_auctions(BIDS),
        "closed_auction": nexmark.closed_auctions(BIDS),
        "person": nexmark.persons(BIDS),
    }
    tables = {name: pa.Table.from_batches(list(rows)) for name, rows in streams.items()}
    for name, table in tables.items():
        (folder / "data" / name).mkdir(parents=True)
        half = -(-table.num_rows // 2)
        for number in range(2):
            part = table.slice(number * half, half)
            pq.write_table(part, folder / "data" / name / f"part-{number}.parquet")
    draw = random.Random(8)
    bids = times(tables["bid"], "bidTS")
    chosen = [
        t for t, i in zip(bids, tables["bid"]["itemID"].to_pylist()) if i in (1007, 1020, 1087)
    ]
    instants = [
        *(*draw.sample(bids, 6), *chosen[:2], bids[-1] + 45 * 60 * SECOND),
        *draw.sample(times(tables["closed_auction"], "closeTS"), 6),
        *draw.sample(times(tables["open_auction"], "openTS"), 20),
    ]
    return case_of(folder, tables, AUCTION, instants)


@pytest.mark.parametrize("query", NEXMARK)
def test_nexmark_out_of_order_in_this_process(query: str, events: dict[str, Case]) -> None:
    case = events["rows"]
    text, name = case.query(query)
    case.check(query, Engine().sql(text, name=name).run_local().table(raw=True))


@pytest.mark.parametrize("query", NEXMARK)
def test_nexmark_with_corrections_in_this_process(query: str, events: dict[str, Case]) -> None:
    case = events["elements"]
    text, name = case.query(query, "corrected_streams.sql")
    case.check(query, Engine().sql(text, name=name).run_local().table(raw=True))


@pytest.mark.parametrize("query", AUCTION)
def test_the_dissertation_in_this_process(query: str, auction: Case) -> None:
    text, name = auction.query(query)
    auction.check(query, Engine().sql(text, name=name).run_local().table(raw=True))


@pytest.mark.spark
@pytest.mark.parametrize("query", NEXMARK)
def test_nexmark_with_corrections_on_spark(
    query: str, events: dict[str, Case], engine: Engine, tmp_path: Path
) -> None:
    case = events["elements"]
    text, name = case.query(query, "corrected_streams.sql")
    own = Engine(engine.spark, shards=2)
    run = own.sql(text, name=name).start(to=tmp_path / "log", available_now=True)
    run.await_end()
    case.check(query, run.table(raw=True))


@pytest.mark.spark
@pytest.mark.parametrize("query", AUCTION)
def test_the_dissertation_on_spark(
    query: str, auction: Case, engine: Engine, tmp_path: Path
) -> None:
    text, name = auction.query(query)
    own = Engine(engine.spark, shards=2)
    run = own.sql(text, name=name).start(to=tmp_path / "log", available_now=True)
    run.await_end()
    auction.check(query, run.table(raw=True))
