"""Let the merge kernel read scripts, and look at it after every batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from random import Random
from typing import Any, cast
from unittest.mock import patch

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import MergePolicy
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.trace import runs
from anabranch.testing import Element, KitStable, MergeCase, MergeScript, MergeWatch, make_script
from anabranch.testing.merge.oracle import unsettled
from tests.merge.driver import Driver, batches

INSERTS = ["first", "leading", "half_frozen", "quorum(2)", "quorum(0.5)", "quorum(100%)"]
ADJUSTS = ["lazy", "eager", "leading"]
LAGS = [0, 1, 4]


def kernel_case(case: MergeCase) -> Case:
    return cast(Case, case.lower())


def draw_policy(case: MergeCase, dice: Random, **fixed: Any) -> MergePolicy:
    """Any that the case allows."""
    if case in ("R3", "R4"):
        fixed = {"inserts": dice.choice(INSERTS), "adjusts": dice.choice(ADJUSTS), **fixed}
    return MergePolicy.of(**{"lag": dice.choice(LAGS), **fixed})


def any_sizes(dice: Random, most: int) -> Iterator[int]:
    while True:
        yield 1 + dice.randrange(most)


def assert_merges(
    script: MergeScript,
    policy: MergePolicy,
    sizes: Iterator[int] | None = None,
    *,
    one_leads: bool = True,
    driver: Driver | None = None,
) -> list[list[Element]]:
    """What leaves in every batch; each time it is compatible, and final as the history tells."""
    driver = driver or Driver(kernel_case(script.case), policy)
    plain = policy.inserts == "first" and policy.adjusts == "lazy"
    watch = MergeWatch(multiset=script.case in ("R1", "R4"), laconic=script.case == "R3" and plain)
    told = [(event.payload, event.start, event.new_end) for event in script.history]
    said: list[list[Element]] = []
    log: list[str] = []
    for batch in batches(script, repeat(1) if sizes is None else sizes, one_leads=one_leads):
        log.append(f"  {batch}")
        for action in batch:
            match action:
                case ("attach", name, time):
                    watch.attach(name, time)
                case ("detach", name):
                    watch.detach(name)
                case ("element", name, element):
                    watch.take(name, element)
        output = driver.step(batch)
        log.append(f"    -> {output}")
        said.append(output)
        for each in output:
            watch.emit(each)
        wrong = [str(violation) for violation in watch.violations()]
        if output and isinstance(output[-1], KitStable):
            wrong += unsettled(watch, told)
        if wrong:
            what = f"as {script.case}, {policy}, history {script.history}"
            raise AssertionError("\n".join([wrong[0], what, *log]))
    return said


def check_history(case: MergeCase, seed: object, **fixed: Any) -> None:
    """One history thrown with dice, merged by any policy, in any batches, on up to three shards.

    Copies that tell everything are never said to contradict each other.
    """
    dice = Random(f"{case} {seed}")
    gaps = dice.random() < 0.5
    compared = case in ("R3", "R4") and not gaps
    fixed = {"divergence": "fail", **fixed} if compared else fixed
    policy = draw_policy(case, dice, **fixed)
    script = make_script(case, dice.randrange, lag=policy.lag, gaps=gaps)
    sizes = any_sizes(dice, dice.choice([1, 1, 3, 8, 20]))
    shards = dice.choice([1, 1, 1, 2, 3])
    small, many = dice.choice([0, 0, 4, 4_096]), dice.choice([0, 20_000])
    with (
        patch.object(runs, "MERGE_ALL_UP_TO_ROWS", small),
        patch.object(columns, "COMPILE_FROM_ROWS", many),
        # Also where compiled loops are loaded, their twins in numpy are tested.
        patch.object(columns, "_is_loaded", (lambda: False) if many else columns._is_loaded),
    ):
        # What a copy lacks comes in time only from one that does not wait for its own promise.
        settles = not gaps and dice.random() < 0.5
        driver = Driver(kernel_case(case), policy, shards=shards, settles=settles)
        try:
            assert_merges(script, policy, sizes, one_leads=gaps, driver=driver)
        except Exception as wrong:
            raise AssertionError(f"check_history({case!r}, {seed!r}, **{fixed})") from wrong
