"""A file whose writer was restarted says part of its past again: the merge leaves that out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from anabranch.algebra.analysis.merge_case import Case
from anabranch.kernels.merge import said_again
from anabranch.merging.files import FileCopy, FileMerge
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Element, Insert, Stable, batch_of
from anabranch.model.time import BEGINNING, FOREVER

SCHEMA = pa.schema([("k", pa.string())])


def arrived(elements: Sequence[Element]) -> Arrivals:
    """A piece, as a reader gives it."""
    rows = [at for at, element in enumerate(elements) if not isinstance(element, Stable)]
    stables = [(at, e.time) for at, e in enumerate(elements) if isinstance(e, Stable)]
    return Arrivals(
        batch=batch_of(elements, SCHEMA),
        position=np.array(rows, np.int64),
        is_adjust=np.zeros(len(rows), np.bool_),
        stables=np.array([time for _, time in stables], np.int64),
        stable_positions=np.array([at for at, _ in stables], np.int64),
    )


def pieces(elements: list[Element], dice: Random) -> Iterator[Arrivals]:
    """The elements in pieces of any size."""
    while elements:
        size = 1 + dice.randrange(6)
        some, elements = elements[:size], elements[size:]
        yield arrived(some)


def history(dice: Random) -> list[Element]:
    """Events in order, many of them equal, with promises in between."""
    said: list[Element] = []
    time, stable = 0, 0
    for _ in range(dice.randrange(4, 30)):
        time += dice.choice([0, 0, 1, 2])
        if dice.random() < 0.3 and time > stable:
            stable = time
            said.append(Stable(stable))
        said.append(Insert({"k": dice.choice("aab")}, time, time + dice.randrange(1, 5)))
    return said


def with_restarts(said: list[Element], dice: Random) -> list[Element]:
    """The same, restarted some times at elements that are settled by then."""
    out: list[Element] = []
    done = 0
    for number, element in enumerate(said, 1):
        out.append(element)
        if dice.random() > 0.15:
            continue
        stable = max((int(e.time) for e in said[:number] if isinstance(e, Stable)), default=0)
        late = [
            at for at, e in enumerate(said[:number]) if isinstance(e, Insert) and e.start < stable
        ]
        if late:
            at = dice.choice(late)
            if dice.random() < 0.3:
                # It dies on the way, and is restarted once more.
                out += said[at : at + dice.randrange(number - at + 1)]
                at = dice.choice(late)
            out += said[at:number]
            done += 1
    return out


@pytest.mark.parametrize("case", ["r1", "r4", None])
def test_what_a_restarted_file_says_again_is_left_out(case: Case | None) -> None:
    for seed in range(150):
        dice = Random(f"again {seed}")
        said = [*history(dice), Stable(FOREVER)]
        copies = [
            FileCopy("plain", pieces(list(said), dice)),
            FileCopy("restarted", pieces(with_restarts(said[:-1], dice) + said[-1:], dice)),
        ]
        merged = FileMerge(copies[dice.randrange(2) :], SCHEMA, case)
        found: Counter[tuple[str, int, int]] = Counter()
        for part in merged.parts():
            assert isinstance(part, EventBatch)
            for k, start, end, new_end in zip(
                part.payload["k"].to_pylist(), part.start, part.end, part.new_end
            ):
                found[k, int(start), int(end)] -= end > start
                found[k, int(start), int(new_end)] += new_end > start
        events = [e for e in said if isinstance(e, Insert)]
        wanted = Counter((str(dict(e.payload)["k"]), int(e.start), int(e.end)) for e in events)
        assert +found == wanted, (seed, said)


def test_what_was_merely_late_hides_nothing_that_is_new() -> None:
    a, b = Insert({"k": "a"}, 12, 13), Insert({"k": "b"}, 12, 13)
    said: list[Element] = [Stable(10), a, a, b, Insert({"k": "z"}, 3, 4), a, a, a, Stable(FOREVER)]
    merged = FileMerge([FileCopy("one", iter([arrived(said)]))], SCHEMA, "r4")
    rows = [k for part in merged.parts() for k in part.payload["k"].to_pylist()]  # type: ignore[union-attr]
    assert Counter(rows) == {"a": 5, "b": 1}


def test_more_than_is_remembered_is_not_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(said_again, "REMEMBERED_ROWS", 3)
    again = said_again.SaidAgain()
    a = arrived([Insert({"k": "a"}, n, n + 1) for n in range(5)]).batch
    everything, bound = np.ones(5, np.bool_), np.full(5, BEGINNING)
    assert again.new(a, everything, bound, int(BEGINNING)).all()
    late = np.array([False, True, True, True, True])
    assert again.new(a, late, bound, int(BEGINNING)).tolist() == late.tolist()
