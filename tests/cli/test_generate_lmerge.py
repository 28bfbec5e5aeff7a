"""`anabranch generate lmerge`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.model.files.stream_file import read_batches

RUNNER = CliRunner()
SMALL = ("--events", "200", "--text", "12", "--adjusts", "0.3", "--stables", "0.1")


def generate(*words: str) -> str:
    done = RUNNER.invoke(app, ["generate", "lmerge", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_copies_go_to_a_folder_in_both_forms(tmp_path: Path) -> None:
    lines, tables = tmp_path / "lines", tmp_path / "tables"
    said = generate(*SMALL, "--copies", "2", "--to", f"{lines}/")
    assert "of 200 events, 2 copies, to" in said
    generate(*SMALL, "--copies", "2", "--format", "elements", "--to", f"{tables}/")
    assert [path.name for path in sorted(lines.iterdir())] == ["copy-1.jsonl", "copy-2.jsonl"]
    for number in (1, 2):
        read = [
            sum(len(batch) for batch in read_batches(path))
            for path in (lines / f"copy-{number}.jsonl", tables / f"copy-{number}.parquet")
        ]
        assert read[0] == read[1] > 200


def test_the_same_options_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        generate(*SMALL, "--to", str(tmp_path / name))
    generate(*SMALL, "--seed", "2", "--to", str(tmp_path / "c.jsonl"))
    texts = [(tmp_path / name).read_bytes() for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--copies", "2"), "standard output takes one copy"),
        (("--copies", "2", "--to", "x.jsonl"), "2 copies cannot be written to one file"),
        (("--format", "elements", "--to", "x.jsonl"), "the name does not end like elements"),
    ],
)
def test_what_cannot_be_written_is_said(words: tuple[str, ...], problem: str) -> None:
    done = RUNNER.invoke(app, ["generate", "lmerge", *words])
    assert done.exit_code != 0
    assert problem in f"{done.output}{done.exception}"
