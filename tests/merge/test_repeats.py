"""A copy that was restarted and says part of its past again does no harm, in any case."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from unittest.mock import patch

import pytest

from anabranch.algebra.analysis.merge_case import Case
from anabranch.kernels.merge import order
from anabranch.kernels.merge.order import RECENT_ROWS
from anabranch.model.time import BEGINNING
from anabranch.testing import (
    MERGE_CASES,
    Action,
    Element,
    KitStable,
    MergeCase,
    MergeScript,
    MergeWatch,
    Move,
    adjust,
    insert,
    make_script,
    stable,
)
from anabranch.testing.merge.oracle import unsettled
from tests.merge.driver import Driver, is_late
from tests.merge.histories import any_sizes, draw_policy, kernel_case
from tests.merge.test_divergence import says
from tests.merge.test_state import rows_of

HISTORIES = 30


def restarts(case: MergeCase, said: list[Element], dice: Random) -> list[Element]:
    """What a copy says again that has said this: a suffix, after it died on the way some times."""
    again: list[Element] = []
    reached = len(said)
    for _ in range(0 if case == "R1" else dice.randrange(4)):
        # It begins at a point that it has reached, and gets so far that time.
        points = [at for at in range(reached + 1) if can_restart(case, said, at)]
        at = dice.choice(points)
        reached = at + dice.randrange(len(said) - at + 1)
        again += said[at:reached]
    points = [at for at in range(reached + 1) if can_restart(case, said, at)]
    # The last time it gets through.
    again += said[dice.choice(points) :] if points else []
    if case == "R4":
        # Events that may be there twice cannot be told from repetitions, but for the promise.
        bound = max((each.time for each in said if isinstance(each, KitStable)), default=BEGINNING)
        again = [e for e in again if isinstance(e, KitStable) or is_late(e, bound)]
    return again


def can_restart(case: MergeCase, said: list[Element], at: int) -> bool:
    """Whether a copy may begin again at an element.

    In R1 equal starts are told apart by counting: there it has to begin at an earlier start, of
    those that it has not settled, than its last one. In R3 and R4 an end must not have moved to
    before what is settled by now, and back: one move would be left out, and the other not.
    """
    bound = max((each.time for each in said if isinstance(each, KitStable)), default=BEGINNING)
    moves = [each for each in said[at:] if not isinstance(each, KitStable)]
    if case in ("R3", "R4"):
        last: dict[object, Move] = {(move.payload, move.start): move for move in moves}
        late = [move for move in moves if is_late(move, bound)]
        return all(is_late(last[move.payload, move.start], bound) for move in late)
    if case != "R1":
        return True
    heard = [move for move in moves if not is_late(move, bound)]
    return not heard or heard[0].start < heard[-1].start


def repeating(script: MergeScript, dice: Random) -> Iterator[tuple[list[Action], list[Action]]]:
    """The actions of a script one by one, some followed by what a copy says again; then those."""
    said: dict[str, list[Element]] = {}
    waiting: dict[str, list[Element]] = {}
    for action in script.actions:
        name = action[1]
        if action[0] == "element":
            # Before it says something new, it has said everything again.
            yield [action], [("element", name, each) for each in waiting.pop(name, [])]
            said.setdefault(name, []).append(action[2])
            if dice.random() < 0.3:
                waiting[name] = restarts(script.case, said[name], dice)
        else:
            said[name], waiting[name] = [], []
            yield [action], []
        other = dice.choice(list(said))
        if waiting.get(other) and dice.random() < 0.5:
            some = waiting[other][: 1 + dice.randrange(3)]
            del waiting[other][: len(some)]
            yield [], [("element", other, each) for each in some]


@pytest.mark.parametrize("asserted", [True, False])
@pytest.mark.parametrize("case", MERGE_CASES)
def test_whatever_a_copy_says_again_changes_nothing(case: MergeCase, asserted: bool) -> None:
    for seed in range(HISTORIES):
        check_repeats(case, seed, asserted=asserted)


def check_repeats(case: MergeCase, seed: object, *, asserted: bool) -> None:
    with patch.object(order, "RECENT_ROWS", Random(f"recent {seed}").choice([1, 2, 64])):
        _check_repeats(case, seed, asserted=asserted)


def _check_repeats(case: MergeCase, seed: object, *, asserted: bool) -> None:
    """One history, in which copies are restarted at any point, any number of times."""
    dice = Random(f"repeats {case} {seed}")
    gaps = dice.random() < 0.3
    compared = case in ("R3", "R4") and not gaps
    policy = draw_policy(case, dice, **({"divergence": "fail"} if compared else {}))
    script = make_script(case, dice.randrange, lag=policy.lag, gaps=gaps)
    # Shards of R1 have some of the starts, and may not see that a copy goes back.
    shards = 1 if case == "R1" else dice.choice([1, 1, 2, 3])
    driver = Driver(kernel_case(case), policy, asserted=asserted and case != "R4", shards=shards)
    watch = MergeWatch(multiset=case in ("R1", "R4"), laconic=False)
    told = [(event.payload, event.start, event.new_end) for event in script.history]
    sizes = any_sizes(dice, 1 if gaps else dice.choice([1, 3, 8]))
    log: list[str] = []
    batch: list[Action] = []
    size = next(sizes)

    def look() -> None:
        log.append(f"  {batch}")
        output = driver.step(batch)
        log.append(f"    -> {output}")
        for each in output:
            watch.emit(each)
        wrong = [str(violation) for violation in watch.violations()]
        if output and isinstance(output[-1], KitStable):
            wrong += unsettled(watch, told)
        assert not wrong, "\n".join([wrong[0], f"{case} {seed}", repr(script), *log])

    for actions, again in repeating(script, dice):
        for action in (*again, *actions):
            is_command = action[0] != "element"
            if batch and (is_command or len(batch) >= size):
                look()
                batch, size = [], next(sizes)
            batch.append(action)
            # What comes again the oracle does not hear.
            if action in actions:
                match action:
                    case ("attach", name, time):
                        watch.attach(name, time)
                    case ("detach", name):
                        watch.detach(name)
                    case ("element", name, element):
                        watch.take(name, element)
            if is_command:
                look()
                batch, size = [], next(sizes)
    look()


LONG: list[Element] = [insert(f"{n % 7}", start=n, end=n + 5) for n in range(1, 3_000)]


@pytest.mark.parametrize("asserted", [True, False])
@pytest.mark.parametrize("case", ["r0", "r1", "r2"])
def test_a_long_repetition_needs_no_memory(case: Case, asserted: bool) -> None:
    driver = Driver(case, draw_policy("R0", Random(1), lag=0), asserted=asserted)
    driver.step([("attach", "one", BEGINNING), ("attach", "two", BEGINNING)])
    assert len(driver.step(says("one", LONG))) == len(LONG)
    for low in range(0, len(LONG), 1_000):
        assert driver.step(says("one", LONG[low : low + 1_000])) == []
        assert sum(rows_of(driver).values()) <= RECENT_ROWS + 3
    more = insert("x", start=5_000)
    assert driver.step(says("one", [*LONG[-10:], more, stable(4_000)])) == [more, stable(4_000)]


def test_an_insert_comes_again_after_it_was_adjusted() -> None:
    driver = Driver(
        "r3", draw_policy("R3", Random(1), inserts="first", adjusts="lazy", lag=0), asserted=True
    )
    driver.step([("attach", "one", BEGINNING)])
    past: list[Element] = [
        insert("a", start=5, end=9),
        adjust("a", start=5, end=9, new_end=5),
        insert("a", start=5, end=6),
        adjust("a", start=5, end=6, new_end=8),
    ]
    driver.step(says("one", past))
    for element in past[:3]:
        driver.step(says("one", [element]))
    driver.step(says("one", past))
    assert driver.step(says("one", [stable(20)]))[-1] == stable(20)
