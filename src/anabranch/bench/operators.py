"""Every kernel by itself: events per second on one core, beside a plain batch query."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import duckdb
import numpy as np
import pyarrow as pa

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.bench.operator_cases import CASES, LEFT, RIGHT, Inputs, OperatorCase
from anabranch.bench.plain_sums import plain_sums
from anabranch.bench.report import Form, Report
from anabranch.bench.withdrawals import withdrawal_growth
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.numbers.hashing import load_compiled
from anabranch.model.time import Time

OVERLAP: Final = 2
"""About so many events of a key hold at one instant."""

DUCKDB_FORMS: Final[Mapping[str, str]] = {
    "from_arrow_events_per_s": "main",
    "from_tables_events_per_s": "tables",
}
"""How DuckDB gets the events, and the schema of names for that: the faster one is the anchor."""

GROWING: Final = ("aggregate", "minmax", "distinct", "difference", "join", "count_window")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorsSize:
    """How much is measured.

    Attributes:
        events: Events of all streams of an operator.
        batch: Events of a batch.
        live: How many events hold at one instant.
        adjusted: Shares of events that are adjusted later.
        repeats: How often the rate that counts is measured.
        preloaded: Live events of the two states whose batches are compared.
        grown: Events of each of those batches, and how many groups of eight are measured.
        shrunk: Live events of the two states in which withdrawals are compared.
        small: Events of the small batches, and how many of them there are.
    """

    events: int
    batch: int
    live: tuple[int, ...]
    adjusted: tuple[float, ...]
    repeats: int
    preloaded: tuple[int, int]
    grown: tuple[int, int] = (10_000, 4)
    shrunk: tuple[int, int] = (10_000, 1_000_000)
    small: tuple[int, int] = (1_000, 200)


FULL: Final = OperatorsSize(
    events=1_000_000,
    batch=100_000,
    live=(2_000, 200_000),
    adjusted=(0.0, 0.1, 0.5),
    repeats=3,
    preloaded=(10_000, 10_000_000),
)
QUICK: Final = OperatorsSize(
    events=200_000,
    batch=100_000,
    live=(2_000,),
    adjusted=(0.0, 0.5),
    repeats=1,
    preloaded=(10_000, 200_000),
    shrunk=(10_000, 300_000),
    small=(1_000, 40),
)
SMOKE: Final = OperatorsSize(
    events=2_000,
    batch=1_000,
    live=(100,),
    adjusted=(0.0, 0.5),
    repeats=1,
    preloaded=(100, 1_000),
    grown=(100, 1),
    shrunk=(200, 1_000),
    small=(100, 2),
)
SIZES: Final[Mapping[Form, OperatorsSize]] = {"full": FULL, "quick": QUICK, "smoke": SMOKE}
WARM_UP: Final = OperatorsSize(
    events=25_000, batch=25_000, live=(2_000,), adjusted=(0.0,), repeats=1, preloaded=(0, 0)
)


def operators(report: Report) -> None:
    """Measure all operators: figures `<operator>_events_per_s`, `<operator>_vs_anchor`.

    `worst_vs_anchor` is the least of the latter, and `state_growth` is about all states.
    `withdrawal_growth` is about batches that withdraw the best rows of groups. `exact_sum_cost` is
    how much longer a sum of doubles takes than with plain additions.

    The rates are medians at the smallest state, without adjusts but for the cases that are about
    them; the other states and shares of adjusts are measurements. Anchors are DuckDB's, with one
    thread, over all events at once; of those that are adjusted they get the last form. DuckDB
    reads them from Arrow and from tables of its own; the faster of the two is the anchor. For
    `worst_vs_anchor_small` both take the events in batches of a thousand rows, and DuckDB
    remembers nothing from one to the next. `adjusted_join` is the rate of `join_adjusted` over that
    of `join`, by CPU time, in turns.
    """
    size = SIZES[report.form]
    columns.native()  # what is compiled is compiled now
    load_compiled()
    ratios: dict[str, float] = {}
    small: dict[str, float] = {}
    for name, case in CASES.items():
        if report.form != "smoke":
            _speed(case, _events(case, WARM_UP, WARM_UP.live[0], 0.0, seed=99))
        rate = _measure(report, name, case, size)
        report.figure(f"{name}_events_per_s", rate)
        if case.anchor is None:
            continue
        anchor, forms = _anchor(case, case.anchor, size)
        ratios[name] = rate / anchor
        report.figure(f"{name}_vs_anchor", ratios[name])
        report.measured(
            f"{name} anchor", events_per_s=round(anchor), ratio=round(ratios[name], 3), **forms
        )
        small[name] = _small_batches(report, name, case, case.anchor, size)
    report.figure("worst_vs_anchor", min(ratios.values()))
    report.figure("worst_vs_anchor_small", min(small.values()))
    report.figure("adjusted_join", _adjusted_join(report, size))
    report.figure("exact_sum_cost", _exact_sum_cost(report, size))
    growth = {name: _growth(report, name, CASES[name], size) for name in GROWING}
    report.figure("state_growth", max(growth.values()))
    report.figure("withdrawal_growth", withdrawal_growth(report, size.shrunk, size.grown[1]))


def sources_of(plan: Node) -> list[Source]:
    """The sources of a plan, each once."""
    return list(dict.fromkeys(node for node in plan.walk() if isinstance(node, Source)))


def _measure(report: Report, name: str, case: OperatorCase, size: OperatorsSize) -> float:
    """The rate that counts; all others are said to the report."""
    counts = 0.0
    for live in size.live if case.stateful else size.live[:1]:
        for adjusted in (case.adjusted,) if case.adjusted else size.adjusted:
            if case.points and adjusted:
                continue
            events = _events(case, size, live, adjusted)
            judged = live == size.live[0] and adjusted == case.adjusted
            rates = [_speed(case, events) for _ in range(size.repeats if judged else 1)]
            middle = statistics.median(rates)
            report.measured(
                name,
                live_events=live,
                adjusted=adjusted,
                events_per_s=round(middle),
                all_events_per_s=[round(rate) for rate in rates],
            )
            if judged:
                counts = middle
    return counts


Feed = Mapping[str, Sequence[EventBatch]]


def _events(
    case: OperatorCase, size: OperatorsSize, live: int, adjusted: float, seed: int = 7
) -> Feed:
    """Events in order of start with `live` of them at any instant, spread over keys."""
    random = np.random.default_rng(seed)
    plan = case.plan(Inputs.of(insert_only=not adjusted, points=case.points))
    names = [source.name for source in sources_of(plan)]
    batch = int(size.batch * case.share)
    length = max(int(size.events * case.share / len(names)), batch)
    keys = max(live // OVERLAP, 1)
    feed: dict[str, list[EventBatch]] = {}
    for name in names:
        schema = RIGHT if name == "g" else LEFT
        feed[name] = _stream(random, schema, length, batch, live, keys, adjusted, case.points)
    return feed


def _stream(
    random: np.random.Generator,
    schema: pa.Schema,
    length: int,
    batch: int,
    live: int,
    keys: int,
    adjusted: float,
    points: bool,
) -> list[EventBatch]:
    """One event per instant on average; a share of each batch is adjusted in the next one."""
    batches: list[EventBatch] = []
    before: EventBatch | None = None
    for first in range(0, length, batch):
        start = np.sort(random.integers(first, first + batch, batch))
        payload = pa.RecordBatch.from_arrays(
            [
                pa.array(random.integers(0, keys, batch)),
                pa.array(random.integers(0, 4, batch)),
                pa.array(random.integers(0, 1_000, batch) / 1_000),
            ],
            schema=schema,
        )
        end = start + 1 if points else start + random.integers(live // 2, live + live // 2, batch)
        rows = EventBatch(payload, start, start, end, Time(max(first - batch, 0)))
        if adjusted and before is not None:
            chosen = np.flatnonzero(random.random(len(before)) < adjusted)
            again = before.take(chosen)
            moved = again.with_ends(again.new_end, _moved(random, again))
            batches.append(EventBatch.concat([rows, moved]).with_stable(rows.stable))
        else:
            batches.append(rows)
        before = rows
    return batches


def _moved(random: np.random.Generator, events: EventBatch) -> np.ndarray:
    """Where ends go: half of them later, most others earlier, a tenth is withdrawn."""
    by = random.integers(1, 50, len(events)) * random.choice([-1, 1], len(events))
    end = np.maximum(events.new_end + by, events.start + 1)
    return np.where(random.random(len(events)) < 0.1, events.start, end)


def _speed(case: OperatorCase, feed: Feed, clock: Callable[[], float] = time.perf_counter) -> float:
    insert_only = all(
        bool((batch.end == batch.start).all()) for batches in feed.values() for batch in batches
    )
    runner = LocalRunner(case.plan(Inputs.of(insert_only=insert_only, points=case.points)))
    steps = [dict(zip(feed, row, strict=True)) for row in zip(*feed.values(), strict=True)]
    began = clock()
    for step in steps:
        runner.step(step)
    seconds = clock() - began
    return _length(feed) / seconds


def _adjusted_join(report: Report, size: OperatorsSize) -> float:
    """The rate of a join with a tenth of adjusts over that without; the lesser of two sizes."""
    ratios = {}
    batch, count = size.small
    for rows, events in ((size.batch, size.events), (batch, 2 * batch * count)):
        pairs = []
        for _ in range(max(3, 2 * size.repeats - 1)):
            rates = []
            for name in ("join_adjusted", "join"):
                case = CASES[name]
                of_size = replace(size, batch=rows, events=events)
                feed = _events(case, of_size, size.live[0], case.adjusted)
                rates.append(_speed(case, feed, time.process_time))
            pairs.append((rates[0], rates[1]))
        ratios[rows] = statistics.median(adjusted / plain for adjusted, plain in pairs)
        report.measured(
            "join with adjusts beside without",
            rows=rows,
            adjusted_events_per_s=[round(adjusted) for adjusted, _ in pairs],
            events_per_s=[round(plain) for _, plain in pairs],
            ratio=round(ratios[rows], 3),
        )
    return min(ratios.values())


def _exact_sum_cost(report: Report, size: OperatorsSize) -> float:
    """The time of exact sums over that of plain ones, measured in turns; the median of pairs.

    It is the time of the processor that counts, so that what else the machine does matters less.
    """
    case = CASES["sum"]
    events = _events(case, size, size.live[0], 0.0)
    with plain_sums():
        _speed(case, events)
    pairs = []
    for _ in range(max(3, 2 * size.repeats + 1)):
        with plain_sums():
            plain = _speed(case, events, time.process_time)
        pairs.append((_speed(case, events, time.process_time), plain))
    costs = [plain / exact for exact, plain in pairs]
    report.measured(
        "sum beside plain doubles",
        exact_events_per_s=[round(exact) for exact, _ in pairs],
        plain_events_per_s=[round(plain) for _, plain in pairs],
        costs=[round(cost, 3) for cost in costs],
    )
    return statistics.median(costs)


def _anchor(
    case: OperatorCase, query: str, size: OperatorsSize
) -> tuple[float, dict[str, list[int]]]:
    """Events per second of the batch query over Arrow or over tables; all repeats of both.

    The median of the faster form counts. Both take turns, and a first run of each warms up.
    """
    feed = _events(case, size, size.live[0], case.adjusted)
    last = {name: _table(net(EventBatch.concat(batches))) for name, batches in feed.items()}
    rates: dict[str, list[int]] = {form: [] for form in DUCKDB_FORMS}
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        _load(connection, "tables", last)
        for name, rows in last.items():
            connection.register(name, rows)
        for _ in range(size.repeats + 1):
            for form, schema in DUCKDB_FORMS.items():
                connection.execute(f"USE {schema}")
                began = time.perf_counter()
                connection.sql(query).to_arrow_table()
                rates[form].append(round(_length(feed) / (time.perf_counter() - began)))
    counted = {form: each[1:] for form, each in rates.items()}
    return max(statistics.median(each) for each in counted.values()), counted


def _load(
    connection: duckdb.DuckDBPyConnection, schema: str, given: Mapping[str, pa.Table]
) -> None:
    """Tables of DuckDB in a schema of their own."""
    connection.execute(f"CREATE SCHEMA {schema}")
    for name, rows in given.items():
        connection.register("loaded", rows)
        connection.execute(f"CREATE TABLE {schema}.{name} AS FROM loaded")
        connection.unregister("loaded")


def _small_batches(
    report: Report, name: str, case: OperatorCase, query: str, size: OperatorsSize
) -> float:
    """Our rate over DuckDB's in small batches, in turns; the median of pairs.

    A pair has the faster of DuckDB's two forms.
    """
    batch, count = size.small
    few = replace(size, batch=batch, events=batch * count)
    feed = _events(replace(case, share=1.0), few, size.live[0], case.adjusted)
    turns = [
        (_speed(case, feed), _anchor_by_batch(feed, query), _anchor_by_loaded_batch(feed, query))
        for _ in range(max(size.repeats, 1))
    ]
    ratio = statistics.median(ours / max(theirs) for ours, *theirs in turns)
    ours, *theirs = ([round(rate) for rate in rates] for rates in zip(*turns, strict=True))
    report.measured(
        f"{name} in small batches",
        rows=batch,
        events_per_s=ours,
        **dict(zip(DUCKDB_FORMS, theirs, strict=True)),
        ratio=round(ratio, 3),
    )
    return ratio


def _by_batch(feed: Feed) -> list[dict[str, pa.Table]]:
    return [
        dict(zip(feed, map(_table, batches), strict=True))
        for batches in zip(*feed.values(), strict=True)
    ]


def _anchor_by_batch(feed: Feed, query: str) -> float:
    """Events per second of the query over one batch after the other, as Arrow."""
    steps = _by_batch(feed)
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        began = time.perf_counter()
        for step in steps:
            for name, rows in step.items():
                connection.register(name, rows)
            connection.sql(query).to_arrow_table()
        return _length(feed) / (time.perf_counter() - began)


def _anchor_by_loaded_batch(feed: Feed, query: str) -> float:
    """The same over tables that were loaded before the clock starts."""
    steps = _by_batch(feed)
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        for number, step in enumerate(steps):
            _load(connection, f"batch_{number}", step)
        began = time.perf_counter()
        for number in range(len(steps)):
            connection.execute(f"USE batch_{number}")
            connection.sql(query).to_arrow_table()
        return _length(feed) / (time.perf_counter() - began)


def _table(rows: EventBatch) -> pa.Table:
    times = {"start": pa.array(rows.start), "end": pa.array(rows.new_end)}
    return pa.table({**dict(zip(rows.schema.names, rows.payload.columns, strict=True)), **times})


def _length(feed: Feed) -> int:
    return sum(len(batch) for batches in feed.values() for batch in batches)


def _growth(report: Report, name: str, case: OperatorCase, size: OperatorsSize) -> float:
    """How much longer the same batches take over the larger state."""
    times = [_batch_time(report, name, case, live, size) for live in size.preloaded]
    return times[1] / times[0]


def _batch_time(
    report: Report, name: str, case: OperatorCase, live: int, size: OperatorsSize
) -> float:
    """Batches of events on 1,000 keys over a state of `live` events on other keys, too."""
    random = np.random.default_rng(5)
    given = Inputs.of(insert_only=True, points=case.points)
    plan = case.plan(given)
    sources = [source.name for source in sources_of(plan)]
    runner = LocalRunner(plan)
    keys, (batch, groups) = max(live // OVERLAP, 1_000), size.grown
    for first in range(0, live, 1_000_000):
        rows = min(live - first, 1_000_000)
        runner.step({each: _long(random, each, rows, keys, case.points) for each in sources})
    seconds = []
    for _ in range(3 + groups * 8):
        step = {each: _long(random, each, batch, 1_000, case.points) for each in sources}
        began = time.perf_counter()
        runner.step(step)
        seconds.append(time.perf_counter() - began)
    # Some batches merge runs and others do not, so a share of both counts.
    shares = [statistics.mean(seconds[first : first + 8]) for first in range(3, len(seconds), 8)]
    middle = statistics.median(shares)
    report.measured(
        f"{name} growth",
        live_events=live,
        state_rows=runner.state_rows(),
        median_ms=round(middle * 1000, 2),
        batches_ms=[round(value * 1000, 1) for value in seconds],
    )
    return middle


def _long(random: np.random.Generator, name: str, rows: int, keys: int, points: bool) -> EventBatch:
    """Events that stay alive, as nothing is ever promised."""
    start = random.integers(0, 1_000_000, rows)
    payload = pa.RecordBatch.from_arrays(
        [
            pa.array(random.integers(0, keys, rows)),
            pa.array(random.integers(0, 4, rows)),
            pa.array(random.random(rows)),
        ],
        schema=RIGHT if name == "g" else LEFT,
    )
    end = start + 1 if points else start + random.integers(1, 1_000, rows)
    return EventBatch(payload, start, start, end)
