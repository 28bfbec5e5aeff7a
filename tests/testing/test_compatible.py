"""The checker of merges finds what a merge does wrong, and nothing else."""

from __future__ import annotations

import pytest

from anabranch.model import elements as model
from anabranch.model.time import FOREVER
from anabranch.testing import (
    AnyElement,
    Element,
    MergeModel,
    MergeWatch,
    adjust,
    compatible,
    insert,
    stable,
)

BOTH = pytest.mark.parametrize("multiset", [False, True])


def rules(inputs: dict[str, list[Element]], output: list[Element], *, multiset: bool) -> list[str]:
    return sorted(each.rule for each in compatible(inputs, output, multiset=multiset))


A = insert("a", start=5, end=9)


@BOTH
@pytest.mark.parametrize(
    ("inputs", "output", "wrong"),
    [
        ([[A]], [], []),
        ([[A, stable(7)]], [], []),
        ([[]], [A], []),
        ([[A, stable(7)]], [A, stable(7)], []),
        ([[A, stable(7)]], [insert("a", start=5), stable(7)], []),
        ([[A, stable(7)]], [A, stable(8)], ["C1", "C2"]),
        ([[A, stable(7)]], [A, stable(5)], []),
        ([[A, stable(7)]], [stable(5)], []),
        ([[A, stable(7)]], [stable(6)], ["C3.2"]),
        ([[A, stable(10)]], [stable(6)], ["C3.1"]),
        ([[A, stable(10)]], [insert("a", start=5, end=6), stable(6)], []),
        ([[A, stable(10)]], [insert("a", start=5, end=6), stable(7)], ["C2"]),
        ([[A, stable(10)]], [insert("a", start=5, end=10), stable(10)], ["C2"]),
        ([[A, stable(10)]], [insert("a", start=5, end=10), stable(9)], []),
        ([[stable(10)]], [A, stable(6)], ["C2"]),
        ([[stable(10)]], [A, stable(5)], []),
        # At its end an event is not final yet.
        ([[A, stable(9)]], [A, stable(9)], []),
        ([[A, stable(9)]], [insert("a", start=5), stable(9)], []),
        ([[insert("a", start=5), stable(FOREVER)]], [A, stable(FOREVER)], ["C2"]),
        ([[insert("a", start=5), stable(FOREVER)]], [A, stable(9)], []),
        # The most advanced input decides; one that is behind knows less.
        ([[A, stable(6)], [stable(3)]], [A, stable(6)], []),
        ([[A], [stable(6)]], [A, stable(6)], ["C2"]),
        ([[A, stable(6)], [stable(8)]], [A, stable(8)], ["C2"]),
        ([[A, stable(6)], [stable(8)]], [stable(8)], ["C3.2"]),
        ([[insert("a", start=5, end=12), stable(11)], [A, stable(6)]], [A, stable(10)], ["C2"]),
    ],
)
def test_verdicts_on_one_event(
    inputs: list[list[Element]], output: list[Element], wrong: list[str], multiset: bool
) -> None:
    assert sorted(each.rule for each in compatible(inputs, output, multiset=multiset)) == wrong


def test_a_key_allows_one_event_and_a_multiset_as_many_as_there_are() -> None:
    twice: list[Element] = [A, insert("a", start=5, end=7)]
    assert rules({"one": [A]}, twice, multiset=False) == ["C2"]
    assert rules({"one": [A]}, twice, multiset=True) == []
    assert rules({"one": [*twice, stable(6)]}, [*twice, stable(6)], multiset=True) == []
    assert rules({"one": [*twice, stable(6)]}, [A, stable(6)], multiset=True) == ["C3.2"]
    assert rules({"one": [*twice, stable(8)]}, [A, A, stable(6)], multiset=True) == []
    assert rules({"one": [*twice, stable(8)]}, [A, A, stable(8)], multiset=True) == ["C2"]
    assert rules({"one": [*twice, stable(8)]}, [A, A, A, stable(6)], multiset=True) == ["C2"]
    assert rules({"one": [A, A, stable(6)]}, [A, stable(6)], multiset=True) == ["C3.2"]
    assert rules({"one": [A, A, stable(10)]}, [A, stable(10)], multiset=True) == ["C3.1"]


def test_elements_of_the_model_are_understood() -> None:
    said: list[AnyElement] = [model.Insert({"name": "a"}, 5, 9), model.Stable(7)]
    moved: list[AnyElement] = [
        model.Insert(("a",), 5, 7),
        model.Adjust(("a",), 5, 7, 8),
        model.Stable(7),
    ]
    assert compatible([said], moved) == []
    (wrong,) = compatible([said], [model.Stable(7)])
    assert str(wrong) == (
        "C3.2 ('a')@5: the output has nothing at 7; input 1 has [5, 9) half frozen at 7"
    )


@BOTH
@pytest.mark.parametrize(
    ("output", "text"),
    [
        ([stable(6), A], "illegal ('a')@5: insert('a')[5, 9) starts before the stable point 6"),
        (
            [adjust("a", start=5, end=8, new_end=9)],
            "illegal ('a')@5: adjust('a')[5, 8 -> 9) there is no such event",
        ),
        (
            [A, stable(6), adjust("a", start=5, end=9, new_end=5)],
            "illegal ('a')@5: adjust('a')[5, 9 withdrawn) changes something before the stable "
            "point 6",
        ),
    ],
)
def test_the_output_must_be_a_stream(output: list[Element], text: str, multiset: bool) -> None:
    one: list[Element] = [A, stable(6)]
    found = compatible({"one": one}, output, multiset=multiset)
    assert text in map(str, found)


def test_promises_of_an_input_count_from_what_it_stands_for() -> None:
    watch = MergeWatch()
    watch.attach("old")
    watch.attach("new", 8)
    watch.take("new", stable(20))
    watch.emit(stable(3))
    (wrong,) = watch.violations()
    assert str(wrong) == "C1: the output is stable at 3; old at -forever, new (from 8) at 20"
    watch.take("old", stable(7))
    assert (watch.violations(), watch.reached) == ([], 7)
    watch.take("old", stable(8))
    watch.emit(stable(20))
    assert (watch.violations(), watch.reached) == ([], 20)


@BOTH
def test_an_input_that_joins_stands_for_what_ends_later(multiset: bool) -> None:
    watch = MergeWatch(multiset=multiset)
    watch.attach("old")
    watch.attach("new", 8)
    watch.take("new", insert("x", start=3, end=6))
    watch.take("new", insert("y", start=4, end=7))
    watch.take("new", stable(7))
    watch.take("old", stable(7))
    watch.emit(stable(7))
    assert watch.violations() == []
    watch.take("new", insert("z", start=7, end=8))
    for name in ("new", "old"):
        watch.take(name, stable(9))
    watch.emit(stable(9))
    assert [(each.rule, each.event) for each in watch.violations()] == [("C3.1", (("z",), 7))]


@BOTH
def test_what_an_input_has_frozen_stays_a_fact_when_it_leaves(multiset: bool) -> None:
    watch = MergeWatch(multiset=multiset)
    watch.attach("one")
    for element in (A, insert("b", start=7, end=9), stable(7)):
        watch.take("one", element)
    watch.detach("one")
    watch.take("one", stable(8))
    watch.attach("one")
    watch.take("one", stable(7))
    watch.emit(stable(7))
    (wrong,) = watch.violations()
    assert (wrong.rule, wrong.event) == ("C3.2", (("a",), 5))


@pytest.mark.parametrize(
    ("output", "wrong"),
    [
        (
            [A, adjust("a", start=5, end=9, new_end=8)],
            ["2 inserts and adjusts left the merge; 1 came"],
        ),
        ([A, insert("b", start=5, end=9)], ["2 inserts left", "2 inserts and adjusts left"]),
        ([A, stable(5)], ["1 stables left the merge; 0 came"]),
        ([A, adjust("a", start=5, end=9, new_end=5)], []),
    ],
)
def test_a_laconic_merge_says_no_more_than_it_hears(
    output: list[Element], wrong: list[str]
) -> None:
    watch = MergeWatch(laconic=True)
    watch.attach("one")
    watch.take("one", A)
    for element in output:
        watch.emit(element)
    found = [each.text for each in watch.violations() if each.rule == "chatty"]
    assert len(found) == len(wrong)
    assert all(text.startswith(part) for text, part in zip(found, wrong))


SPURIOUS: list[tuple[str, Element]] = [("one", A), ("two", stable(6))]
PUT_OFF: list[tuple[str, Element]] = [
    ("one", A),
    ("one", stable(6)),
    *(
        ("one", element)
        for end in range(9, 15)
        for element in (adjust("a", start=5, end=end, new_end=end + 1), stable(end + 1))
    ),
]


@pytest.mark.parametrize(("script", "adjusts"), [(SPURIOUS, 1), (PUT_OFF, 6)])
def test_what_leaves_is_not_bounded_by_inserts(
    script: list[tuple[str, Element]], adjusts: int
) -> None:
    """One insert comes; an event that is taken back, and one that is put off, make R3 say more."""
    merge, watch = MergeModel("R3"), MergeWatch(laconic=True)
    for name in ("one", "two"):
        merge.attach(name)
        watch.attach(name)
    for name, element in script:
        watch.take(name, element)
        for said in merge.take(name, element):
            watch.emit(said)
        assert watch.violations() == []
    assert (watch.received.inserts, watch.emitted.inserts) == (1, 1)
    assert watch.emitted.adjusts + watch.emitted.withdrawals == adjusts
