"""Who takes part: where each is installed, what it is told, and how its answer is read."""

from __future__ import annotations

import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import run
from typing import Final, final

from anabranch.bench.checkout import ROOT

ENVIRONMENTS: Final = Path("build/peers")
"""Where peers are installed, each in an environment of its own."""

CONSTRAINTS: Final = ROOT / "tests" / "bench" / "peer_jobs" / "constraints.txt"
_DONE: Final = ".installed"

OWN: Final = "anabranch"
CSV: Final = "csv"
_IN_WINDOWS: Final = (
    'SELECT * EXCLUDE (start, "end"), unnest(range((start + 1) // 10000000 - 1, '
    '("end" + 1) // 10000000 - 1)) AS w '
    "FROM read_parquet('{out}/answer.parquet')"
)
"""A result that is the same in several windows is one event: it is read once per window."""

_COLUMNS: Final[Mapping[str, str]] = {
    "tumbling": "'k', 'w', 'n'",
    "join": "'k', 'w', 'l', 'r'",
    "top": "'k', 'w', 'v'",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """An engine.

    Attributes:
        name: What figures call it.
        reads: The format of the files that it reads.
        module: The jobs, in `tests/bench/peer_jobs`.
        answer: A query of DuckDB over what a run wrote to a folder `{out}`.
        packages: What to install; nothing: it runs in our own environment.
        environment: More variables for its process.
    """

    name: str
    module: str
    answer: str
    reads: str = "Parquet"
    packages: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def python(self, root: Path = ENVIRONMENTS) -> Path:
        """Its interpreter."""
        if not self.packages:
            return Path(sys.executable)
        return (root / self.name / "bin" / "python").absolute()

    def answered(self, job: str, out: Path) -> str:
        """The query that reads what it answered."""
        return self.answer.format(out=out, columns=_COLUMNS[job])

    def why_missing(self, *, install: bool, root: Path = ENVIRONMENTS) -> str | None:
        """Why it is not here; None if it is. With `install` it is installed first, if need be."""
        done, wanted = root / self.name / _DONE, CONSTRAINTS.read_text()
        if not self.packages or (done.exists() and done.read_text() == wanted):
            return None
        if not install:
            return f"{self.name} is not installed in {root / self.name}"
        venv.create(root / self.name, with_pip=True, clear=True)
        words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        extra = ["--no-deps"] if self.name == "flink" else ["-c", str(CONSTRAINTS)]
        pins = _pins(wanted)
        named = [f"{name}=={pins[name]}" for name in self.packages]
        made = run(
            [str(self.python(root)), *words, *extra, *named],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            last = (made.stderr.strip().splitlines() or ["without a word"])[-1]
            return f"{self.name} cannot be installed: {last[:200]}"
        done.write_text(wanted)
        return None


def _pins(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.splitlines() if not line.startswith("#"))
    return {name: version for name, _, version in (line.partition("==") for line in lines)}


CONTESTANTS: Final = (
    Contestant(name=OWN, module="own_job", answer=_IN_WINDOWS),
    Contestant(
        name="spark", module="spark_job", answer="FROM read_parquet('{out}/answer/*.parquet')"
    ),
    Contestant(
        name="flink",
        module="flink_job",
        answer="FROM read_csv('{out}/answer/*', header = false, names = [{columns}])",
        reads="CSV",
        # All that SQL jobs need; what Flink needs for functions in Python is left out.
        packages=(
            "apache-flink",
            "apache-flink-libraries",
            "py4j",
            "ruamel-yaml",
            "typing-extensions",
        ),
        environment={
            # As much as Spark has.
            "JAVA_TOOL_OPTIONS": "-Xmx6g",
            "_python_worker_execution_mode": "process",
        },
    ),
    Contestant(
        name="pathway",
        module="pathway_job",
        answer="FROM read_csv('{out}/answer.csv', header = true)",
        reads="CSV",
        packages=("pathway",),
    ),
    Contestant(
        name="bytewax",
        module="bytewax_job",
        answer="FROM read_csv('{out}/answer/*', header = false, names = [{columns}])",
        packages=("bytewax", "pyarrow"),
    ),
)

CONTROL: Final = Contestant(name=CSV, module="own_csv_job", answer=_IN_WINDOWS, reads="CSV")
"""Anabranch over the files of those who read CSV: no contestant, but what the format costs."""


def csv_readers(names: Sequence[str] | None) -> tuple[str, ...]:
    """The peers of these names, or of all, that read CSV.

    >>> csv_readers(None), csv_readers(["spark", "flink"]), csv_readers(["spark"])
    (('flink', 'pathway'), ('flink',), ())
    """
    every = (each.name for each in CONTESTANTS if each.reads == "CSV")
    return tuple(name for name in every if names is None or name in names)
