"""`anabranch generate`."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.model.files.stream_file import describe
from anabranch.workloads.nexmark import BID

RUNNER = CliRunner()
ROUGH = ["--events", "500", "--disorder", "50 ms", "--corrections", "0.2", "--stable-every", "50"]


def generate(*words: str) -> str:
    done = RUNNER.invoke(app, ["generate", "nexmark", *words])
    assert done.exit_code == 0, done.stderr
    return done.stderr


def test_elements_are_written_as_json_lines_or_parquet(tmp_path: Path) -> None:
    lines, table = str(tmp_path / "b.jsonl"), str(tmp_path / "b.parquet")
    said = generate(*ROUGH, "--to", lines)
    assert said.endswith(f" elements of 500 bids to {lines}\n")
    generate(*ROUGH, "--format", "elements", "--to", table)
    for path in (lines, table):
        assert RUNNER.invoke(app, ["check", path]).exit_code == 0
        assert describe(path).timestamps
    assert RUNNER.invoke(app, ["diff", lines, table]).exit_code == 0


def test_the_same_options_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        generate(*ROUGH, "--seed", "5", "--to", str(tmp_path / name))
    generate(*ROUGH, "--seed", "6", "--to", str(tmp_path / "c.jsonl"))
    one, two, three = ((tmp_path / name).read_bytes() for name in ("a.jsonl", "b.jsonl", "c.jsonl"))
    assert one == two != three


def test_plain_rows_are_written_as_parquet(tmp_path: Path) -> None:
    path = tmp_path / "b.parquet"
    assert "wrote 300 rows of 300 bids" in generate("--events", "300", "--to", str(path))
    assert pq.read_table(path).schema.equals(BID)
    generate("--events", "300", "--files", "3", "--to", str(tmp_path / "bids"))
    assert len(list((tmp_path / "bids").iterdir())) == 3
    assert pq.read_table(tmp_path / "bids").equals(pq.read_table(path))


def test_standard_output_is_the_default() -> None:
    done = RUNNER.invoke(app, ["generate", "nexmark", "--events", "3"])
    assert done.stdout.count('{"insert": {"itemID": 1000, ') == 3
    assert done.stdout.endswith('{"stable": "forever"}\n')
    assert done.stderr == "wrote 3 elements of 3 bids to -\n"


def refused(*words: str) -> str:
    done = RUNNER.invoke(app, ["generate", "nexmark", *words])
    assert done.exit_code == 2
    return done.stderr


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    assert refused("--corrections", "0.1", "--to", str(tmp_path / "b.parquet")) == (
        "QueryError: plain rows cannot be corrected\n"
        "  corrections 0.1\n"
        "  hint: write elements (JSON lines, or Parquet of elements), or leave corrections out\n"
    )
    assert refused("--format", "parquet").startswith(
        "StreamError: parquet cannot be written to standard output\n"
    )
    assert refused("--format", "jsonl", "--files", "2", "--to", "x").startswith(
        "StreamError: only plain rows are spread over files\n"
    )
    assert refused("--format", "elements", "--to", "x").startswith(
        "StreamError: the name of a Parquet file of elements ends in .parquet\n"
    )
    assert refused("--disorder", "soon").startswith("QueryError: 'soon' is not a duration\n")
    assert refused("--to", str(tmp_path / "no" / "b.parquet")).startswith(
        "StreamError: cannot write the rows: "
    )
    assert "Error" in refused("--late", "2")
    assert list(tmp_path.iterdir()) == []
