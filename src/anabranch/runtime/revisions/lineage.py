"""From which input the answers of a query come: one stretch of time per source, for RM.

An answer with the lifetime [s, e) comes from the input that decides the snapshots there (`needed`
of `algebra/analysis/reach.py`): filters and maps hand a lifetime on as it is, windows reach back
from it, joins and aggregates take what each side needs. Answers of one window have one lifetime and
so one lineage, which is written once.

A folder `lineage` of the checkpoint has a file per batch. A number of them become one file, and
files of one size become a larger one, so that there are few of them, and a row is written
about as often as there are sizes. Their names say which batches they cover, and within which
stretch of input all lineages are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.reach import needed
from anabranch.algebra.analysis.spans import NOTHING, Span, hull
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.model.lifetimes import MOST_LIFETIMES
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.state_store import arrow_file

Lifetimes: TypeAlias = Sequence[tuple[int, int]]

FILES_PER_LEVEL: Final = 16
"""So many files of a level become one of the next."""

_SUFFIX: Final = ".arrow"


class Lineage(ABC):
    """The lineage of what a query has answered."""

    @abstractmethod
    def covering(self, source: str, span: Span) -> dict[str, Span]:
        """Per source, the input of all answers that come from a span of one of them."""


def lineage_rows(nodes: Sequence[Node], lifetimes: Sequence[Lifetimes]) -> pa.Table:
    """The lineages of answers, each once: per source the columns `first <name>`, `last <name>`.

    Args:
        nodes: The plan of each output.
        lifetimes: The lifetimes of what each output got.
    """
    names = sorted(
        {each.name for node in nodes for each in node.walk() if isinstance(each, Source)}
    )
    rows: set[tuple[int, ...]] = set()
    for node, own in zip(nodes, lifetimes, strict=True):
        for start, end in _distinct(own):
            spans = needed(node, (Time(start), Time(end)))
            rows.add(tuple(int(one) for name in names for one in spans.get(name, NOTHING)))
    columns = np.array(sorted(rows), np.int64).reshape(len(rows), 2 * len(names)).T
    titles = [title for name in names for title in _titles(name)]
    return pa.table([pa.array(each) for each in columns], titles)


def input_of(table: pa.Table, source: str, span: Span) -> dict[str, Span]:
    """Per source, the hull of all lineages that have an instant of a span of one of them."""
    if not set(_titles(source)) <= set(table.column_names):
        return {}
    first, last = (table.column(title).to_numpy() for title in _titles(source))
    covers = (first < np.int64(span[1])) & (last > np.int64(span[0]))
    found: dict[str, Span] = {}
    for name in _names(table):
        low, high = (table.column(title).to_numpy()[covers] for title in _titles(name))
        there = low < high
        if there.any():
            found[name] = (Time(int(low[there].min())), Time(int(high[there].max())))
    return found


@final
class LineageInMemory(Lineage):
    """That of a query that runs in this process."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """Nothing has been answered."""
        self._nodes = tuple(nodes)
        self._tables: list[pa.Table] = []

    def add(self, lifetimes: Sequence[Lifetimes]) -> None:
        """Note what the outputs got in a batch."""
        rows = lineage_rows(self._nodes, lifetimes)
        if len(rows):
            self._tables.append(rows)

    def covering(self, source: str, span: Span) -> dict[str, Span]:
        """What the noted answers come from."""
        if not self._tables:
            return {}
        self._tables = [_once(pa.concat_tables(self._tables))]
        return input_of(self._tables[0], source, span)


@final
@dataclass(frozen=True, slots=True)
class LineageFile:
    """A file of lineages, and what its name says."""

    name: str
    level: int
    batches: tuple[int, int]
    first: int
    last: int

    @staticmethod
    def parsed(name: str) -> LineageFile | None:
        """What a name says; None where it is that of something else."""
        parts = name.removesuffix(_SUFFIX).split("_")
        if not name.endswith(_SUFFIX) or len(parts) != 5:
            return None
        level, low, high, first, last = map(int, parts)
        return LineageFile(name, level, (low, high), first, last)

    @staticmethod
    def of(level: int, batches: tuple[int, int], table: pa.Table) -> LineageFile:
        """The file for some rows."""
        first, last = _bounds(table)
        name = "_".join(map(str, (level, *batches, first, last))) + _SUFFIX
        return LineageFile(name, level, batches, first, last)


@final
@dataclass(frozen=True, slots=True)
class LineageFolder(Lineage):
    """That of a query with a checkpoint; one process adds to it."""

    folder: Folder
    nodes: tuple[Node, ...]

    def add(self, batch: int, lifetimes: Sequence[Lifetimes]) -> None:
        """Note what the outputs got in a batch; noting it again changes nothing.

        The newest file stays as it is, for its batch may be committed again.
        """
        files = self._files()
        if any(file.level and batch <= file.batches[1] for file in files):
            return
        table = lineage_rows(self.nodes, lifetimes)
        if len(table):
            self._write(LineageFile.of(0, (batch, batch), table), table)
        self._merge([file for file in files if file.batches[1] < batch])

    def covering(self, source: str, span: Span) -> dict[str, Span]:
        """What all noted answers come from."""
        near = [file for file in self._files() if file.first < span[1] and file.last > span[0]]
        found: dict[str, list[Span]] = {}
        for file in near:
            for name, over in input_of(self._read(file), source, span).items():
                found.setdefault(name, []).append(over)
        return {name: hull(spans) for name, spans in found.items()}

    def cut(self, oldest: Mapping[str, Time]) -> None:
        """Remove the lineages whose input is no longer archived."""
        before = min(oldest.values(), default=BEGINNING)
        for file in self._files()[:-1]:
            if file.last <= before:
                self.folder.remove(file.name)

    def _files(self) -> list[LineageFile]:
        """The files that count, by batch: one that was merged into another does not."""
        found = [file for file in map(LineageFile.parsed, self.folder.names()) if file is not None]
        kept: list[LineageFile] = []
        for file in sorted(found, key=lambda file: (file.batches[0], -file.level)):
            if not kept or file.batches[1] > kept[-1].batches[1]:
                kept.append(file)
        return kept

    def _merge(self, files: list[LineageFile]) -> None:
        level = 0
        # One file alone has nothing to be merged with.
        least = max(2, FILES_PER_LEVEL)
        while len(group := [file for file in files if file.level == level]) >= least:
            tables = [self._read(file) for file in group]
            if any(each.schema != tables[0].schema for each in tables):
                # The query has other sources since.
                return
            table = _once(pa.concat_tables(tables))
            batches = (group[0].batches[0], group[-1].batches[1])
            made = LineageFile.of(level + 1, batches, table)
            self._write(made, table)
            for file in group:
                self.folder.remove(file.name)
            files = [*(file for file in files if file.level > level), made]
            level += 1

    def _read(self, file: LineageFile) -> pa.Table:
        data = self.folder.read(file.name)
        assert data is not None, f"{self.folder.path}/{file.name}: only this process removes it"
        return pa.ipc.open_file(pa.py_buffer(data)).read_all()

    def _write(self, file: LineageFile, table: pa.Table) -> None:
        (rows,) = table.combine_chunks().to_batches()
        self.folder.write(file.name, arrow_file(rows))


def _distinct(lifetimes: Lifetimes) -> list[tuple[int, int]]:
    """Each once; neighbours as one where there are too many, as several shards told of them."""
    found = sorted({(start, end) for start, end in lifetimes if start < end})
    if len(found) <= MOST_LIFETIMES:
        return found
    group = -(-len(found) // MOST_LIFETIMES)
    parts = [found[at : at + group] for at in range(0, len(found), group)]
    return [(part[0][0], max(end for _, end in part)) for part in parts]


def _titles(source: str) -> tuple[str, str]:
    return f"first {source}", f"last {source}"


def _names(table: pa.Table) -> list[str]:
    titles: Iterable[str] = table.column_names
    return [title.removeprefix("first ") for title in titles if title.startswith("first ")]


def _bounds(table: pa.Table) -> tuple[int, int]:
    """The least and the greatest instant of all lineages."""
    low, high = int(FOREVER), int(BEGINNING)
    for name in _names(table):
        first, last = (table.column(title).to_numpy() for title in _titles(name))
        there = first < last
        low = min(low, int(first[there].min(initial=FOREVER)))
        high = max(high, int(last[there].max(initial=BEGINNING)))
    return low, high


def _once(table: pa.Table) -> pa.Table:
    """Each lineage once."""
    return table.group_by(table.column_names, use_threads=False).aggregate([])
