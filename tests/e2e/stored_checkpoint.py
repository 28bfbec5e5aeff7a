"""The queries of the stored checkpoints, their input and answers: `python it.py` makes what lacks.

The files in tests/data were made by the versions that brought them, and every later one has to
resume them. They are made anew only when that is given up on purpose: with a new version of a state
format that cannot be read from the old one. An operator that comes later gets a query in `LATER`
and a file of its own, made by the version that brings it.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa

import anabranch as ab
from anabranch.model.time import FOREVER
from anabranch.testing import meaning

DATA: Final = Path(__file__).parent.parent / "data"
INPUT: Final = DATA / "checkpoint_input.json"
ANSWERS: Final = DATA / "checkpoint_answers.json"

SCHEMA: Final = pa.schema([("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())])
SOURCES: Final = ("changes", "other", "one", "two", "points")
BEFORE: Final = 2
"""So many of the files of each source were read when the checkpoint was made."""

FIRST: Final = "checkpoint"
"""The job of all queries that were there when checkpoints were first stored."""

LATER: Final = ("ranks",)
"""Jobs of one query each, for operators that came later; also the names of their checkpoints."""

FOLDER: Final = "{folder}"
"""Stands for the folder in what is stored: checkpoints have absolute paths of what they read."""

Lines = list[dict[str, Any]]
Event = tuple[tuple[Any, ...], int, int]


@ab.uda(name="spread")
class Spread:
    """The least and the largest value of a window, and how many there are, from a state."""

    def initial(self) -> dict[int, int]:
        return {}

    def add(self, state: dict[int, int], v: int) -> dict[int, int]:
        return {**state, v: state.get(v, 0) + 1}

    def remove(self, state: dict[int, int], v: int) -> dict[int, int]:
        return {value: count for value, count in {**state, v: state[v] - 1}.items() if count}

    def compute(self, state: dict[int, int]) -> str:
        return f"{min(state)} to {max(state)}, {sum(state.values())} rows" if state else "none"


def corrected(chance: Random, files: int) -> Iterator[Lines]:
    """Elements with corrections of what is not settled yet, file by file.

    Some events have no end when the query stops, and get one when it resumes.
    """
    ends: dict[tuple[str, int, float, int], int] = {}
    stable = 0
    for number in range(1, files + 1):
        lines: Lines = []
        lengths = [1, 4, 12, 30, *([int(FOREVER)] * 3 if number <= BEFORE else [])]
        for _ in range(9):
            start = chance.randrange(stable, stable + 15)
            row = (chance.choice("abc"), chance.randrange(6), chance.randrange(-40, 90) / 7, start)
            if row not in ends:
                ends[row] = min(start + chance.choice(lengths), int(FOREVER))
                lines.append({"insert": _payload(row), "start": start, "end": ends[row]})
        endless = [row for row, end in ends.items() if end == FOREVER and number > BEFORE]
        for row in dict.fromkeys([*endless, *chance.sample(sorted(ends), 4)]):
            if ends[row] > stable:
                latest = min(ends[row], stable + 30) + 6
                end = chance.randrange(max(row[3], stable), latest)
                lines.append(
                    {
                        "adjust": _payload(row),
                        "start": row[3],
                        "end": ends[row],
                        "new_end": end,
                    }
                )
                ends[row] = end
                if end == row[3]:
                    del ends[row]
        stable = number * 10
        lines.append({"stable": stable})
        yield lines


def _payload(row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(SCHEMA.names, row))


def copies(chance: Random, files: int) -> Iterator[tuple[Lines, Lines]]:
    """One stream, told in two ways: the second copy is wrong about ends at first, and late."""
    waiting: Lines = []
    for number in range(1, files + 1):
        one: Lines = []
        two: Lines = []
        for _ in range(6):
            start = chance.randrange((number - 1) * 10, number * 10)
            row = (chance.choice("abc"), chance.randrange(60), chance.randrange(-40, 90) / 7)
            end = number * 10 + chance.randrange(1, 20)
            one.append({"insert": _payload(row), "start": start, "end": end})
            waiting.append({"insert": _payload(row), "start": start, "end": end + 3})
            waiting.append(
                {"adjust": _payload(row), "start": start, "end": end + 3, "new_end": end}
            )
        one.append({"stable": number * 10})
        if number > 1:
            two, waiting = [*waiting, {"stable": number * 10}], []
        yield one, two


def drawn_points(chance: Random, files: int) -> Iterator[Lines]:
    """Rows out of order, at most sixteen behind the latest."""
    for number in range(files):
        yield [
            {
                "k": chance.choice("abc"),
                "v": chance.randrange(6),
                "x": chance.randrange(-40, 90) / 7,
                "t": number * 12 + place + chance.randrange(0, 4),
            }
            for place in chance.sample(range(12), 9)
        ]


def draw_input(files: int = 4) -> dict[str, list[Lines]]:
    """The files of every source."""
    chance = Random(16)
    both = list(copies(chance, files))
    return {
        "changes": list(corrected(chance, files)),
        "other": list(corrected(chance, files)),
        "one": [one for one, _ in both],
        "two": [two for _, two in both],
        "points": list(drawn_points(chance, files)),
    }


def write_input(folder: Path, given: Mapping[str, list[Lines]], files: slice) -> None:
    """Some of the files of every source; no file, where there is nothing in it."""
    for name, every in given.items():
        (folder / "in" / name).mkdir(parents=True, exist_ok=True)
        for number, lines in list(enumerate(every))[files]:
            if lines:
                text = "".join(json.dumps(line) + "\n" for line in lines)
                (folder / "in" / name / f"{number}.jsonl").write_text(text)


def source(engine: ab.Engine, folder: Path, name: str, ends: bool, **options: Any) -> ab.Stream:
    """One of the sources; it ends with its files, or goes on."""
    found = engine.stream(
        folder / "in" / name,
        **{"name": name, "schema": SCHEMA, "ends": ends, "max_files_per_batch": 1, **options},
    )
    assert isinstance(found, ab.Stream)
    return found


def queries(engine: ab.Engine, folder: Path, *, ends: bool) -> dict[str, ab.Stream]:
    """A query for every operator with state of the first job."""

    def stream(name: str, **options: Any) -> ab.Stream:
        return source(engine, folder, name, ends, **options)

    changes, other = stream("changes"), stream("other")
    points = stream("points", start="t", delay=16, hide_times=True)
    renamed = other.select(j="k", w="v", y="x")
    return {
        "sums": changes.window(8).group_by("k").agg(n="COUNT(*)", s="SUM(x)", a="AVG(x)"),
        "extremes": changes.group_by("k").agg(least="MIN(x)", most="MAX(v)"),
        "medians": changes.group_by("k").agg(m="MEDIAN(x)", d="COUNT(DISTINCT v)"),
        "pairs": changes.join(renamed, on="k = j AND v <= w"),
        "kept": changes.join(renamed, on="k = j AND v = w", how="left"),
        "best": changes.top(2, "x DESC", by="k"),
        "last_rows": points.rows_window(3, by="k", order_by=("v", "x")),
        "sessions": points.session_window(3, by="k").group_by("k").agg(n="COUNT(*)", s="SUM(x)"),
        "once": changes.select("k", "v").distinct(),
        "without": changes.select("k", "v").difference(other.select("k", "v")),
        "merged": stream("one").merge(stream("two")),
        "asked": points.hopping(20, 10, by="k", open_windows=True).apply(Spread, "v", name="said"),
        "begun": changes.select("k", "v").istream(),
        "signed": changes.select("k", "v").to_signed().from_signed(),
        "longer": changes.select("k").lifetime(extend=4),
        "pieces": changes.split(6),
        "settled": other.cleanse(cut=False),
    }


def later_queries(engine: ab.Engine, folder: Path, *, ends: bool) -> dict[str, ab.Stream]:
    """The queries of `LATER`."""
    changes = source(engine, folder, "changes", ends, replace=True)
    return {
        "ranks": changes.rank(
            "x DESC", by="k", n="ROW_NUMBER()", r="RANK()", before="LAG(v)", after="LEAD(v)"
        )
    }


def every_query(engine: ab.Engine, folder: Path, *, ends: bool) -> dict[str, ab.Stream]:
    """What is asked, by the name of the log that has the answers."""
    first = queries(engine, folder, ends=ends)
    return {**first, "final": first["sums"], **later_queries(engine, folder, ends=ends)}


def run(engine: ab.Engine, folder: Path, *, ends: bool) -> None:
    """Read what is there, from where the first checkpoint is on."""
    wanted = queries(engine, folder, ends=ends)
    runs = engine.start_all(
        list(wanted.values()),
        [folder / "out" / name for name in wanted],
        checkpoint=folder / FIRST,
        available_now=True,
        allow_unbounded=True,
    )
    for each in runs:
        each.await_end()
    last = wanted["sums"].start(
        folder / "out" / "final",
        checkpoint=folder / "final",
        emit="final",
        available_now=True,
    )
    last.await_end()


def run_later(engine: ab.Engine, folder: Path, names: Sequence[str], *, ends: bool) -> None:
    """The same for some of `LATER`."""
    for name, query in later_queries(engine, folder, ends=ends).items():
        if name in names:
            started = query.start(
                folder / "out" / name, checkpoint=folder / name, available_now=True
            )
            started.await_end()


def told(given: Sequence[Lines]) -> ab.LogicalStream:
    """What the elements of a stream mean; rows with a time are points."""
    ends: dict[tuple[Any, ...], list[int]] = {}
    for line in (line for lines in given for line in lines):
        if "stable" in line:
            continue
        if "t" in line:
            row = (*(line[name] for name in SCHEMA.names), line["t"])
            ends.setdefault(row, []).append(line["t"] + 1)
            continue
        said: dict[str, Any] = line["adjust"] if "adjust" in line else line["insert"]
        row = (*said.values(), line["start"])
        if "adjust" in line:
            ends[row].remove(line["end"])
        ends.setdefault(row, []).append(line["new_end" if "adjust" in line else "end"])
    return ab.LogicalStream.of(
        (row[:-1], row[-1], end) for row, some in ends.items() for end in some if end > row[-1]
    )


def answers(wanted: Mapping[str, ab.Stream], given: Mapping[str, list[Lines]]) -> dict[str, Any]:
    """What every query means over the whole input, by the specification alone."""
    streams = {name: told(every) for name, every in given.items()}
    return {name: shown(meaning(query.node, streams)) for name, query in wanted.items()}


def shown(stream: ab.LogicalStream) -> list[list[Any]]:
    """The longest lifetimes of a stream, in order."""
    found = [[list(payload), int(start), int(end)] for payload, start, end in stream.events()]
    return sorted(found, key=json.dumps)


def _write(path: Path, content: Mapping[str, Sequence[Any]]) -> None:
    """One line for each line of a file, or each row of an answer."""
    parts = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(each) for each in some) + "\n]"
        for name, some in content.items()
    ]
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def stored(name: str) -> Path:
    """The file that has a job's checkpoint and output."""
    return DATA / (f"{name}.tar.xz" if name == FIRST else f"{FIRST}_{name}.tar.xz")


def store(folder: Path, name: str) -> None:
    """Put what a job wrote into one file, without the folder that it was in."""
    with tarfile.open(stored(name), "w:xz", preset=9) as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            path = file.relative_to(folder)
            if path.parts[0] != "in" and file.suffix != ".pickle" and file.name != "lock":
                data = _moved(file.read_bytes(), str(folder), FOLDER)
                about = tarfile.TarInfo(str(path))
                about.size = len(data)
                archive.addfile(about, io.BytesIO(data))


def restore(folder: Path) -> None:
    """All stored checkpoints with their outputs, as if they had been made in a folder."""
    for name in (FIRST, *LATER):
        with tarfile.open(stored(name)) as archive:
            archive.extractall(folder, filter="data")
    for file in folder.rglob("*.json"):
        file.write_bytes(_moved(file.read_bytes(), FOLDER, str(folder)))


def _moved(data: bytes, old: str, new: str) -> bytes:
    """A file with another folder in it; the checksum in its second line, if any, is that of it."""
    if old.encode() not in data:
        return data
    first, *sealed = data.replace(old.encode(), new.encode()).split(b"\n")
    return b"%s\n%08x" % (first, zlib.crc32(first)) if sealed else first


def make() -> None:
    """Begin the jobs of which nothing is stored, and store where they stopped."""
    given = draw_input()
    DATA.mkdir(exist_ok=True)
    for name in (FIRST, *LATER):
        if stored(name).exists():
            continue
        with tempfile.TemporaryDirectory() as folder, ab.Engine(shards=2, versions=2) as engine:
            write_input(Path(folder), given, slice(None, BEFORE))
            if name == FIRST:
                run(engine, Path(folder), ends=False)
            else:
                run_later(engine, Path(folder), [name], ends=False)
            store(Path(folder), name)
    with tempfile.TemporaryDirectory() as folder:
        write_input(Path(folder), given, slice(None))
        wanted = every_query(ab.Engine(), Path(folder), ends=False)
        _write(INPUT, given)
        _write(ANSWERS, answers(wanted, given))


if __name__ == "__main__":
    make()
