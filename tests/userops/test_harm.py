"""Whatever a module does with what it gets, the engine's state and other results stay right."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from decimal import getcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import anabranch as ab
from anabranch.testing import PhysicalState
from anabranch.testing.physical import Move

ROWS = [(k, v, t) for t, (k, v) in enumerate(zip([0, 1, 0, 0, 1, 1] * 4, range(24)))]
KEPT: list[Any] = []


@pytest.fixture
def rows(tmp_path: Path) -> ab.Stream:
    """Two groups in windows of ten, some rows with a longer life, in small batches."""
    lines = [
        f'{{"insert": {{"k": {k}, "v": {v}, "parts": [{v}, 1]}}, "start": {t}, "end": {t + 1 + k}}}'
        for k, v, t in ROWS
    ]
    lines.append(
        '{"adjust": {"k": 1, "v": 4, "parts": [4, 1]}, "start": 4, "end": 6, "new_end": 4}'
    )
    lines.append('{"stable": "forever"}')
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    stream = ab.Engine().stream(tmp_path / "rows.jsonl", name="rows", max_rows_per_batch=5)
    assert isinstance(stream, ab.Stream)
    return stream


def said(query: ab.Stream) -> list[Any]:
    """What is there in the end."""
    state = PhysicalState.empty()
    for row in query.run_local().table().to_pylist():
        if row["kind"] == "stable":
            continue
        payload = tuple(row[name] for name in query.schema.names)
        start, end = row["start"], row["end"]
        insert = row["kind"] == "insert"
        ends = (start, end) if insert else (end, row["new_end"])
        wrong = state.take(Move(payload, start, *ends))
        assert not wrong
    return sorted(state.events.elements())


def windows(rows: ab.Stream, **options: Any) -> ab.WindowedStream[ab.Stream]:
    return rows.hopping(10, 5, by="k", **options)


@ab.uda
def total(v: list[int]) -> int:
    return sum(v)


@ab.uda
def clearing(v: list[int]) -> int:
    found = sum(v)
    v.clear()
    return found


@ab.uda
def keeping(v: list[int]) -> int:
    found = sum(v)
    for earlier in KEPT:
        earlier.append(1_000)
    KEPT.append(v)
    return found


@ab.uda
def clearing_parts(parts: list[list[int]]) -> int:
    found = sum(part[0] for part in parts)
    for part in parts:
        part.clear()
    return found


@ab.uda(frame="pandas", takes={"v": int}, returns=int)
def spoiling(frame: pd.DataFrame) -> pd.DataFrame:
    found = frame.groupby("window")["v"].sum().rename("value").reset_index()
    frame["v"] = 0
    frame["window"] = 7
    frame.to_numpy().fill(3)
    return found


@ab.uda
class Shared:
    """Gives the same object as every initial state, and changes it."""

    def __init__(self) -> None:
        self.nothing: list[int] = []

    def initial(self) -> list[int]:
        return self.nothing

    def add(self, state: list[int], v: int) -> list[int]:
        state.append(v)
        return state

    def remove(self, state: list[int], v: int) -> list[int]:
        state.remove(v)
        return state

    def compute(self, state: list[int]) -> int:
        found = sum(state)
        state.clear()
        return found


@ab.uda
class Remembering(Shared.__wrapped__):  # type: ignore[name-defined,misc]
    """Keeps the states that it sees, and changes all of them later."""

    def add(self, state: list[int], v: int) -> list[int]:
        for earlier in KEPT:
            if earlier is not state:
                earlier.append(1_000)
        KEPT.append(state)
        state.append(v)
        return state


@pytest.mark.parametrize(
    ("module", "column"),
    [
        (clearing, "v"),
        (keeping, "v"),
        (clearing_parts, "parts"),
        (spoiling, "v"),
        (Shared, "v"),
        (Remembering, "v"),
    ],
)
@pytest.mark.parametrize("open_windows", [True, False])
def test_what_a_module_gets_is_its_own(
    rows: ab.Stream, module: Any, column: str, open_windows: bool
) -> None:
    KEPT.clear()
    wanted = said(windows(rows, open_windows=open_windows).apply(total, "v", name="said"))
    assert len(wanted) == 12
    query = windows(rows, open_windows=open_windows).apply(module, column, name="said")
    assert said(query) == wanted


@ab.uda
def leaving(v: list[int]) -> int:
    if 7 in v:
        sys.exit(3)
    return sum(v)


@ab.uda
def sinking(v: list[int]) -> int:
    def deeper(n: int) -> int:
        return deeper(n + 1)

    return deeper(0) if 7 in v else sum(v)


@ab.udo
def breaking_off(v: list[int]) -> Iterator[int]:
    yield sum(v)
    if 7 in v:
        raise StopAsyncIteration


@pytest.mark.parametrize("module", [leaving, sinking, breaking_off])
def test_a_module_takes_nobody_with_it(rows: ab.Stream, module: Any) -> None:
    every = said(windows(rows).apply(total, "v", name="said"))
    query = windows(rows, errors="skip").apply(module, "v", name="said")
    lost = [each for each in every if each not in said(query)]
    # Two windows of one group hold the event.
    assert [(payload[0], start) for payload, start, _ in lost] == [(1, 0), (1, 5)]
    failures = query.run_local().failures()
    assert {tuple(each["window"]) for each in failures} == {("0", "10"), ("5", "15")}


@ab.uda
def meddling(v: list[int]) -> int:
    np.seterr(all="raise")
    getcontext().prec = 1
    return sum(v)


def test_settings_of_the_process_stay(rows: ab.Stream) -> None:
    before = (np.geterr(), getcontext().prec)
    wanted = said(windows(rows).apply(total, "v", name="said"))
    assert said(windows(rows).apply(meddling, "v", name="said")) == wanted
    assert (np.geterr(), getcontext().prec) == before


@ab.uda
def chatting(v: list[int]) -> int:
    print("let me see ...")  # noqa: T201 (that is what it is about)
    return sum(v)


def test_what_a_module_prints_is_no_result(
    rows: ab.Stream, capfd: pytest.CaptureFixture[str]
) -> None:
    windows(rows).apply(total, "v", name="said").run_local("-")
    wanted, _ = capfd.readouterr()
    windows(rows).apply(chatting, "v", name="said").run_local("-")
    printed, talk = capfd.readouterr()
    assert printed == wanted
    assert "let me see ..." in talk
