from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from anabranch.bench.rows import write_elements
from anabranch.cli.app import app

FILES, ROWS, BATCH = 6, 330, 2


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[float, Path]:
    root = tmp_path_factory.mktemp("elements")
    for share in (0.0, 0.1):
        write_elements(
            root / str(share),
            files=FILES,
            rows_per_file=ROWS,
            files_per_batch=BATCH,
            keys=5,
            per_second=100,
            corrected=share,
        )
    return {share: root / str(share) for share in (0.0, 0.1)}


def _files(folder: Path) -> list[list[dict[str, object]]]:
    return [pq.read_table(file).to_pylist() for file in sorted(folder.iterdir())]


def _event(row: dict[str, object]) -> tuple[object, ...]:
    return row["start"], row["k"], row["v"]


def test_both_inputs_are_legal_streams(folders: dict[float, Path]) -> None:
    for folder in folders.values():
        said = CliRunner().invoke(app, ["check", str(folder)])
        assert said.exit_code == 0, said.output


def test_a_correction_withdraws_a_row_of_the_batch_before(folders: dict[float, Path]) -> None:
    files = _files(folders[0.1])
    for number, rows in enumerate(files):
        gone = Counter(_event(row) for row in rows if row["kind"] == "adjust")
        assert gone.total() == (30 if number >= BATCH else 0)
        if gone:
            there = (_event(row) for row in files[number - BATCH] if row["kind"] == "insert")
            assert gone <= Counter(there)


def test_corrections_stand_between_the_inserts(folders: dict[float, Path]) -> None:
    kinds = [row["kind"] for row in _files(folders[0.1])[-1]]
    assert 1 < kinds.index("adjust") < 100
    assert "adjust" in kinds[-100:-1]


def test_both_inputs_have_the_same_stable_points_and_as_many_rows(
    folders: dict[float, Path],
) -> None:
    plain, corrected = (_files(folder) for folder in folders.values())
    assert [len(rows) for rows in plain] == [len(rows) for rows in corrected]
    assert [rows[-1] for rows in plain] == [rows[-1] for rows in corrected]
    assert all(rows[-1]["kind"] == "stable" for rows in plain)
    assert 0 < plain[-1][-1]["start"] < plain[-1][0]["start"], "room for corrections"  # type: ignore[operator]
