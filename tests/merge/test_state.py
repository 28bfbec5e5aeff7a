"""What a merge remembers: no more than may matter, and across a restart."""

from __future__ import annotations

from pathlib import Path
from random import Random
from unittest.mock import patch

import pyarrow as pa
import pytest

from anabranch.algebra.analysis.merge_case import Case
from anabranch.kernels.contract.kernel import SortedRun, Trace
from anabranch.kernels.merge.order import RECENT, RECENT_ROWS
from anabranch.kernels.trace import runs
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.state_store import ShardStore
from anabranch.testing import MERGE_CASES, Element, MergeCase, insert, make_script, stable
from tests.merge.driver import Driver, batches
from tests.merge.histories import any_sizes, draw_policy, kernel_case
from tests.merge.test_divergence import attached, says

NAMES = ("one", "two", "three")


def rows_of(driver: Driver) -> dict[str, int]:
    """How many rows are held under each name, over all shards; copies do not count."""
    held: dict[str, int] = {}
    for trace in driver.traces:
        for name, kept in trace.runs.items():
            held[name] = held.get(name, 0) + sum(map(len, kept))
    held.pop("copies", None)
    return {name: rows for name, rows in held.items() if rows}


def waves(count: int) -> list[list[Element]]:
    """Events that begin, are there for a while and end, with promises in between."""
    return [
        [
            *(
                insert(f"{wave} {number}", start=10 * wave + number, end=10 * wave + 15)
                for number in range(9)
            ),
            stable(10 * wave),
        ]
        for wave in range(count)
    ]


@pytest.mark.parametrize("small", [0, 4, 4_096])
@pytest.mark.parametrize("case", ["r0", "r1", "r2", "r3", "r4"])
def test_memory_does_not_grow_with_the_stream(case: Case, small: int) -> None:
    driver = attached(case, *NAMES)
    held, recent = [], 0
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", small):
        for wave in waves(24):
            for name in NAMES:
                driver.step(says(name, wave))
            rows = rows_of(driver)
            recent = max(recent, rows.pop(RECENT, 0))
            held.append(sum(rows.values()))
    # Two waves are open at a time, each event once as a node and once as a payload.
    assert max(held[10:]) <= (4 if small == 4_096 else 16) * 9 * 2
    if case in ("r0", "r1", "r2"):
        assert max(held) <= 2
        # What is asserted is checked, by hashes of what copies have not settled themselves.
        assert recent <= min(RECENT_ROWS, 2 * 9) * len(NAMES)


@pytest.mark.parametrize("small", [0, 4, 4_096])
@pytest.mark.parametrize("case", ["r3", "r4"])
def test_what_a_slow_copy_can_contradict_stays_until_it_has_passed_or_left(
    case: Case, small: int
) -> None:
    for ends in (says("three", [stable(1_000)]), [("detach", "three")]):
        driver = attached(case, *NAMES)
        with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", small):
            for wave in waves(10):
                driver.step([*says("one", wave), *says("two", wave)])
            assert rows_of(driver)["payloads"] == 90
            driver.step(says("one", [stable(1_000)]))
            driver.step(says("two", [stable(1_000)]))
            driver.step([*ends])
            # What has expired goes with the next promise at the latest.
            driver.step(says("one", [stable(1_001)]))
            driver.step([*says("two", [stable(1_001)]), *says("three", [stable(1_001)])])
        assert rows_of(driver) == {}


@pytest.mark.parametrize("case", MERGE_CASES)
def test_at_the_end_nothing_is_left_but_who_took_part(case: MergeCase) -> None:
    dice = Random(f"state {case}")
    for _ in range(3):
        policy = draw_policy(case, dice)
        script = make_script(case, dice.randrange, lag=policy.lag, gaps=False)
        driver = Driver(kernel_case(case), policy, shards=2)
        with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", 0):
            for batch in batches(script, any_sizes(dice, 8)):
                driver.step(batch)
            driver.step([("attach", "last", BEGINNING)])
            for event in script.history:
                driver.step([("element", "last", event)])
            for name in driver.numbers:
                driver.step([("element", name, stable(FOREVER))])
        assert rows_of(driver) == {}


@pytest.mark.parametrize("case", MERGE_CASES)
def test_a_merge_goes_on_from_what_was_stored(case: MergeCase, tmp_path: Path) -> None:
    dice = Random(f"stored {case}")
    for number in range(3):
        policy = draw_policy(case, dice)
        script = make_script(case, dice.randrange, lag=policy.lag)
        steps = list(batches(script, any_sizes(dice, 4), one_leads=True))
        driver, other = (Driver(kernel_case(case), policy) for _ in range(2))
        store = ShardStore(folder=Folder.at(str(tmp_path / f"{number}")))
        with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", dice.choice([0, 4, 4_096])):
            for batch, actions in enumerate(steps):
                before = store.load(batch)
                if before is not None:
                    other.traces = list(store.traces(before))
                assert other.step(actions) == driver.step(actions)
                store.save(batch, before, other.traces, sources={}, counters=None)


def through_arrow(trace: Trace) -> Trace:
    """The same as read from bytes: in other memory, which cannot be written."""

    def again(run: SortedRun) -> SortedRun:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, run.rows.schema) as writer:
            writer.write_batch(run.rows)
        (batch,) = pa.ipc.open_file(sink.getvalue()).read_all().to_batches()
        return SortedRun(batch)

    held = {name: tuple(map(again, kept)) for name, kept in trace.runs.items()}
    return Trace(held, trace.stable)


@pytest.mark.parametrize("case", ["r3", "r4"])
def test_contradictions_are_heard_after_a_restart(case: Case) -> None:
    driver = attached(case, "one", "two")
    driver.step(says("one", [insert("a", start=5, end=9), stable(20)]))
    driver.traces = [through_arrow(trace) for trace in driver.traces]
    driver.step(says("two", [insert("a", start=5, end=8), stable(20)]))
    assert driver.diverged() == {"two": 1}
