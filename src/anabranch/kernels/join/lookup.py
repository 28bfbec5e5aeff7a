"""Join with a table that never changes: every row looks up its partners by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final, TypeAlias, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from anabranch.algebra.analysis.join_keys import JoinKeys
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression, evaluate_all
from anabranch.kernels.columns.grouped import Ids, Ints
from anabranch.kernels.contract.kernel import Stateless
from anabranch.kernels.contract.keys import key_checks, key_ids, needs_check
from anabranch.model.batch import EventBatch, no_rows, take_rows
from anabranch.model.identity import Identity
from anabranch.model.time import Time

_STREAM_SIDES: Final = {"inner": (0, 1), "left": (0,), "semi": (0,), "anti": (0,), "right": (1,)}
"""On which sides of a join a stream may be where the other side is a table."""

Keys: TypeAlias = tuple[Expression, ...]


@final
@dataclass(frozen=True, slots=True)
class LookupKernel(Stateless):
    """The table holds always, so a pair lives as long as its row of the stream.

    There is nothing to remember and nothing to exchange. `side` is that of the stream, `relation`
    the leaf of the other one, and `path` the file with the table's rows.
    """

    identity: ClassVar[Identity] = Identity(
        "LookupKernel",
        ("node", "side", "relation"),
        ignored={"keys": "derived from the node", "path": "where the rows of the table are"},
    )

    node: Join
    keys: JoinKeys
    side: int
    relation: Source
    path: str = field(default="", compare=False, repr=False)

    @staticmethod
    def of(node: Join, tables: frozenset[str]) -> LookupKernel | None:
        """The kernel of a join, if it is one of a stream and one of these tables, by a key."""
        for side in _STREAM_SIDES.get(node.kind, ()):
            leaf = _leaf(node.inputs[1 - side])
            if leaf is not None and leaf.always and leaf.name in tables:
                keys = JoinKeys.of(node)
                return LookupKernel(node, keys, side, leaf) if keys.left else None
        return None

    @property
    def label(self) -> str:
        """The node's, and where partners are found."""
        return f"{self.node.label} [looked up in {self.relation.name}]"

    @property
    def schema(self) -> pa.Schema:
        """That of the join."""
        return self.node.schema

    def interest(self, end: Time, side: int = 0) -> Time:
        """Lifetimes stay as they are."""
        del side
        return end

    def apply(self, batch: EventBatch) -> EventBatch:
        """The same moves of all pairs; of rows without a partner, what the kind of join says."""
        assert self.path, f"the files of {self.relation.name} are not known"
        table = _table(self, self.path)
        mine, theirs = table.partners(self.own_keys(self.side), batch.payload, len(batch))
        if self.keys.rest is not None and len(mine):
            mine, theirs = self._tested(table, batch, mine, theirs)
        if self.node.kind in ("semi", "anti"):
            found = np.zeros(len(batch), np.bool_)
            found[mine] = True
            return batch.where(found if self.node.kind == "semi" else ~found)
        if self.node.kind == "inner":
            return self._pairs(table, batch, mine, pa.array(theirs))
        alone = np.ones(len(batch), np.bool_)
        alone[mine] = False
        single = np.flatnonzero(alone)
        positions = np.concatenate([theirs, np.zeros(len(single), np.int64)])
        padded = pa.array(positions, mask=np.arange(len(positions)) >= len(theirs))
        return self._pairs(table, batch, np.concatenate([mine, single]), padded)

    def own_keys(self, side: int) -> Keys:
        """What must be equal, over the columns of a side."""
        return (self.keys.left, self.keys.right)[side]

    def _pairs(
        self, table: LookupTable, batch: EventBatch, mine: Ints, theirs: pa.Array
    ) -> EventBatch:
        stream = batch if _is_all(mine, len(batch)) else batch.take(mine)
        sides = [stream.payload.columns, [column.take(theirs) for column in table.rows.columns]]
        if self.side == 1:
            sides.reverse()
        payload = pa.RecordBatch.from_arrays([*sides[0], *sides[1]], schema=self.schema)
        return stream.with_payload(payload)

    def _tested(
        self, table: LookupTable, batch: EventBatch, mine: Ints, theirs: Ints
    ) -> tuple[Ints, Ints]:
        assert self.keys.rest is not None
        sides = [take_rows(batch.payload, mine).columns, take_rows(table.rows, theirs).columns]
        if self.side == 1:
            sides.reverse()
        both = pa.RecordBatch.from_arrays([*sides[0], *sides[1]], schema=self.node.both)
        keep = self.keys.rest.evaluate(both, len(mine)).fill_null(False)
        kept = np.flatnonzero(keep.to_numpy(zero_copy_only=False))
        return mine[kept], theirs[kept]


@final
@dataclass(frozen=True, slots=True, eq=False)
class LookupTable:
    """The rows of a table by key.

    Attributes:
        rows: The rows, those of one key behind each other.
        ids: The keys that there are, once each.
        first: For each of them the position of its first row.
        count: How many rows it has.
        check: A second hash of each row's key, where one could hide two keys.
    """

    rows: pa.RecordBatch
    ids: pa.Array
    first: Ints
    count: Ints
    check: Ids | None

    @staticmethod
    def of(rows: pa.RecordBatch, keys: Keys) -> LookupTable:
        """Index some rows; those whose key is NULL have no partner."""
        ids, check, joins = _hashed(keys, rows, rows.num_rows)
        order = np.flatnonzero(joins)[np.argsort(ids[joins], kind="stable")]
        found, first, count = np.unique(ids[order], return_index=True, return_counts=True)
        return LookupTable(
            rows=take_rows(rows, order),
            ids=pa.array(found),
            first=first.astype(np.int64),
            count=count.astype(np.int64),
            check=None if check is None else check[order],
        )

    def partners(self, keys: Keys, payload: pa.RecordBatch, length: int) -> tuple[Ints, Ints]:
        """Pairs of positions: of a row of the stream, and of a row of the table with its key."""
        ids, check, joins = _hashed(keys, payload, length)
        slot = pc.index_in(pa.array(ids), value_set=self.ids)
        found = slot.is_valid().to_numpy(zero_copy_only=False) & joins
        mine = np.flatnonzero(found)
        at = slot.fill_null(0).to_numpy()[mine].astype(np.int64)
        if len(self.count) and int(self.count.max()) > 1:
            count = self.count[at]
            before = np.cumsum(count) - count
            theirs = np.repeat(self.first[at] - before, count) + np.arange(int(count.sum()))
            mine = np.repeat(mine, count)
        else:
            theirs = self.first[at]
        if check is not None and self.check is not None:
            same = check[mine] == self.check[theirs]
            mine, theirs = mine[same], theirs[same]
        return mine, theirs


def _hashed(keys: Keys, rows: pa.RecordBatch, length: int) -> tuple[Ids, Ids | None, np.ndarray]:
    """Of each row the hash of its key, a second one if needed, and whether it has one at all."""
    parts = evaluate_all(keys, rows, length)
    joins = np.ones(length, np.bool_)
    for part in parts:
        if part.null_count:
            joins &= part.is_valid().to_numpy(zero_copy_only=False)
    checked = needs_check([part.type for part in parts])
    return key_ids(parts, length), key_checks(parts, length) if checked else None, joins


@lru_cache(maxsize=32)
def _table(kernel: LookupKernel, path: str) -> LookupTable:
    """The table of a kernel; a process reads it once. Its path identifies its content."""
    with _opened(path) as file:
        whole = pa.ipc.open_file(file).read_all().combine_chunks()
    (rows,) = whole.to_batches() or [no_rows(kernel.relation.schema)]
    side = 1 - kernel.side
    return LookupTable.of(_applied(kernel.node.inputs[side], rows), kernel.own_keys(side))


def _opened(uri: str) -> pa.NativeFile:
    if "://" not in uri:
        return pa.memory_map(uri)
    system, path = pafs.FileSystem.from_uri(uri)
    return system.open_input_file(path)


def _leaf(node: Node) -> Source | None:
    """The source below filters and projections, if there is nothing else."""
    while isinstance(node, Filter | Map):
        node = node.input
    return node if isinstance(node, Source) else None


def _applied(node: Node, rows: pa.RecordBatch) -> pa.RecordBatch:
    """What filters and projections make of the rows of their source."""
    if isinstance(node, Source):
        return rows
    assert isinstance(node, Filter | Map)
    below = _applied(node.input, rows)
    if isinstance(node, Filter):
        return below.filter(node.predicate.evaluate(below, below.num_rows).fill_null(False))
    columns = evaluate_all([part for _, part in node.columns], below, below.num_rows)
    return pa.RecordBatch.from_arrays(columns, schema=node.schema)


def _is_all(rows: Ints, length: int) -> bool:
    """True if positions are all there are, in order."""
    return len(rows) == length and bool((rows[1:] > rows[:-1]).all())
