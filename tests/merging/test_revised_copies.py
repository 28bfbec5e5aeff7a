"""Copies of one stream that carry revisions become one stream that carries each of them once."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.merging import files
from anabranch.merging.revised_copies import MergedRevisions
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Insert, batch_of
from anabranch.model.revision import Revision
from anabranch.model.time import Time

RUNNER = CliRunner()
HELD = '{"insert": {"k": 1, "n": 3}, "start": 15, "end": 40}'
FIRST = (
    '{"revise": 1, "from": 20, "to": 30, "changes": ['
    '{"adjust": {"k": 1, "n": 3}, "start": 20, "end": 30, "new_end": 20}, '
    '{"insert": {"k": 1, "n": 4}, "start": 20, "end": 30}]}'
)
SECOND = (
    '{"revise": 2, "from": 5, "to": 7, "changes": '
    '[{"insert": {"k": 2, "n": 9}, "start": 5, "end": 7}]}'
)
OTHER = FIRST.replace('"n": 4', '"n": 5')
OVER = '{"stable": "forever"}'


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def merge(*words: str | Path) -> tuple[int, str]:
    done = RUNNER.invoke(app, ["merge", *map(str, words)])
    return done.exit_code, done.stderr


def numbers(path: Path) -> list[int]:
    lines = map(json.loads, path.read_text().splitlines())
    return [line["revise"] for line in lines if "revise" in line]


@pytest.mark.parametrize("piece", [1, 2, 100_000])
def test_a_revision_is_taken_from_the_first_copy_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(files, "PIECE_ROWS", piece)
    one = write(tmp_path / "a.jsonl", HELD, '{"stable": 30}', FIRST, SECOND, OVER)
    two = write(tmp_path / "b.jsonl", HELD, '{"stable": 35}', FIRST)
    out = tmp_path / "out.jsonl"
    code, said = merge(one, two, "--to", out)
    assert code == 0, said
    assert "1 inserts, 0 adjusts, 2 revisions out of 5 elements; stable point forever" in said
    assert numbers(out) == [1, 2]
    assert RUNNER.invoke(app, ["check", str(out)]).exit_code == 0
    for known in ("0", "1", "2"):
        words = ["diff", one, str(out), "--known", known]
        assert RUNNER.invoke(app, words).exit_code == 0


def test_copies_with_different_revisions_of_one_number_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "a.jsonl", HELD, '{"stable": 30}', FIRST, OVER)
    two = write(tmp_path / "b.jsonl", HELD, '{"stable": 30}', OTHER, OVER)
    out = tmp_path / "out.jsonl"
    code, said = merge(one, two, "--to", out)
    assert code == 2
    assert f"revision 1 differs from that of '{one}'" in said
    assert f"copy '{two}', which revises [20, 30); '{one}' revises [20, 30)" in said
    assert not out.exists()


@pytest.mark.parametrize("divergence", ["quarantine", "warn"])
def test_or_the_first_one_counts(tmp_path: Path, divergence: str) -> None:
    one = write(tmp_path / "a.jsonl", HELD, '{"stable": 30}', FIRST, OVER)
    two = write(tmp_path / "b.jsonl", HELD, '{"stable": 30}', OTHER, OVER)
    out = tmp_path / "out.jsonl"
    code, said = merge(one, two, "--to", out, "--divergence", divergence)
    assert code == 0, said
    assert f"{two}: revision 1 differs from that of {one}, and was left out" in said
    assert RUNNER.invoke(app, ["diff", one, str(out)]).exit_code == 0


def test_a_revision_waits_until_the_output_is_settled_as_far_as_it_goes(tmp_path: Path) -> None:
    one = write(tmp_path / "a.jsonl", HELD, '{"stable": 30}', FIRST, '{"stable": 32}', SECOND)
    out = tmp_path / "out.jsonl"
    code, said = merge(one, "--to", out, "--lag", "5")
    assert code == 0, said
    assert numbers(out) == []
    assert "revisions from 1 on were left out" in said
    write(tmp_path / "a.jsonl", HELD, '{"stable": 30}', FIRST, '{"stable": 37}', SECOND)
    code, said = merge(one, "--to", out, "--lag", "5")
    assert code == 0, said
    assert numbers(out) == [1, 2]
    assert RUNNER.invoke(app, ["check", str(out)]).exit_code == 0


def insert_of(key: int, last: int) -> EventBatch:
    schema = pa.schema([("k", pa.int64())])
    return batch_of([Insert(payload=(key,), start=Time(0), end=Time(last))], schema)


@given(
    lasts=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    turns=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 25)), max_size=40),
)
def test_revisions_leave_once_and_in_order_whoever_brings_them(
    lasts: list[int], turns: list[tuple[int, int]]
) -> None:
    revisions = [
        found
        for number, last in enumerate(lasts, 1)
        if (found := Revision.of(number, insert_of(number, last))) is not None
    ]
    merged, brought, stable = MergedRevisions("fail"), dict.fromkeys("abc", 0), 0
    left: list[int] = []
    for turn, settled in turns:
        name, stable = "abc"[turn], max(stable, settled)
        merged.take(name, revisions[brought[name] : brought[name] + 1])
        brought[name] = min(brought[name] + 1, len(revisions))
        for each in merged.ready(Time(stable)):
            assert each.last <= stable
            left.append(each.number)
        merged.forget(brought)
    assert left == list(range(1, len(left) + 1))
    most = max(brought.values())
    ready = next((n for n, last in enumerate(lasts[:most]) if last > stable), most)
    assert len(left) >= ready
    assert merged.waiting == most - len(left)
