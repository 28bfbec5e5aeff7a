"""How modules get to where they run: installed packages, files that are sent, code of a script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine import Engine, Stream
from anabranch.errors import OperatorError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "anabranch-example-module"
TRADES = [("bolt", 10.0, 3, 1), ("bolt", 20.0, 1, 4), ("nut", 1.0, 1, 5), ("nut", 2.0, 1, 12)]

NOISY = """
import anabranch as ab

print("noisy is here")


@ab.uda
def noisy(sizes: list[int]) -> int:
    print("noisy counts", sizes)
    return len(sizes)
"""

SENT = """
import anabranch as ab


@ab.uda
def widest(prices: list[float]) -> float:
    return max(prices) - min(prices)
"""

QUERY = """
CREATE STREAM Trade (item STRING, price DOUBLE, size BIGINT, t BIGINT)
  SOURCE 'trades.parquet' ORDERED BY t WITH (ends = TRUE);
SELECT item, vwap(price, size) AS price, noisy(size) AS n FROM Trade GROUP BY item, TUMBLING(10);
"""


def write_wheel(folder: Path, name: str, code: dict[str, str], offers: dict[str, str]) -> Path:
    """A wheel of pure Python that offers modules; what a build backend would make."""
    about = f"{name}-1.0.0.dist-info"
    entries = "\n".join(f"{key} = {value}" for key, value in offers.items())
    files = {
        **code,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[anabranch.modules]\n{entries}\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"])
    wheel = folder / f"{name}-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(path, text)
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example package, and one that talks, installed by pip."""
    folder = tmp_path_factory.mktemp("packages")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    name = project["name"].replace("-", "_")
    own = EXAMPLE / "src"
    code = {str(path.relative_to(own)): path.read_text() for path in own.rglob("*.py")}
    wheels = [
        write_wheel(folder, name, code, project["entry-points"]["anabranch.modules"]),
        write_wheel(folder, "noisy", {"noisy.py": NOISY}, {"noisy": "noisy:noisy"}),
    ]
    words = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", *words, "--target", folder / "site", *wheels], check=True
    )
    return folder / "site"


def write_trades(path: Path) -> None:
    items, prices, sizes, times = zip(*TRADES)
    pq.write_table(pa.table({"item": items, "price": prices, "size": sizes, "t": times}), path)


@pytest.mark.parametrize("engine_name", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_modules_of_an_installed_package_are_called_by_name(
    installed: Path, tmp_path: Path, engine_name: str
) -> None:
    write_trades(tmp_path / "trades.parquet")
    (tmp_path / "q.sql").write_text(QUERY)
    paths = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "anabranch.cli.app", "run", "q.sql", "--engine", engine_name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    # What the package says at import and at work is not among the results.
    found = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [
        (*each["insert"].values(), each["start"], each["end"]) for each in found if "insert" in each
    ]
    assert sorted(rows) == [
        ("bolt", 12.5, 2, 0, 10),
        ("nut", 1.0, 1, 0, 10),
        ("nut", 2.0, 1, 10, 20),
    ]
    assert found[-1] == {"stable": "forever"}
    assert "noisy counts [3, 1]" in done.stderr


@pytest.mark.spark
def test_a_file_is_sent_to_workers(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "sent_module.py").write_text(SENT)
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    widest = import_module("sent_module").widest
    write_trades(tmp_path / "trades.parquet")
    trades = engine.stream(
        tmp_path / "trades.parquet", name="sent_trades", start="t", delay=0, ends=True
    )
    assert isinstance(trades, Stream)
    query = trades.tumbling(10, by="item").apply(widest, "price", name="wide")
    with pytest.raises(OperatorError) as caught:
        query.start(tmp_path / "log", available_now=True).await_end()
    what, where, hint = str(caught.value).splitlines()
    assert what == "a worker cannot load the code of a module or function"
    assert where == "  ModuleNotFoundError: No module named 'sent_module'"
    assert "spark.addArtifact(path, pyfile=True)" in hint
    engine.spark.addArtifact(str(tmp_path / "code" / "sent_module.py"), pyfile=True)
    run = query.start(tmp_path / "log", available_now=True)
    assert run.await_end()
    found = run.elements().toArrow().to_pylist()
    assert sorted((row["item"], row["start"], row["wide"]) for row in found) == [
        ("bolt", 0, 10.0),
        ("nut", 0, 0.0),
        ("nut", 10, 0.0),
    ]
