"""Join over time: what changes on one side meets what is held of the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.join_band import Band
from anabranch.algebra.analysis.join_keys import JoinKeys
from anabranch.algebra.join import Join
from anabranch.expressions.expression import Expression, evaluate_all
from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.columns.stretches import near_stretches
from anabranch.kernels.contract.column_names import (
    CHECK,
    END,
    ID,
    JOIN_ROW_CHECK,
    JOINS,
    KEY,
    NEW_END,
    ROW,
    START,
)
from anabranch.kernels.contract.kernel import Arrived, Progress, Rest, SortedRun, Stateful, Trace
from anabranch.kernels.contract.keys import key_checks, key_ids, needs_check
from anabranch.kernels.contract.prepared import assemble, hashes, keyed, numbers
from anabranch.kernels.contract.routing import (
    BY_CHECK,
    BY_ID,
    EVERYWHERE,
    Route,
    Routing,
    by_payload,
    marked,
)
from anabranch.kernels.join.both_moved import is_chained, moved_once
from anabranch.kernels.join.event_identity import payload_of
from anabranch.kernels.join.interval_trace import (
    EVERY,
    FreshRun,
    HeldEvents,
    interval_merger,
    overlapping,
)
from anabranch.kernels.join.pairs import JoinedPairs, SideMoves, netted, pair
from anabranch.kernels.multiplicity.multiplicity import (
    OutputRows,
    Runs,
    Steps,
    forget,
    revise_multiplicity,
)
from anabranch.kernels.trace.rest import lists_rest
from anabranch.kernels.trace.rows_at import RowsAt
from anabranch.kernels.trace.runs import add_run
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.identity import Identity
from anabranch.model.numbers.hashing import stable_hash, stable_hashes
from anabranch.model.time import BEGINNING, Time, add_saturating

_SIDES: Final = ("left", "right")
_EXIST: Final = "exist."


@final
@dataclass(frozen=True, slots=True)
class JoinKernel(Stateful):
    """Equations bring rows together by hash; the rest of the predicate is tested on pairs.

    An end that moves from a to b changes the pairs with what the other side holds in between:
    `[a, b)` is looked up there, and each partner moves the end of one pair. What has no partner
    is found by counting partners per payload (as many timelines as payloads).
    """

    identity: ClassVar[Identity] = Identity("JoinKernel", ("node",), form=("route", "keys"))

    node: Join
    keys: JoinKeys

    @staticmethod
    def of(node: Join) -> JoinKernel:
        """The kernel of a node."""
        return JoinKernel(node, JoinKeys.of(node))

    @property
    def label(self) -> str:
        """The node's, and how partners are found."""
        if self._band is not None:
            return f"{self.node.label} [near: {self._band.left.sql} and {self._band.right.sql}]"
        if not self.keys.left:
            return f"{self.node.label} [all that overlap]"
        by = ", ".join(
            f"{left.sql} = {right.sql}"
            for left, right in zip(self.keys.left, self.keys.right, strict=True)
        )
        rest = "" if self.keys.rest is None else f", then {self.keys.rest.sql}"
        return f"{self.node.label} [hash on {by}{rest}]"

    @property
    def spread(self) -> str:
        """The join key, or the payload of the side that is not sent everywhere."""
        if self._band is not None:
            return f"stretches of {self._band.left.sql}"
        if self.broadcast:
            return f"{_SIDES[1 - min(self.broadcast)]} payload"
        return ", ".join(key.sql for key in self.keys.left)

    @property
    def spreads(self) -> bool:
        """Whether rows are spread over shards at all."""
        return bool(self.keys.left) or bool(self.broadcast) or self._band is not None

    @property
    def schema(self) -> pa.Schema:
        """Left columns, then right ones."""
        return self.node.schema

    @property
    def sides(self) -> int:
        """Left and right."""
        return 2

    @property
    def broadcast(self) -> frozenset[int]:
        """The side that was declared small; without a key, one that may be anywhere."""
        if self.node.broadcast is not None:
            return frozenset({_SIDES.index(self.node.broadcast)})
        if self.keys.left or self.node.kind == "full" or self._band is not None:
            return frozenset()
        return frozenset({0 if self.node.kind == "right" else 1})

    @property
    def _band(self) -> Band | None:
        """The band that takes the place of keys; not where a row must be in one shard."""
        fits = self.node.kind == "inner" and self.node.broadcast is None
        return self.keys.band if fits else None

    @property
    def sent_by(self) -> Route | None:
        """How pairs, and what has none, tell the shard that they are found in.

        NULLs pad what has no partner, so the key is that of a side which is always there, or of
        either one.
        """
        kind, schema = self.node.kind, self.schema
        if self._band is not None:
            return Route(band=self._band)
        if self.broadcast:
            names = self.node.inputs[1 - min(self.broadcast)].schema.names
            return Route(tuple(Expression.column(name, schema) for name in names))
        if kind != "full":
            return Route(self.keys.right if kind == "right" else self.keys.left)
        both = list(zip(self.keys.left, self.keys.right, strict=True))
        if any(one.is_column is None or other.is_column is None for one, other in both):
            return None
        texts = [f"COALESCE({one.sql}, {other.sql})" for one, other in both]
        return Route(tuple(Expression.parse(text, schema) for text in texts))

    @property
    def _checked(self) -> bool:
        return needs_check([key.type for key in self.keys.left])

    @property
    def _has_pairs(self) -> bool:
        """Whether pairs are what comes out."""
        return self.node.kind not in ("semi", "anti")

    def _keeps(self, side: int) -> bool:
        """Whether payloads of a side can leave without a partner, or without showing it."""
        kept = {"left": (0,), "right": (1,), "full": (0, 1), "semi": (0,), "anti": (0,)}
        return side in kept.get(self.node.kind, ())

    @property
    def _only_exists(self) -> bool:
        """Whether of the right side only its keys matter."""
        return not self._has_pairs and self.keys.rest is None

    def interest(self, end: Time, side: int = 0) -> Time:
        """A pair ends with the first of both; what has no partner tells when others had one."""
        del side
        return end if self.node.kind == "inner" else BEGINNING

    def routing(self, name: str) -> Routing:
        """Sides by key, unless all shards have them; counts of payloads are marked."""
        if name in _SIDES:
            side = _SIDES.index(name)
            if not self.broadcast:
                return BY_ID
            schema = self.node.inputs[side].schema
            keys = tuple(Expression.column(column, schema) for column in schema.names)
            return EVERYWHERE if side in self.broadcast else by_payload(Route(keys), schema)
        if name.startswith(_EXIST):
            if self.broadcast:
                return EVERYWHERE
            return BY_ID if name == f"{_EXIST}counts" else BY_CHECK
        return BY_CHECK

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Moves with the ids of their keys, without what follows from the plan."""
        only_key = side == 1 and self._only_exists
        fields = hashes(ID)
        if self._keeps(side):
            fields += hashes(ROW, JOIN_ROW_CHECK)
        fields += hashes(KEY) if self.broadcast else []
        fields += hashes(CHECK) if self._checked else []
        fields += [(JOINS, pa.bool_())] if self._keeps(side) else []
        fields += numbers(START)
        # What follows from the rest is not sent.
        properties = self.node.inputs[side].properties
        fields += [] if properties.insert_only else numbers(END)
        fields += [] if properties.insert_only and properties.only_points else numbers(NEW_END)
        fields += [] if only_key else keyed(self.node.inputs[side].schema.types)
        return pa.schema(fields)

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """The moves with the hash of their key; what equals nothing stays behind."""
        stretch: Ints | None = None
        if self._band is not None:
            rows, stretch = near_stretches(self._band, batch.payload, side)
            batch = batch.take(rows)
        payload = batch.payload
        parts = evaluate_all((self.keys.left, self.keys.right)[side], payload, len(batch))
        joins = np.ones(len(batch), np.bool_)
        for part in parts:
            if part.null_count:
                joins &= part.is_valid().to_numpy(zero_copy_only=False)
        if not self._keeps(side) and not joins.all():
            batch, kept = batch.where(joins), pa.array(np.flatnonzero(joins))
            parts = [part.take(kept) for part in parts]
            payload, joins = batch.payload, joins[joins]
        ids = key_ids(parts if stretch is None else [pa.array(stretch)], len(batch))
        columns: dict[str, pa.Array] = {ID: pa.array(ids)}
        values = payload.columns
        if self._keeps(side):
            both = stable_hashes(values, len(batch), (0, 1))
            columns[ROW], columns[JOIN_ROW_CHECK] = pa.array(both[0]), pa.array(both[1])
        if self.broadcast:
            columns[KEY] = columns[ID]
            if side not in self.broadcast:
                columns[ID] = columns.get(ROW) or pa.array(stable_hash(values, len(batch)))
        if self.route is not None and JOIN_ROW_CHECK in columns:
            columns[JOIN_ROW_CHECK] = pa.array(
                marked(columns[ID].to_numpy(), columns[JOIN_ROW_CHECK].to_numpy())
            )
        if self._checked:
            columns[CHECK] = pa.array(key_checks(parts, len(batch)))
        if self._keeps(side):
            columns[JOINS] = pa.array(joins)
        columns |= {f"key{index}": column for index, column in enumerate(values)}
        times = {START: batch.start, END: batch.end, NEW_END: batch.new_end}
        return assemble(self.prepared_schema(side), {**columns, **times})

    def rest(self, trace: Trace) -> Rest:
        """Until some of its rows are expected to have expired."""
        return Rest(lists_rest(trace.runs, trace.stable, plain=_SIDES))

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Left changes against the right side as it was, right ones against the left as it is."""
        return self._step(trace, arrived, stable)

    def tell(self, trace: Trace, arrived: Arrived, progress: Progress) -> EventBatch:
        """The pairs alone: sides are not written."""
        return self._step(trace, arrived, progress.least, writes=False)[1]

    def _step(
        self, trace: Trace, arrived: Arrived, stable: Time, *, writes: bool = True
    ) -> tuple[Trace, EventBatch]:
        runs: Runs = dict(trace.runs)
        if not any(side.num_rows for side in arrived):
            return self._only_progress(runs, stable)
        left, right = self._moves(arrived[0]), self._moves(arrived[1])
        if self._only_exists:
            right = self._existing(runs, right, stable)
        held = [runs.get("left", ()), runs.get("right", ())]
        fresh = [self._state(side) for side in (left, right)]
        pairs = self._meet(left, right, held, fresh[0])
        for side, name in enumerate(_SIDES if writes else ()):
            runs[name] = add_run(
                held[side], fresh[side].rows, stable, interval_merger(stable), anchors=False
            )
        output = self._output(runs, left, right, pairs, stable)
        kept = {name: part for name, part in runs.items() if part}
        return Trace(kept, stable), output

    def remember(self, trace: Trace, arrived: Arrived, progress: Progress) -> Trace:
        """The memory alone: which pairs there are matters only to rows without a partner."""
        if any(map(self._keeps, (0, 1))) or not any(side.num_rows for side in arrived):
            return self.step(trace, arrived, progress.least)[0]
        runs, stable = dict(trace.runs), progress.least
        left, right = self._moves(arrived[0]), self._moves(arrived[1])
        if self._only_exists:
            right = self._existing(runs, right, stable)
        for name, side in zip(_SIDES, (left, right), strict=True):
            fresh = self._state(side).rows
            merger = interval_merger(stable)
            runs[name] = add_run(runs.get(name, ()), fresh, stable, merger, anchors=False)
        return Trace({name: part for name, part in runs.items() if part}, stable)

    def _only_progress(self, runs: Runs, stable: Time) -> tuple[Trace, EventBatch]:
        events = {name: runs.pop(name) for name in _SIDES if name in runs}
        runs = forget(runs, stable)
        for name, held in events.items():
            none = no_rows(held[0].rows.schema)
            kept = add_run(held, none, stable, interval_merger(stable), anchors=False)
            if kept:
                runs[name] = kept
        return Trace(runs, stable), EventBatch.empty(self.schema, stable)

    def _moves(self, rows: pa.RecordBatch) -> SideMoves:
        names = rows.schema.names
        values = [name for name in names if name.startswith(("key", ROW))]
        values += [CHECK] if CHECK in names else []
        start = rows.column(START).to_numpy()
        end = rows.column(END).to_numpy() if END in names else start
        if end is not start and np.array_equal(end, start):
            end = start  # nothing but inserts
        is_longer = NEW_END in names
        ids = rows.column(KEY if KEY in names else ID).to_numpy()
        return SideMoves(
            ids=ids,
            check=rows.column(CHECK).to_numpy() if CHECK in names else None,
            joins=rows.column(JOINS).to_numpy(zero_copy_only=False) if JOINS in names else None,
            start=start,
            end=end,
            new_end=rows.column(NEW_END).to_numpy() if is_longer else add_saturating(start, 1),
            rows=np.arange(len(ids)),
            values=rows.select(values),
        ).sorted()

    def _existing(self, runs: Runs, moves: SideMoves, stable: Time) -> SideMoves:
        """In place of the right side the stretches on which a key is there at all."""
        if not len(moves.ids):
            held = {name: part for name, part in runs.items() if name.startswith(_EXIST)}
            runs |= dict.fromkeys(held, ()) | forget(held, stable)
            return moves
        one = np.ones(len(moves.ids), np.int64)
        route = None if self.route is None else moves.ids
        steps = Steps(moves.ids, moves.check, moves.end, moves.new_end, one, route=route)
        found = revise_multiplicity(runs, _EXIST, steps, "distinct", stable, self.label)
        ids = moves.ids[found.rows]
        check = None if moves.check is None else moves.check[found.rows]
        checks = {} if check is None else {CHECK: check}
        return SideMoves(
            ids=ids,
            check=check,
            joins=None,
            start=found.start,
            end=found.end,
            new_end=found.new_end,
            rows=np.arange(len(ids)),
            values=pa.RecordBatch.from_pydict(checks),
        ).sorted()

    def _state(self, moves: SideMoves) -> FreshRun:
        """What is remembered of a side: its events that can meet something."""
        values = list(zip(moves.values.schema.names, moves.values.columns, strict=True))
        times = (moves.start, moves.end, moves.new_end)
        chosen = EVERY if moves.joins is None else moves.joins
        return FreshRun.of(moves.ids, *times, values, rows=moves.rows, chosen=chosen)

    def _meet(
        self,
        left: SideMoves,
        right: SideMoves,
        held: Sequence[Sequence[SortedRun]],
        fresh: FreshRun,
    ) -> JoinedPairs | None:
        """Moves of pairs: every end that moved, against all it meets on the way."""
        # What is only counted need not be netted.
        may_chain = self._has_pairs and (is_chained(left) or is_chained(right))
        left, right = left.active(), right.active()
        sides = self._found(left, held[1]), self._found(right, (*held[0], SortedRun(fresh.rows)))
        moves, pairs = (left, right), []
        if self._has_pairs and not may_chain and right.end is not right.start:
            # Nearly always there is one block of each.
            blocks = [list(islice(side, 2)) for side in sides]
            if [len(each) for each in blocks] == [1, 1]:
                corrections = moved_once(left, blocks[0][0], right, blocks[1][0], fresh)
                if corrections is not None:
                    pairs = [
                        self._tested(pair(moves[side], blocks[side].pop(), side, corrections[side]))
                        for side in (0, 1)
                    ]
                    return JoinedPairs.concat(pairs)
            # A pair moves twice only where both sides meet something.
            may_chain = all(blocks)
            sides = chain(blocks[0], sides[0]), chain(blocks[1], sides[1])
        for side, found in enumerate(sides):
            pairs += [self._tested(pair(moves[side], each, side)) for each in found]
        if not pairs:
            return None
        whole = JoinedPairs.concat(pairs)
        return netted(whole) if may_chain else whole

    def _found(self, moves: SideMoves, runs: Sequence[SortedRun]) -> Iterator[HeldEvents]:
        """The events that moves meet."""
        low, high = np.minimum(moves.end, moves.new_end), np.maximum(moves.end, moves.new_end)
        for held in overlapping(runs, moves.ids, low, high):
            if moves.check is not None:
                same = moves.check[held.owner] == held.rows.numbers(CHECK)
                if not same.all():
                    held = held.take(np.flatnonzero(same))
            yield held

    def _tested(self, pairs: JoinedPairs) -> JoinedPairs:
        if self.keys.rest is None:
            return pairs
        keep = self.keys.rest.evaluate(pairs.payload(self.node.both), len(pairs)).fill_null(False)
        return pairs.take(np.flatnonzero(keep.to_numpy(zero_copy_only=False)))

    def _output(
        self,
        runs: Runs,
        left: SideMoves,
        right: SideMoves,
        pairs: JoinedPairs | None,
        stable: Time,
    ) -> EventBatch:
        parts = [
            self._alone(runs, moves, pairs, side, stable)
            for side, moves in enumerate((left, right))
            if self._keeps(side)
        ]
        if pairs is not None and self._has_pairs:
            payload = pairs.payload(self.schema)
            parts.insert(0, EventBatch(payload, pairs.start, pairs.end, pairs.new_end, stable))
        return EventBatch.concat(parts or [EventBatch.empty(self.schema, stable)])

    def _alone(
        self, runs: Runs, moves: SideMoves, pairs: JoinedPairs | None, side: int, stable: Time
    ) -> EventBatch:
        """The payloads of a side where they have no partner (where they have one, for `semi`)."""
        own = RowsAt([moves.values], [moves.rows])
        found = [] if pairs is None else [pairs]
        rows = RowsAt.concat([own, *(each.left if side == 0 else each.right for each in found)])
        check = rows.numbers(JOIN_ROW_CHECK)
        steps = Steps(
            ids=rows.numbers(ROW),
            check=check,
            end=np.concatenate([moves.end, *(each.end for each in found)]),
            new_end=np.concatenate([moves.new_end, *(each.new_end for each in found)]),
            count=np.ones(len(rows), np.int64),
            right=np.arange(len(rows)) >= len(moves.ids),
            route=None if self.route is None else check,
        )
        if not len(rows):
            name = f"{_SIDES[side]}."
            mine = {key: held for key, held in runs.items() if key.startswith(name)}
            runs.update(dict.fromkeys(mine, ()) | forget(mine, stable))
            return EventBatch.empty(self.schema, stable)
        function = "matched" if self.node.kind == "semi" else "strict difference"
        result = revise_multiplicity(runs, f"{_SIDES[side]}.", steps, function, stable, self.label)
        return self._padded(rows, result, side, stable)

    def _padded(self, rows: RowsAt, result: OutputRows, side: int, stable: Time) -> EventBatch:
        mine = [column.take(pa.array(result.rows)) for column in payload_of(rows)]
        if self._has_pairs:
            other = self.node.inputs[1 - side].schema
            nulls = [pa.nulls(len(result.rows), field.type) for field in other]
            mine = [*mine, *nulls] if side == 0 else [*nulls, *mine]
        payload = pa.RecordBatch.from_arrays(mine, schema=self.schema)
        return EventBatch(payload, result.start, result.end, result.new_end, stable)
