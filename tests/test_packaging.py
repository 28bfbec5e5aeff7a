"""The built wheel and the source archive install into an empty environment and work there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Final

import pytest

from tests.test_docs import ROOT, blocks_of

pytestmark = pytest.mark.commands

PIP: Final = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def command(*words: str | Path, folder: Path, environment: Path | None = None) -> str:
    """What a command prints; it has to succeed."""
    path = f"{environment / 'bin'}{os.pathsep}" if environment is not None else ""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**os.environ, "PATH": f"{path}{os.environ['PATH']}", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wheel_of(source: Path, folder: Path) -> Path:
    """A wheel, built from the repository or from a source archive."""
    built: list[str | Path] = [
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        folder,
    ]
    command(*PIP, *built, source, folder=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    command(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, folder=ROOT)
    (found,) = folder.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the source archive: so that has all that is needed to build it."""
    return wheel_of(archive, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing in it but the wheel; dependencies are read where they are."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    install: list[str | Path] = ["--python", python, "install", "--quiet", "--no-deps", wheel]
    command(*PIP, *install, folder=folder)
    (site,) = folder.glob("lib/python*/site-packages")
    own = [path for path in sys.path if path.endswith("site-packages")]
    # Entries of a .pth file are searched after the environment itself, and their own .pth files
    # are not read: the editable install that runs these tests stays invisible.
    (site / "dependencies.pth").write_text("\n".join(own) + "\n")
    return folder


def test_the_wheel_has_the_demo_and_no_benchmarks(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    bench = {name.split("/")[2] for name in names if name.startswith("anabranch/bench/")}
    assert bench == {"__init__.py", "names.py", "demo"}
    assert "anabranch/py.typed" in names
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]


def test_the_example_of_the_readme_runs(environment: Path, tmp_path: Path) -> None:
    page = blocks_of((ROOT / "README.md").read_text())
    for block in page:
        if block.file is not None:
            (tmp_path / block.file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.file).write_text(block.text)
    (script,) = [
        block for block in page if block.language == "python" and "import anabranch" in block.text
    ][:1]
    # In this process, where the page starts Spark: that has tests of its own.
    text = re.sub(r"\.start\((.*?), available_now=True\)", r".run_local(\1)", script.text)
    text = re.sub(r"^run\.await_end\(\).*\n|^run\..*show.*\n", "", text, flags=re.MULTILINE)
    (tmp_path / "example.py").write_text(text + "import anabranch\nprint(anabranch.__file__)\n")
    found = command("python", "example.py", folder=tmp_path, environment=environment)
    assert str(environment) in found
    shown = command("anabranch", "--version", folder=tmp_path, environment=environment)
    assert re.search(r"\d+\.\d+", shown)


def test_without_benchmarks_the_command_says_where_they_are(
    environment: Path, tmp_path: Path
) -> None:
    run: list[str | Path] = [environment / "bin" / "anabranch", "bench", "tumbling"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "not part of the installed package" in done.stderr
    assert "clone of the repository" in done.stderr
