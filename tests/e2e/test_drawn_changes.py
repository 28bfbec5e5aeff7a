"""Drawn queries become other drawn queries while they run on Spark, at drawn moments.

Before T the answer is what the old query means, from T on what the new one means, by the oracle.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.e2e.revised_queries import assert_legal

from anabranch import Engine, LogicalStream, write_stream
from anabranch.errors import PlanError
from anabranch.migrate.change import meant_at_all_times
from anabranch.migrate.migration import Migration
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of
from anabranch.model.time import Time
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.migrations import How
from anabranch.testing import meaning
from anabranch.testing.sql.cases import REGISTERED, SOURCES, plan_of
from anabranch.testing.sql.from_clause import Registered, Sources
from anabranch.testing.sql.queries import Queries
from anabranch.testing.sql.scope import Scalars
from anabranch.testing.sql.text import ours

pytestmark = pytest.mark.spark

PATIENCE: Final = 120.0
DEEP: Final = settings.get_current_profile_name() == "nightly"
PAIRS: Final = 40 if DEEP else 8
FILES: Final = 6
WAYS: Final[Sequence[How]] = ("clip", "replay", "auto")
SPAN: Final = 10
"""Chronons of a file."""

READ: Final = {
    "p": REGISTERED["p"],
    "r": Registered(columns=REGISTERED["r"].columns),
}
"""Points that are not corrected, as rows of files; lifetimes that are, as elements."""

WRAPPED: Final = "SELECT CAST(n AS BIGINT) AS n, CAST(t AS STRING) AS t FROM ({}) AS drawn(n, t)"
"""All queries have the same columns, so each can become any other."""


@dataclass(frozen=True)
class Pair:
    """What a query is and what it becomes, after how many files, and how.

    `is_equivalent`: it is the same answer by another plan.
    """

    old: str
    new: str
    is_equivalent: bool
    after: int = 1
    how: How = "auto"


@st.composite
def drawn_queries(draw: st.DrawFn) -> str:
    scalars = Scalars(draw)
    query = Queries(scalars, Sources(scalars, READ)).select(1, kinds=["int", "text"])
    return WRAPPED.format(ours(query))


def in_two_parts(query: str) -> str:
    """The same answer by another plan."""
    half = f"SELECT n, t FROM ({query}) AS whole(n, t) WHERE "
    return f"{half} n > 1 UNION ALL {half} NOT coalesce(n > 1, FALSE)"


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    old = draw(drawn_queries())
    is_equivalent = draw(st.integers(0, 3)) == 3
    new = in_two_parts(old) if is_equivalent else draw(drawn_queries())
    return Pair(old, new, is_equivalent)


def drawn(count: int) -> list[Pair]:
    """The same pairs in every run: both have answers, and those of two queries differ."""
    found: list[Pair] = []
    probe = Feed(0)
    for number in range(FILES):
        probe.more(number)
    given_ = probe.means()

    def tells_something(pair: Pair) -> bool:
        old, new = (meaning(plan_of(each), given_) for each in (pair.old, pair.new))
        is_same = not old.difference(new)
        return min(len(old.steps), len(new.steps)) > FILES and is_same == pair.is_equivalent

    @seed(2031)
    @settings(
        max_examples=count * 60,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(pairs())
    def take(pair: Pair) -> None:
        # The oracle computes snapshot by snapshot, which takes a while for what holds for ever.
        is_long = len(pair.old) > 600 or "UNBOUNDED" in f"{pair.old} {pair.new}"
        if len(found) == count or is_long:
            return
        # Neighbours differ in little; a pair has to be of another form than those before.
        if clauses(pair) not in map(clauses, found) and tells_something(pair):
            found.append(pair)

    take()
    chance = random.Random(2031)
    ways = [WAYS[number % len(WAYS)] for number in range(len(found))]
    chance.shuffle(ways)
    return [
        replace(pair, after=chance.randrange(1, FILES - 1), how=how)
        for pair, how in zip(found, ways, strict=True)
    ]


def clauses(pair: Pair) -> tuple[frozenset[str], bool]:
    """What tells the form of a pair: the words of the query that is changed."""
    return frozenset(re.findall(r"\b[A-Z]{4,}\b", pair.old)), pair.is_equivalent


class Feed:
    """What comes from both streams, file by file."""

    def __init__(self, number: int) -> None:
        self._chance = random.Random(number)
        self._live: list[Insert] = []
        self.points: list[tuple[Any, ...]] = []
        self.batches: list[EventBatch] = []

    def write(self, folder: Path, number: int) -> None:
        """The next stretch of time of both, as files."""
        text = "".join(f"{json.dumps(line)}\n" for line in self.more(number))
        _put(folder / "p", f"{number}.jsonl", text)
        write_stream(folder / "tmp.jsonl", [self.batches[-1]])
        (folder / "tmp.jsonl").rename(folder / "r" / f"{number}.jsonl")

    def more(self, number: int) -> list[dict[str, Any]]:
        """The next stretch of time of both; the rows of the points."""
        first = number * SPAN
        lines = [self._row("p", first + at // 2) for at in range(2 * SPAN)]
        self._chance.shuffle(lines)
        # Out of order by less than the delay.
        lines.sort(key=lambda line: int(line["at"]) + self._chance.randrange(3))
        self.points += [tuple(line.values()) for line in lines]
        self.batches.append(self._elements(first))
        return lines

    def means(self) -> dict[str, LogicalStream]:
        """What has come by now."""
        points = ((row[:-1], row[-1], row[-1] + 1) for row in self.points)
        return {"p": LogicalStream.of(points), "r": LogicalStream.of_batches(self.batches)}

    def _row(self, name: str, at: int) -> dict[str, Any]:
        chance, found = self._chance, dict[str, Any]()
        for field in SOURCES[name].schema:
            values: list[Any] = [0, 1, 2, 3, None]
            found[field.name] = chance.choice(
                ["a", "b", "ab", None] if field.type == pa.string() else values
            )
        return {**found, "at": at}

    def _elements(self, first: int) -> EventBatch:
        chance, found = self._chance, list[Element]()
        for _ in range(SPAN):
            row = self._row("r", first + chance.randrange(SPAN))
            start = row.pop("at")
            self._live.append(Insert(row, start, start + chance.randrange(1, 12)))
            found.append(self._live[-1])
        for _ in range(SPAN // 3):
            there = [n for n, each in enumerate(self._live) if each.end >= first]
            event = self._live.pop(chance.choice(there))
            end = max(event.start, first) + chance.randrange(8)
            if end != event.end:
                found.append(Adjust(event.payload, event.start, event.end, end))
            if end > event.start:
                self._live.append(Insert(event.payload, event.start, end))
        return batch_of([*found, Stable(first + SPAN)], SOURCES["r"].schema)


def _put(folder: Path, name: str, text: str) -> None:
    (folder.parent / "tmp").write_text(text)
    (folder.parent / "tmp").rename(folder / name)


def declare(engine: Engine, folder: Path) -> None:
    engine.sql(
        f"CREATE STREAM p (a BIGINT, Name STRING, at BIGINT) SOURCE '{folder}/p/*.jsonl' "
        "ORDERED BY at DELAY 4"
    )
    engine.stream(folder / "r", name="r", schema=SOURCES["r"].schema)


@dataclass
class Changing:
    """A query on its way from one of a pair to the other."""

    pair: Pair
    engine: Engine
    folder: Path
    feed: Feed
    run: Run
    migration: Migration | None = None

    def step(self, number: int) -> None:
        """One file of each stream; the change is asked for before the batch that reads them."""
        if number == self.pair.after:
            self.change()
        if number:
            self.feed.write(self.folder, number)
        self.run.drain()

    def change(self) -> None:
        """In the drawn way, else in one that is possible; some pairs have none."""
        new = self.engine.sql(self.pair.new)
        ways: list[How] = [self.pair.how, "auto"]
        for how in ways:
            try:
                self.migration = self.run.migrate(new, how=how)
            except PlanError as problem:
                if "cannot change" not in problem.what:
                    raise
            else:
                self.migration.await_switched(PATIENCE)
                return

    def assert_right(self) -> None:
        """Compare the output with what it means, as far as it is settled."""
        node = self.engine.sql(self.pair.old).node
        stable = Time(int(self.run.stable))
        if self.migration is not None:
            assert self.migration.at is not None
            new = self.engine.sql(self.pair.new).node
            node = meant_at_all_times(node, new, Time(self.migration.at))
        log = self.folder / "out"
        got = LogicalStream.of_batches(
            part for part in LogFolder(str(log)).parts() if isinstance(part, EventBatch)
        )
        wrong = got.difference(meaning(node, self.feed.means()), stable)
        assert not wrong, f"{self.pair}\n{self.migration}\n{wrong}"
        assert_legal(log)


def test_drawn_queries_become_others_on_spark(spark: object, tmp_path: Path) -> None:
    queries = []
    for number, pair in enumerate(drawn(PAIRS)):
        engine, folder = Engine(spark, shards=2), tmp_path / f"{number}"
        for name in READ:
            (folder / name).mkdir(parents=True)
        feed = Feed(number)
        feed.write(folder, 0)
        declare(engine, folder)
        run = engine.sql(pair.old).start(folder / "out", allow_unbounded=True)
        queries.append(Changing(pair, engine, folder, feed, run))
    assert len(queries) == PAIRS
    for number in range(FILES):
        for query in queries:
            query.step(number)
    ways: Counter[str] = Counter()
    passed = 0
    for query in queries:
        query.run.stop()
        query.assert_right()
        if query.migration is not None:
            at = query.migration.at
            assert at is not None
            ways[query.migration.how] += 1
            passed += 0 < at < int(query.run.stable)
    assert ways.total() >= PAIRS * 3 // 4, ways
    assert min(ways["clip"], ways["replay"]) >= PAIRS // 4, ways
    # What is compared lies on both sides of T.
    assert passed >= PAIRS // 2
