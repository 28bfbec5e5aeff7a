"""States that no batch could begin with, because another batch came in between."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.contract.column_names import SUM
from anabranch.kernels.contract.kernel import Trace
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.swap import shared_anew, shared_out
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Insert, batch_of
from anabranch.model.time import BEGINNING
from anabranch.runtime.revisions.correction_book import CorrectionBook
from anabranch.runtime.revisions.records import CorrectionRecord, EmittedStep
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.swapped_state import SwappedState, SwappedStates
from anabranch.testing.strategies import points
from tests.kernels.operators import OPERATORS
from tests.kernels.plans import SCHEMA

CHANGES = batch_of([Insert(("a", 1, None), 3, 5)], SCHEMA)


def book_with(folder: Path, *, after: int) -> CorrectionBook:
    """Two corrections of batch 3, for which a state was computed together."""
    book = CorrectionBook(Folder.at(str(folder)))
    for number in (1, 2):
        book.write(
            CorrectionRecord(id=number, source="S", batch=3, rows=1, first=3, last=5, bound=5)
        )
    step = EmittedStep(
        serial=book.next_serial(),
        upto=5,
        numbers=book.numbers([CHANGES]),
        rows=(1,),
        together=(1,),
        after=after,
    )
    book.add_step(_done(book[2]), step, [CHANGES])
    book.close_together(step)
    return book


def _done(record: CorrectionRecord) -> CorrectionRecord:
    return CorrectionRecord(
        id=record.id,
        source=record.source,
        batch=record.batch,
        rows=1,
        first=3,
        last=5,
        bound=5,
        done=5,
        status="computed",
    )


def test_the_next_batch_brings_a_state(tmp_path: Path) -> None:
    book = book_with(tmp_path, after=7)
    assert not book.drop_missed(8, [1])
    assert book.brought([1], 8) == [1]
    assert [each.id for each in book.outside()] == [1, 2]
    book.commit(1, 8)
    assert book.outside() == []
    # The batch is repeated after a crash.
    assert not book.drop_missed(8, [1])
    assert book.brought([1], 8) == [1]


@pytest.mark.parametrize(("batch", "serials"), [(8, []), (9, [1])])
def test_a_batch_in_between_opens_the_corrections_again(
    tmp_path: Path, batch: int, serials: list[int]
) -> None:
    book = book_with(tmp_path, after=7)
    assert book.drop_missed(batch, serials)
    assert book.brought([1], batch + 1) == []
    for again in (book, CorrectionBook(Folder.at(str(tmp_path)))):
        assert [each.id for each in again.open()] == [1, 2]
        assert all(each.done == BEGINNING for each in again.open())
        assert not again.waiting()
        # The number of the revision is free, that of the step is not: a command may name it.
        assert again.numbers([CHANGES]) == (1,)
        assert again.next_serial() == 2
        assert again.earlier(again[1]) == {}


def test_tasks_take_a_state_for_the_batch_behind_it(tmp_path: Path) -> None:
    state = SwappedState.of(str(tmp_path), 1)
    state.write_guarded(0, EventBatch.empty(SCHEMA))
    state.write_batch(7)
    assert [state.is_for(batch) for batch in (7, 8, 9)] == [False, True, False]


def stored(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.glob("swap-*"))


def write_state(folder: Path, serial: int, *, after: int) -> SwappedState:
    state = SwappedState.of(str(folder), serial)
    state.write("count", 0, [Trace()])
    state.write_guarded(0, CHANGES)
    state.write_batch(after)
    return state


def test_a_state_goes_once_its_batch_cannot_be_repeated(tmp_path: Path) -> None:
    """Batch 8 begins with it, and is committed for good when batch 9 begins."""
    book = book_with(tmp_path, after=7)
    state = write_state(tmp_path, 1, after=7)
    states = SwappedStates(str(tmp_path))
    states.forget(book.states_from(8))
    book.commit(1, 8)
    # A start after a crash: Spark repeats batch 8.
    for each in (states, SwappedStates(str(tmp_path))):
        each.forget(book.states_from(8))
        assert stored(tmp_path) == ["swap-1"]
        assert len(state.read_guarded(0, SCHEMA)) == 1
    states.forget(book.states_from(9))
    assert stored(tmp_path) == []
    # A command that was handed in twice names it again.
    assert not state.is_for(9)


def test_a_state_that_no_batch_could_begin_with_goes(tmp_path: Path) -> None:
    book = book_with(tmp_path, after=7)
    write_state(tmp_path, 1, after=7)
    states = SwappedStates(str(tmp_path))
    book.drop_missed(8, [])
    states.add(2)
    write_state(tmp_path, 2, after=8)
    states.forget({*book.states_from(9), 2})
    assert stored(tmp_path) == ["swap-2"]


def test_a_start_removes_what_a_crash_has_left_of_a_state(tmp_path: Path) -> None:
    """One was written without a step, of another only the note is left."""
    book = book_with(tmp_path, after=7)
    book.commit(1, 8)
    state = write_state(tmp_path, 1, after=7)
    for path in ((tmp_path / "swap-1" / "count"), (tmp_path / "swap-1" / "guard-0.arrow")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert not state.is_for(9)
    write_state(tmp_path, 2, after=8)
    SwappedStates(str(tmp_path)).forget(book.states_from(9))
    assert stored(tmp_path) == []


@pytest.mark.parametrize("name", ["count window", "session window", "aggregate"])
@given(data=st.data())
def test_a_state_is_shared_anew_by_another_number_of_shards(name: str, data: st.DataObject) -> None:
    """A query may be started with another number before a batch has begun with the state."""
    stream = points(SCHEMA)
    plan = compile_plan(data.draw(OPERATORS[name]), guarded=True)
    runner = LocalRunner(plan)
    runner.step_all({each: data.draw(stream).batches()[0] for each in plan.sources})
    for stage in plan.stages:
        state = runner.states[stage.name]
        for first, then in ((3, 2), (2, 1), (1, 4)):
            was = [traces for _, traces in shared_out(stage, state, first)]
            found = dict(shared_anew(stage, was, then))
            wanted = dict(shared_out(stage, state, then))
            assert found.keys() == wanted.keys()
            for shard, traces in wanted.items():
                assert list(map(contents, found[shard])) == list(map(contents, traces))


def contents(trace: Trace) -> dict[str, list[str]]:
    """The rows of each list of a trace, in any order; sums count within a run only."""
    return {
        name: sorted(
            repr({column: value for column, value in row.items() if column != SUM})
            for run in runs
            for row in run.rows.to_pylist()
        )
        for name, runs in trace.runs.items()
        if any(map(len, runs))
    }
