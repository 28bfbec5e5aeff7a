"""A merge that follows stream files leaves out what they say again, in any batches."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import anabranch as ab
from anabranch.algebra.analysis.merge_case import Case
from anabranch.model.elements import Element, Insert, Stable, element_json
from anabranch.model.files.stream_file import read_batches
from anabranch.model.time import FOREVER
from anabranch.runtime.sources.spec import Limits
from anabranch.stream import Stream
from tests.merging.test_said_again import SCHEMA, history, with_restarts


def write(path: Path, said: list[Element]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(element_json(each)) + "\n" for each in said))


def merged(folder: Path, case: Case, rows: int) -> Counter[tuple[object, int, int]]:
    """What a merge of the files in a folder makes of them, in batches of about so many rows."""
    stream: Stream = ab.Engine().stream(str(folder), name="c", copies=True, schema=SCHEMA)
    source = replace(stream.sources["c"], limits=Limits(rows=rows))
    stream = replace(stream, sources={"c": source}).merge(case=case)
    stream.run_local(to=folder.parent / "out.jsonl")
    events: Counter[tuple[object, int, int]] = Counter()
    for batch in read_batches(folder.parent / "out.jsonl"):
        for row, start, end, new_end in zip(
            batch.payload.to_pylist(), batch.start, batch.end, batch.new_end, strict=True
        ):
            events[row["k"], int(start), int(end)] -= int(end > start)
            events[row["k"], int(start), int(new_end)] += int(new_end > start)
    return +events


@pytest.mark.parametrize("case", ["r1", "r4"])
def test_what_a_file_says_again_counts_once_in_any_batches(case: Case, tmp_path: Path) -> None:
    dice = Random(f"files {case}")
    for number in range(25):
        said = [*history(dice), Stable(FOREVER)]
        folder = tmp_path / f"{number}" / "copies"
        folder.parent.mkdir()
        write(folder / "a.jsonl", [*with_restarts(said[:-1], dice), Stable(FOREVER)])
        if dice.random() < 0.5:
            write(folder / "b.jsonl", said[: dice.randrange(len(said))])
        expected = Counter(
            (dict(each.payload)["k"], int(each.start), int(each.end))
            for each in said
            if isinstance(each, Insert)
        )
        assert merged(folder, case, dice.choice([1, 2, 3, 7, 100])) == expected, number
