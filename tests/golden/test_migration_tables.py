"""The worked examples of Kraemer 2007, part IV: where Parallel Track is wrong, and what fuse does.

The inputs of Example 28.1 are those that its text implies; its lifetimes are 101 long. Elements
read `a[10,111)`. Halves of a chronon are written as such: `a[121.5,151)`.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.bench.migration.boxes import Box
from anabranch.bench.migration.fuse import Fuse, fork
from anabranch.bench.migration.lab import Arrival, alone
from anabranch.bench.migration.pieces import Excess, Stretch, differences, doubled, lost
from anabranch.bench.migration.plan_pairs import REWRITES, distinct_below_join
from anabranch.bench.migration.ways import WAYS, GenMig, PlanChange

A = "a[10,111) a[50,151)"
B = "a[20,121) a[70,171)"
START = 40
LENGTH = 101
RIGHT = "a[20,111) a[111,121) a[121,151)"


def pieces(text: str) -> list[Stretch]:
    found = re.findall(r"(\w)\[([\d.]+),([\d.]+)\)", text)
    return [Stretch((name,), float(start), float(end)) for name, start, end in found]


def shown(found: list[Stretch]) -> str:
    return " ".join(f"{piece.payload[0]}[{piece.start:g},{piece.end:g})" for piece in found)


def arrivals() -> list[Arrival]:
    both = [("A", piece) for piece in pieces(A)] + [("B", piece) for piece in pieces(B)]
    return sorted(both, key=lambda arrival: arrival[1].start)


def migrate(way: str) -> tuple[list[Stretch], PlanChange]:
    output: list[Stretch] = []
    pair = distinct_below_join()
    change = WAYS[way](pair.old(), pair.new(), LENGTH, output.append)
    for name, piece in arrivals():
        if change.began is None and piece.start >= START:
            change.begin(START)
        change.take(name, piece)
    change.finish()
    return output, change


def run(box: Box) -> list[Stretch]:
    output: list[Stretch] = []
    box.emit = output.append
    for name, piece in arrivals():
        box.advance(piece.start)
        box.take(name, piece)
    box.finish()
    return output


def test_both_plans_of_the_example_mean_the_same() -> None:
    pair = distinct_below_join()
    assert shown(run(pair.old())) == RIGHT
    assert differences(pieces(RIGHT), run(pair.new())) == []


def test_parallel_track_reports_a_result_twice() -> None:
    """Example 28.1: the old box says [111,121), the new one [70,151)."""
    output, _ = migrate("parallel track")
    assert shown(output) == "a[20,111) a[111,121) a[70,151)"
    excess = differences(pieces(RIGHT), output)
    assert excess == [Excess(("a",), 70, 121, 1)]
    assert (lost(excess), doubled(excess)) == (0, 51)


def test_genmig_reports_every_instant_once() -> None:
    """Section 29.2 with the inputs of Example 28.1."""
    output, change = migrate("genmig")
    assert isinstance(change, GenMig)
    assert change.split == 121.5
    assert shown(output) == RIGHT


def test_what_the_boxes_of_genmig_take_and_say() -> None:
    pair = distinct_below_join()
    old, new = pair.old(), pair.new()
    from_old: list[Stretch] = []
    from_new: list[Stretch] = []
    old.emit, new.emit = from_old.append, from_new.append
    taken: dict[str, list[Stretch]] = {"old": [], "new": []}
    for name, piece in arrivals():
        for box, part, own in zip((old, new), fork(piece, 121.5), taken.values()):
            if part is not None:
                box.take(name, part)
                own.append(part)
    assert shown(taken["old"]) == "a[10,111) a[20,121) a[50,121.5) a[70,121.5)"
    assert shown(taken["new"]) == "a[121.5,151) a[121.5,171)"
    assert shown(from_old) == "a[20,111) a[111,121) a[121,121.5)"
    assert shown(from_new) == "a[121.5,151)"


@pytest.mark.parametrize("new_first", [True, False])
def test_fuse_puts_the_parts_together(new_first: bool) -> None:
    output: list[Stretch] = []
    fuse = Fuse(121.5, output.append)
    old, new = pieces("a[20,111) a[111,121) a[121,121.5)"), pieces("a[121.5,151)")
    for piece in new if new_first else ():
        fuse.from_new(piece)
    for piece in old:
        fuse.from_old(piece)
    for piece in () if new_first else new:
        fuse.from_new(piece)
    fuse.flush()
    assert shown(output) == RIGHT


def test_fuse_emits_in_order_where_several_wait() -> None:
    """The printed rule releases up to the start of the partner that was found: out of order."""
    output: list[Stretch] = []
    fuse = Fuse(9.5, output.append)
    for piece in pieces("a[2,9.5) b[3,9.5) c[4,7)"):
        fuse.from_old(piece)
        fuse.release(piece.start)
    assert shown(output) == ""
    (b,) = pieces("b[9.5,12)")
    fuse.from_new(b)
    fuse.release(5)
    assert shown(output) == "", "a[2, ...) still waits for its other part"
    (a,) = pieces("a[9.5,11)")
    fuse.from_new(a)
    fuse.release(5)
    assert shown(output) == "a[2,11) b[3,12) c[4,7)"
    assert len(fuse) == 0


def test_fuse_loses_nothing_that_ends_at_the_split() -> None:
    """A split that is a natural end leaves parts without partners; the printed rule loses them."""
    output: list[Stretch] = []
    fuse = Fuse(9, output.append)
    for piece in pieces("a[2,9) b[3,9)"):
        fuse.from_old(piece)
    (later,) = pieces("c[9,12)")
    fuse.from_new(later)
    fuse.flush()
    assert shown(output) == "a[2,9) b[3,9) c[9,12)"


@pytest.mark.parametrize("way", ["genmig", "reference point", "clip"])
def test_other_ways_are_right_in_the_example(way: str) -> None:
    output, _ = migrate(way)
    assert differences(pieces(RIGHT), output) == []


@pytest.mark.parametrize("rewrite", list(REWRITES))
@given(data=st.data())
def test_genmig_and_clip_are_right_for_every_rewrite(rewrite: str, data: st.DataObject) -> None:
    pair = REWRITES[rewrite]()
    window = data.draw(st.integers(1, 9), label="window")
    starts = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=8)
    streams = sorted(
        (
            (name, Stretch((value,), start, start + window))
            for name in pair.sources
            for value, start in data.draw(starts, label=name)
        ),
        key=lambda arrival: arrival[1].start,
    )
    wanted = alone(pair, streams)
    begin = data.draw(st.integers(1, 30), label="begin")
    for way in ("genmig", "clip"):
        output: list[Stretch] = []
        change = WAYS[way](pair.old(), pair.new(), window, output.append)
        for name, piece in streams:
            # The split time needs a start of every input.
            if change.began is None and piece.start >= begin and change.has_seen(pair.sources):
                change.begin(piece.start)
            change.take(name, piece)
        change.finish()
        assert differences(wanted, output) == [], way
