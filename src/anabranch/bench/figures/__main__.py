"""Writes the page with all figures: `python -m anabranch.bench.figures RESULTS COMMIT > PAGE`.

Where a result is of another commit than `COMMIT`, a file `<bench>.commit` beside it says of which.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from anabranch.bench.figures.targets import TARGETS, shown_figure, target_rows
from anabranch.bench.names import ABOUT
from anabranch.runtime.spark.java import JavaMissingError, choose_java

_HEAD = """\
# All figures

Every benchmark in its full form, one after the other; `make figures` writes this page. What the
figures mean is told in [Benchmarks](../howto/benchmarks.md). Compare ratios, not absolute values:
those depend on the machine.

- {commits}
- machine: {machine}
"""

_TABLE = """\
| benchmark | figure | target | here | reached | commit |
| --- | --- | --- | --- | --- | --- |"""

_OTHERS = """
## Figures without a target

| benchmark | figure | here | commit |
| --- | --- | --- | --- |"""


def read_figures(folder: Path) -> dict[str, dict[str, float]]:
    """The figures of all results in a folder, by benchmark, in the order of the targets."""
    found: dict[str, dict[str, float]] = {}
    for file in folder.glob("*.json"):
        for line in file.read_text(encoding="utf-8").splitlines():
            said = json.loads(line)
            if "figures" in said:
                found[said["bench"]] = said["figures"]
    order = [*TARGETS, *sorted(set(found) - set(TARGETS))]
    return {name: found[name] for name in order if name in found}


def read_commits(folder: Path) -> dict[str, str]:
    """The commits of those results that say theirs, by benchmark."""
    return {file.stem: file.read_text(encoding="utf-8").strip() for file in folder.glob("*.commit")}


def page_of(
    figures: Mapping[str, Mapping[str, float]], commit: str, others: Mapping[str, str] | None = None
) -> str:
    """The page in Markdown; `others` are the commits of benchmarks that ran on another one."""
    ran_on = {name: (others or {}).get(name, commit) for name in figures}
    return "\n".join(_lines(figures, commit, ran_on)) + "\n"


def _lines(
    figures: Mapping[str, Mapping[str, float]], commit: str, ran_on: Mapping[str, str]
) -> Iterator[str]:
    one = set(ran_on.values()) <= {commit}
    commits = f"commit: `{commit}`" if one else "several commits: each row names that of its figure"
    yield _HEAD.format(commits=commits, machine=_machine())
    yield _TABLE
    for bench in TARGETS:
        own = figures.get(bench, {})
        for name, row in zip(TARGETS[bench], target_rows(bench, own), strict=True):
            yield f"| {bench} {row} {f'`{ran_on[bench]}`' if name in own else '-'} |"
    missing = [name for name in ABOUT if name not in figures]
    if missing:
        yield f"\nNot measured in this run: {', '.join(missing)}."
    yield _OTHERS
    for bench, own in figures.items():
        for name, value in own.items():
            if name not in TARGETS.get(bench, {}):
                yield f"| {bench} | `{name}` | {shown_figure(value)} | `{ran_on[bench]}` |"


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    python, spark = platform.python_version(), version("pyspark")
    return (
        f"{os.cpu_count()} cores ({processor_model()}), {memory} GiB, "
        f"{platform.system()} on {platform.machine()}; "
        f"{_java()}, Python {python}, PySpark {spark}"
    )


def _java() -> str:
    """As `anabranch --version` tells it, without the folder."""
    try:
        return choose_java().name
    except JavaMissingError as missing:
        return missing.what


def processor_model(about: Path = Path("/proc/cpuinfo")) -> str:
    """The model of the processor, as Linux tells it; elsewhere what Python knows."""
    if about.is_file():
        for line in about.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or "processor unknown"


if __name__ == "__main__":
    results = Path(sys.argv[1])
    sys.stdout.write(page_of(read_figures(results), sys.argv[2], read_commits(results)))
