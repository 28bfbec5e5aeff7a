"""What is kept to be compared with copies that are behind is bounded, and does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import COMPARED, MergePolicy
from anabranch.kernels.contract.kernel import SortedRun, Trace
from anabranch.kernels.contract.routing import OWN
from anabranch.kernels.merge.copies import Copies
from anabranch.kernels.merge.merge import COPIES
from anabranch.kernels.plan.repartition import repartitioned
from anabranch.kernels.trace import runs
from anabranch.model.identity import signature
from anabranch.model.time import BEGINNING
from anabranch.testing import (
    Action,
    Element,
    MergeCase,
    MergeScript,
    Move,
    insert,
    make_script,
    merge_scripts,
    stable,
)
from tests.merge.driver import Driver
from tests.merge.histories import ADJUSTS, INSERTS, LAGS, any_sizes, assert_merges, kernel_case
from tests.merge.test_divergence import KEYED_AND_NOT, says
from tests.merge.test_state import rows_of, waves

NAMES = ("one", "two", "three")
_KEYED_CASES: tuple[MergeCase, ...] = ("R3", "R4")
KEYED = st.sampled_from(_KEYED_CASES)


def bounded(case: Case, compare: int | str, *names: str, shards: int = 1) -> Driver:
    driver = Driver(case, MergePolicy.of(compare=compare), shards=shards)
    driver.step([("attach", name, BEGINNING) for name in names])
    return driver


def reports(driver: Driver, name: str) -> dict[str, int]:
    """What is counted of a copy, over all shards."""
    each = driver.copies[name]
    counted = ("ignored", "uncompared", "diverged")
    return {what: sum(getattr(copy, what) for copy in each) for what in counted}


@given(
    st.data(),
    KEYED,
    st.sampled_from(INSERTS),
    st.sampled_from(ADJUSTS),
    st.sampled_from(LAGS),
    st.sampled_from([0, 1, 3]),
    st.integers(1, 3),
)
def test_the_answer_is_right_and_the_same_however_little_is_kept(
    data: st.DataObject,
    case: MergeCase,
    inserts: str,
    adjusts: str,
    lag: int,
    compare: int,
    shards: int,
) -> None:
    script = data.draw(merge_scripts(case, lag=lag, max_inputs=3))
    policy = MergePolicy.of(inserts=inserts, adjusts=adjusts, lag=lag, compare="all")
    seed, small = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([0, 4_096]))
    said = []
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", small):
        for each in (policy, replace(policy, compare=compare)):
            driver = Driver(kernel_case(script.case), each, shards=shards)
            sizes = any_sizes(Random(seed), 6)
            said.append(assert_merges(script, each, sizes, driver=driver))
    for plain, less in zip(*said, strict=True):
        assert sorted(map(repr, less)) == sorted(map(repr, plain))


@given(
    script=KEYED.flatmap(lambda case: merge_scripts(case, max_inputs=3, gaps=False)),
    seed=st.integers(0, 99),
    compare=st.sampled_from([0, 1, 3]),
    shards=st.integers(1, 3),
)
def test_whole_copies_are_never_blamed_for_what_was_forgotten(
    script: MergeScript, seed: int, compare: int, shards: int
) -> None:
    policy = MergePolicy.of(compare=compare)
    driver = Driver(kernel_case(script.case), policy, shards=shards)
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", 0):
        assert_merges(script, policy, any_sizes(Random(seed), 9), one_leads=False, driver=driver)
    assert driver.diverged() == {}


@pytest.mark.parametrize("small", [0, 4, 4_096])
@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_one_silent_copy_does_not_make_the_state_grow(case: Case, small: int) -> None:
    held: dict[object, list[int]] = {}
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", small):
        for compare in (0, 20, "all"):
            driver = bounded(case, compare, *NAMES)
            for wave in waves(60):
                driver.step([*says("one", wave), *says("two", wave)])
                held.setdefault(compare, []).append(sum(rows_of(driver).values()))
    for compare in (0, 20):
        half = len(held[compare]) // 2
        # Runs that are merged now and then go up and down.
        assert max(held[compare][half:]) <= max(held[compare][:half]) + 9
    assert held["all"][-1] > 4 * max(held[20])
    assert max(held[0]) <= max(held[20])


def turns(of: list[list[Element]]) -> Iterator[Element]:
    return chain.from_iterable(of)


@pytest.mark.parametrize("small", [0, 4_096])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_a_copy_that_comes_back_behind_the_bound_does_no_harm_and_leads_on(
    case: Case, shards: int, small: int
) -> None:
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", small):
        driver = bounded(case, 20, *NAMES[:2], shards=shards)
        every = waves(30)
        for wave in every[:20]:
            driver.step(says("one", wave))
        said = []
        for wave in every[:20]:
            said += driver.step(says("two", wave))
        assert said == []
        counts = reports(driver, "two")
        assert counts["diverged"] == 0
        assert counts["ignored"] > counts["uncompared"] > 20
        told = [each for trace in driver.traces for each in driver.kernel.report(trace)["copies"]]
        found = sum(each.get("uncompared", 0) for each in told if each["name"] == "two")
        assert found == counts["uncompared"]
        # The other one is gone now.
        for wave in every[20:]:
            said += driver.step(says("two", wave))
        moves = [each for each in said if isinstance(each, Move)]
        meant = [each for each in turns(every[20:]) if isinstance(each, Move)]
        assert sorted(map(repr, moves)) == sorted(map(repr, meant))


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_what_is_kept_is_compared_and_what_is_not_is_counted(case: Case) -> None:
    for compare, wrong in (("all", 8), (3, 3), (0, 0)):
        driver = bounded(case, compare, *NAMES[:2])
        right = [insert(str(n), start=10 * n, end=10 * n + 5) for n in range(8)]
        other = [insert(str(n), start=10 * n, end=10 * n + 2) for n in range(8)]
        for each in right:
            driver.step(says("one", [each]))
        assert driver.step(says("one", [stable(100)])) == [stable(100)]
        assert driver.step(says("two", list(other))) == []
        assert driver.step(says("two", [stable(100)])) == []
        assert reports(driver, "two") == {
            "ignored": 8,
            "uncompared": 8 - wrong,
            "diverged": wrong,
        }


@pytest.mark.parametrize("case", KEYED_AND_NOT)
@pytest.mark.parametrize("seed", range(12))
def test_whoever_lies_about_the_past_changes_nothing(case: Case, seed: int) -> None:
    dice = Random(f"{case} {seed}")
    script = make_script("R4" if case == "r4" else "R3", dice.randrange, max_inputs=2, gaps=False)
    lies: list[Action] = [
        ("element", "liar", insert(dice.choice("abc"), start=s, end=s + 1 + dice.randrange(9)))
        for s in sorted(dice.randrange(12) for _ in range(9))
    ]
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", dice.choice([0, 4])):
        said = []
        for compare in ("all", 0, 2):
            driver = bounded(case, compare, "liar", shards=1 + dice.randrange(2))
            out: list[Element] = []
            for action in script.actions:
                out += driver.step([action])
            for at, lie in enumerate(lies):
                # It settles what it has said, and never leads.
                promise = stable(min(at, int(driver.stable)))
                out += driver.step([lie, ("element", "liar", promise)])
            said.append(sorted(map(repr, out)))
    assert said[1] == said[0]
    assert said[2] == said[0]


def test_another_number_of_shards_forgets_what_any_shard_has_forgotten() -> None:
    driver = bounded("r3", 5, *NAMES[:2], shards=3)
    for wave in waves(10):
        driver.step(says("one", wave))
    known = [copy.known for copy in driver.copies["two"]]
    assert len(set(known)) > 1
    kernel = replace(driver.kernel, route=OWN)
    pieces: dict[str, list[SortedRun]] = {}
    for number, trace in enumerate(driver.traces):
        for name, parts in repartitioned(kernel, trace, 1, first=number == 0):
            held = [SortedRun(part) for part in parts if part is not None]
            pieces.setdefault(name, []).extend(held)
    assert len(pieces[COPIES]) == 3
    [two] = (copy for copy in Copies.of(pieces[COPIES]).each if copy.name == "two")
    assert two.known == max(known)
    stables = {trace.stable for trace in driver.traces}
    driver.traces = [Trace({name: tuple(each) for name, each in pieces.items()}, *stables)]
    for wave in waves(10):
        assert driver.step(says("two", wave)) == []
    assert driver.diverged() == {}


def test_how_much_is_kept_is_said_in_the_same_way_everywhere() -> None:
    assert MergePolicy.of() == MergePolicy(compare=COMPARED)
    assert MergePolicy.of(compare="all").compare is None
    engine = ab.Engine()
    for name in ("a", "b"):
        engine.sql(f"CREATE STREAM {name} (k INT, at INT) SOURCE '{name}.jsonl' ORDERED BY at")
    by_python = ab.merge(engine.sql("SELECT * FROM a"), engine.sql("SELECT * FROM b"), compare=70)
    by_sql = engine.sql("SELECT * FROM MERGE(a, b, compare => 70)")
    assert "compares 70 settled events" in by_python.explain()
    assert "compares 70 settled events" in by_sql.explain()
    every = engine.sql("SELECT * FROM MERGE(a, b, compare => 'all')")
    assert "compares all settled events" in every.explain()
    for wrong in (-1, "some"):
        with pytest.raises(ab.PlanError, match="a merge cannot keep"):
            MergePolicy.of(compare=wrong)


def test_checkpoints_of_before_do_not_say_what_was_not_compared() -> None:
    driver = bounded("r3", 5, *NAMES[:2])
    for wave in waves(4):
        driver.step(says("one", wave))
    (trace,) = driver.traces
    (held,) = trace.runs[COPIES]
    older = Copies.of([SortedRun(held.rows.drop_columns(["uncompared"]))])
    assert older == Copies.of([held])
    assert signature(MergePolicy()) == '{"MergePolicy":{}}'
