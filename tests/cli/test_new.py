"""A new project, and the notebooks: what they hold runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.cli.new import project_files

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))


def run_notebook(text: str) -> dict[str, Any]:
    """Run the cells of a notebook one after the other, as Jupyter does; their names at the end."""
    names: dict[str, Any] = {}
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    return names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_of_the_examples_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_notebook(path.read_text())["expected"]


def test_a_new_project_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["new", "shop"]).exit_code == 0
    folder = tmp_path / "shop"
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == set(project_files("shop"))
    monkeypatch.chdir(folder)
    assert run_notebook((folder / "explore.ipynb").read_text())["run"] is not None
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_query.py"],
        cwd=folder,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_folder_that_exists_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    result = CliRunner().invoke(app, ["new", "shop"])
    assert result.exit_code == 2
    assert "'shop' already exists" in result.stderr
    assert not list((tmp_path / "shop").iterdir())
