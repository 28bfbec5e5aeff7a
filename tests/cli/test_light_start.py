import subprocess
import sys
from pathlib import Path

_RUN = """
import sys
from anabranch.cli.app import main
sys.argv = ["anabranch", "run", "query.sql", "--engine", "local", "--to", "answer.jsonl"]
try:
    main()
finally:
    print(*sorted({"pandas", "pyspark", "numba", "deltalake", "rich"} & set(sys.modules)))
"""

_PANDAS_LATER = """
import pyarrow as pa
from anabranch.runtime.workers.without_pandas import spare_pandas
spare_pandas()
pa.array([1])
import sys
assert "pandas" not in sys.modules
import pandas as pd
print(pa.array(pd.Series(["a", "b", "a"], dtype="category")).type)
print(pa.array(pd.Series([1.0, float("nan")]), from_pandas=True).null_count)
print(type(pa.array([1]).to_pandas()).__name__)
"""


def _output(code: str, folder: Path) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True
    )
    return found.stdout.splitlines()


def test_a_run_in_this_process_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    lines = '{"insert": {"price": 80.0}, "start": 5, "end": 9}\n{"stable": 8}\n'
    (tmp_path / "bids.jsonl").write_text(lines)
    (tmp_path / "query.sql").write_text(
        "CREATE STREAM Bid (price DOUBLE) SOURCE 'bids.jsonl'; SELECT MAX(price) AS m FROM Bid;"
    )
    assert _output(_RUN, tmp_path) == [""]
    assert '{"insert": {"m": 80.0}' in (tmp_path / "answer.jsonl").read_text()


def test_arrow_knows_pandas_once_a_user_imports_it(tmp_path: Path) -> None:
    assert _output(_PANDAS_LATER, tmp_path) == [
        "dictionary<values=string, indices=int8, ordered=0>",
        "1",
        "Series",
    ]
