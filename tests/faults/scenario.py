"""A query with its input and its right answer, all out of one number."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from anabranch import FOREVER, Engine, LogicalStream, Stream, read_batches, write_stream
from anabranch.algebra.node import Node
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.testing import meaning

Random: TypeAlias = np.random.Generator
Shape: TypeAlias = Callable[[Stream, Stream, Random], Stream]

FILES: Final = 14
ROWS: Final = 25
B: Final = pa.schema([("k", pa.int64()), ("w", pa.int64())])


def _aggregate(a: Stream, b: Stream, random: Random) -> Stream:
    held = a.window(int(random.integers(5, 60)), slide=int(random.integers(1, 10)))
    return held.group_by("k").agg(n="COUNT(*)", top="MAX(v)", total="SUM(v)")


def _two_stages(a: Stream, b: Stream, random: Random) -> Stream:
    counts = a.window(int(random.integers(10, 40))).group_by("k").agg(n="COUNT(*)")
    return counts.group_by("n").agg(keys="COUNT(*)", most="MAX(k)")


def _join(a: Stream, b: Stream, random: Random) -> Stream:
    held = a.window(int(random.integers(2, 20)))
    return held.join(b, ["k"])


def _self_join(a: Stream, b: Stream, random: Random) -> Stream:
    low = b.where("w < 50")
    return low.join(b, ["k"])


def _difference(a: Stream, b: Stream, random: Random) -> Stream:
    return a.window(int(random.integers(3, 30))).select("k").difference(b.select("k"))


def _distinct(a: Stream, b: Stream, random: Random) -> Stream:
    wide = a.window(int(random.integers(3, 30))).select("k").union(b.select("k"))
    return wide.distinct()


def _top(a: Stream, b: Stream, random: Random) -> Stream:
    return b.top(int(random.integers(1, 4)), "w DESC", by="k")


def _last_rows(a: Stream, b: Stream, random: Random) -> Stream:
    rows = a.rows_window(int(random.integers(1, 5)), by="k", order_by="v")
    return rows.group_by("k").agg(n="COUNT(*)", last="MAX(v)")


def _outer(a: Stream, b: Stream, random: Random) -> Stream:
    held = a.window(int(random.integers(2, 12)))
    return b.join(held, ["k"], how="left")


def _anything(a: Stream, b: Stream, random: Random) -> Stream:
    """A few operators above each other, whichever come."""

    def steps(found: Stream, most: int) -> Stream:
        for _ in range(int(random.integers(1, most + 1))):
            found = _ANY[int(random.integers(len(_ANY)))](found, b, random)
        return found

    found = steps(_keys(a.window(int(random.integers(2, 30))), random), 3)
    if random.integers(2):
        found = _BOTH[int(random.integers(len(_BOTH)))](found, steps(_keys(b, random), 2))
    return steps(found, 1)


def _keys(stream: Stream, random: Random) -> Stream:
    return stream.select("k", x="v" if "v" in stream.schema.names else "w")


_ANY: Final[Sequence[Shape]] = (
    lambda s, b, random: s.where(f"x % 7 <> {random.integers(7)}"),
    lambda s, b, random: s.select(k="x % 5", x="k"),
    lambda s, b, random: s.distinct(),
    lambda s, b, random: s.group_by("k").agg(x="COUNT(*)"),
    lambda s, b, random: s.group_by("k").agg(x="MAX(x)"),
    lambda s, b, random: s.top(int(random.integers(1, 4)), "x DESC", by="k"),
    lambda s, b, random: s.join(b, ["k"], how="semi"),
    lambda s, b, random: s.join(b.where("w > 60"), ["k"], how="anti"),
)
_BOTH: Final[Sequence[Callable[[Stream, Stream], Stream]]] = (
    Stream.union,
    Stream.difference,
    Stream.intersection,
    lambda s, other: s.join(other.select("k", y="x"), ["k"]).select("k", x="x + y"),
)

SHAPES: Final[Mapping[str, Shape]] = {
    "aggregate": _aggregate,
    "two stages": _two_stages,
    "join": _join,
    "self-join": _self_join,
    "difference": _difference,
    "distinct": _distinct,
    "top": _top,
    "last rows": _last_rows,
    "outer join": _outer,
    "anything": _anything,
    "anything else": _anything,
    "whatever": _anything,
}
OUTPUTS: Final = ("log", "file", "delta")


@final
@dataclass(frozen=True, slots=True)
class Scenario:
    """What a number stands for: which query, over which rows, written to what.

    `waits`: whether it waits for more when all is done, until it is stopped. `revised`: whether
    rows of `a` come too late, and are revisions. `changes`: whether its queries become others of
    the same shape while they run, as soon as some batches are done. `plain_jobs`: whether batches
    in tasks are plain jobs of Spark, where one process does all of them.
    """

    seed: int
    shape: str
    output: str
    waits: bool
    revised: bool = False
    changes: bool = False
    plain_jobs: bool = True

    @staticmethod
    def drawn(seed: int) -> Scenario:
        """The scenario of a number."""
        random = np.random.default_rng(seed)
        return Scenario(
            seed,
            list(SHAPES)[int(random.integers(len(SHAPES)))],
            OUTPUTS[int(random.integers(len(OUTPUTS)))],
            bool(random.integers(2)),
            bool(random.integers(2)),
            bool(random.integers(2)),
            bool(random.integers(2)),
        )

    @staticmethod
    def read(folder: Path) -> Scenario:
        """The scenario that was written down in a folder."""
        return Scenario(**json.loads((folder / "scenario.json").read_text()))

    def write(self, folder: Path) -> None:
        """Write the scenario down, and its input."""
        for name in ("a", "b", "out"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "scenario.json").write_text(json.dumps(asdict(self)))
        for number, rows in enumerate(self._a()):
            pq.write_table(rows, folder / "a" / f"{number:03}.parquet")
        for number, batch in enumerate(self._b()):
            write_stream(folder / "b" / f"{number:03}.jsonl", [batch])

    @property
    def changed_after(self) -> int:
        """So many batches are done before the queries change."""
        return 1 + self.seed % (FILES // 2)

    def queries(self, engine: Engine, folder: Path, *, changed: bool = False) -> list[Stream]:
        """The queries over the input in a folder: often one, else two that run together.

        With `changed` those that they become.

        No source is silent for an hour, whatever clocks say.
        """
        a = engine.stream(
            folder / "a",
            name="a",
            start="t",
            delay=5 if self.revised else 30,
            late="revise" if self.revised else "fail",
            heartbeat="1 hour" if self.waits else None,
            chronon="1 second",
            ends=True,
            max_files_per_batch=1,
            replace=True,
        )
        b = engine.stream(
            folder / "b",
            name="b",
            schema=B,
            chronon="1 second",
            max_files_per_batch=1,
            replace=True,
        )
        random = np.random.default_rng(self.seed + 1)
        first = SHAPES[self.shape](a, b, random)
        is_alone, reads_first = bool(random.integers(3)), bool(random.integers(2))
        if changed:
            random = np.random.default_rng(self.seed + 5)
            first = SHAPES[self.shape](a, b, random)
        if is_alone:
            return [first]
        # One that reads the first, or one that has little to do with it.
        second = first.distinct() if reads_first else _distinct(a, b, random)
        return [first, second]

    def to(self, folder: Path, number: int = 0) -> str:
        """Where the results of a query go."""
        out = folder / "out" / str(number)
        places = {"log": f"{out}/log", "file": f"{out}/s.jsonl", "delta": f"delta:{out}/t#history"}
        return places[self.output]

    def result(self, folder: Path, number: int, schema: pa.Schema) -> LogicalStream:
        """What is there."""
        out = folder / "out" / str(number)
        if self.output == "log":
            return LogicalStream.of_batches(LogFolder(f"{out}/log").read())
        if self.output == "file":
            return LogicalStream.of_batches(read_batches(out / "s.jsonl", schema))
        rows = DeltaTable(f"{out}/t").to_pyarrow_table().to_pylist()
        # What was believed before a revision is there, too.
        rows = [row for row in rows if row.get("known_until") is None]
        return LogicalStream.of(
            (
                tuple(row[name] for name in schema.names),
                row["valid_from"],
                FOREVER if row["valid_to"] is None else row["valid_to"],
            )
            for row in rows
            for _ in range(row["copies"])
        )

    def corrections(self, number: int) -> list[dict[str, Any]]:
        """What is handed in for `a`, by how often it was: a row that was missing, two wrong ones.

        They name rows of the first file by what no other row has.
        """
        first = self._a()[0].to_pylist()
        wrong, other = first[2 * number], first[2 * number + 1]
        return [
            {"insert": {"k": number % 6, "v": 20_000 + number}, "start": 3 * number},
            {"delete": {"v": wrong["v"]}, "start": wrong["t"]},
            {
                "replace": {"v": other["v"]},
                "with": {"v": 30_000 + number},
                "start": other["t"],
            },
        ]

    def answer(self, node: Node, corrected: int = 0) -> LogicalStream:
        """What has to be there, by the meaning of a query, after so many corrections."""
        every = [row for each in self._a() for row in each.to_pylist()]
        for number in range(corrected):
            first = self._a()[0].to_pylist()
            wrong, other = first[2 * number], first[2 * number + 1]
            every.remove(wrong)
            every[every.index(other)] = {**other, "v": 30_000 + number}
            every.append({"k": number % 6, "v": 20_000 + number, "t": 3 * number})
        points = [((row["k"], row["v"], row["t"]), row["t"], row["t"] + 1) for row in every]
        given = {"a": LogicalStream.of(points), "b": LogicalStream.of_batches(self._b())}
        return meaning(node, given)

    def _a(self) -> list[pa.Table]:
        """Rows out of order, none of them later than 30 behind the latest."""
        random = np.random.default_rng(self.seed + 2)
        return [
            pa.table(
                {
                    "k": random.integers(0, 6, ROWS),
                    "v": random.permutation(10_000)[:ROWS],
                    "t": number * 10 + random.integers(-15, 10, ROWS),
                }
            )
            for number in range(FILES)
        ]

    def _b(self) -> list[EventBatch]:
        """Events that are adjusted and withdrawn, as long as that is promised to be possible."""
        random = np.random.default_rng(self.seed + 3)
        live: list[tuple[dict[str, Any], int, int]] = []
        batches = []
        stable = -10
        for number in range(FILES):
            elements: list[Element] = []
            for _ in range(ROWS // 2):
                start = stable + int(random.integers(0, 20))
                end = start + int(random.integers(1, 40))
                payload = {"k": int(random.integers(0, 6)), "w": int(random.integers(0, 100))}
                elements.append(Insert(payload, start, end))
                live.append((payload, start, end))
            for _ in range(ROWS // 4):
                payload, start, end = live.pop(int(random.integers(len(live))))
                if end < stable:
                    continue
                new_end = max(start, stable) + int(random.integers(0, 20))
                if new_end == end:
                    new_end += 1
                elements.append(Adjust(payload, start, end, new_end))
                if new_end > start:
                    live.append((payload, start, new_end))
            stable = int(FOREVER) if number + 1 == FILES else number * 10
            elements.append(Stable(stable))
            batches.append(batch_of(elements, B))
        return batches
