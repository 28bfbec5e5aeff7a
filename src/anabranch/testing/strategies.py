"""Legal streams to draw, with all the edges on purpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final, final

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.model.batch import EventBatch
from anabranch.model.payload import Payload, freeze
from anabranch.model.time import BEGINNING, FOREVER, Duration
from anabranch.testing.physical import Element, KitStable, Move, PhysicalStream

DEFAULT_SCHEMA: Final = pa.schema([("key", pa.string()), ("value", pa.int64())])

TODAY: Final = 1_794_700_800_000_000
"""An instant in microseconds since 1970."""

_INSTANT: Final = datetime(2026, 11, 15, 10, tzinfo=timezone.utc)


def origins() -> st.SearchStrategy[int]:
    """Where most of a stream takes place: at 0, around it, today, or at either end of time."""
    return st.sampled_from([0, 0, 0, 0, -6, TODAY, FOREVER - 13, BEGINNING + 1])


def instants(origin: int = 0) -> st.SearchStrategy[int]:
    """Few instants with many ties; rarely one from the ends of time."""
    near = st.integers(origin, min(origin + 12, FOREVER - 1))
    far = st.one_of(
        st.integers(-9, 40),
        st.integers(FOREVER - 6, FOREVER - 1),
        st.integers(BEGINNING + 1, BEGINNING + 6),
    )
    return st.one_of(*([near] * 30), far)


def durations(most: int = 20, *, unbounded: bool = False) -> st.SearchStrategy[Duration]:
    """Sizes and slides of windows."""
    bounded = st.integers(1, most).map(Duration)
    return st.one_of(bounded, bounded, st.just(Duration(FOREVER))) if unbounded else bounded


def values(kind: pa.DataType, *, odd_floats: bool = True) -> st.SearchStrategy[Any]:
    """Values of an Arrow type, few and often equal; NULL among them.

    Floats are multiples of 0.25, so that sums are exact in any order; with `odd_floats` rarely
    NaN, an infinity or -0.0.
    """
    return st.one_of(st.none(), *([_values(kind, odd_floats)] * 7))


def payload_schemas(*, nested: bool = True) -> st.SearchStrategy[pa.Schema]:
    """One to four columns of any types, under names that need care."""
    kinds = [*_FLAT_TYPES, *(_NESTED_TYPES if nested else [])]
    names = st.sampled_from(["a", "b", "price", "Price", "my col", "select", "ü", "a.b"])
    columns = st.tuples(names, st.sampled_from(kinds))
    return st.lists(columns, min_size=1, max_size=4, unique_by=lambda column: column[0]).map(
        pa.schema
    )


@st.composite
def streams(
    draw: st.DrawFn,
    schema: pa.Schema | st.SearchStrategy[pa.Schema] = DEFAULT_SCHEMA,
    *,
    max_size: int = 16,
    longest: int = FOREVER,
    insert_only: bool = False,
    only_points: bool = False,
    odd_floats: bool = True,
) -> PhysicalStream:
    """Legal streams: disorder, ties, duplicates, adjusts, withdrawals, promises at any place.

    Args:
        draw: Given by hypothesis.
        schema: The payload columns, or what to draw them from.
        max_size: So many elements at most.
        longest: No lifetime is longer, at any time; infinite ends need FOREVER.
        insert_only: No adjusts and no withdrawals.
        only_points: Every lifetime is one chronon long.
        odd_floats: See `values`.
    """
    columns = draw(schema) if isinstance(schema, st.SearchStrategy) else schema
    rows = st.tuples(*(values(column.type, odd_floats=odd_floats) for column in columns))
    pool = draw(st.lists(rows.map(freeze), min_size=1, max_size=4))
    maker = _Maker(
        draw=draw,
        pool=pool,
        origin=draw(origins()),
        longest=1 if only_points else longest,
    )
    steps: list[Callable[[], Element | None]] = [
        maker.insert,
        maker.insert,
        maker.insert,
        maker.insert_again,
        maker.promise,
        maker.promise,
    ]
    if not insert_only:
        steps += [maker.adjust] * 4 + [maker.adjust_nothing, maker.withdraw, maker.withdraw]
    many = st.integers(min(6, max_size), max_size)
    size = draw(st.one_of(st.integers(0, min(5, max_size)), many, many, many))
    for step in draw(st.lists(st.sampled_from(steps), min_size=size, max_size=size)):
        element = step() or maker.insert()
        if element is not None:
            maker.take(element)
    if draw(st.booleans()):
        maker.take(KitStable(FOREVER))
    return PhysicalStream(columns, tuple(maker.elements))


def points(
    schema: pa.Schema | st.SearchStrategy[pa.Schema] = DEFAULT_SCHEMA,
    *,
    max_size: int = 16,
    insert_only: bool = False,
    odd_floats: bool = True,
) -> st.SearchStrategy[PhysicalStream]:
    """Legal streams of points, withdrawn and inserted again."""
    return streams(
        schema,
        max_size=max_size,
        insert_only=insert_only,
        only_points=True,
        odd_floats=odd_floats,
    )


def batchings(stream: PhysicalStream) -> st.SearchStrategy[list[EventBatch]]:
    """A stream cut at any places; some batches are empty."""
    cuts = st.lists(st.integers(0, len(stream.elements)), max_size=6)
    return cuts.map(lambda cuts_at: stream.batches(*sorted(cuts_at)))


@st.composite
def schedules(
    draw: st.DrawFn, /, **named: st.SearchStrategy[PhysicalStream]
) -> list[dict[str, EventBatch]]:
    """Streams of several sources, cut and interleaved: one batch of some sources per step."""
    waiting = {name: draw(stream.flatmap(batchings)) for name, stream in named.items()}
    steps: list[dict[str, EventBatch]] = []
    while any(waiting.values()):
        left = [name for name, batches in waiting.items() if batches]
        chosen = draw(st.lists(st.sampled_from(left), min_size=1, unique=True))
        steps.append({name: waiting[name].pop(0) for name in sorted(chosen)})
    return steps


_FLAT_TYPES: Final[list[pa.DataType]] = [
    pa.int64(),
    pa.int32(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
    pa.decimal128(12, 2),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.date32(),
    pa.binary(),
]
_NESTED_TYPES: Final[list[pa.DataType]] = [
    pa.struct([("low", pa.float64()), ("name", pa.string())]),
    pa.list_(pa.int64()),
]


def _values(kind: pa.DataType, odd_floats: bool) -> st.SearchStrategy[Any]:
    few = st.integers(-4, 4)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_unsigned_integer(kind):
        return st.integers(0, 8)
    if pa.types.is_integer(kind):
        return st.one_of(few, few, st.integers(-100, 100))
    if pa.types.is_floating(kind):
        usual = st.one_of(few, st.integers(-400, 400)).map(lambda count: count * 0.25)
        odd = st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0])
        return st.one_of(usual, usual, usual, usual, odd) if odd_floats else usual
    if pa.types.is_decimal(kind):
        return few.map(lambda count: Decimal(count * 25).scaleb(-kind.scale))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return st.text(st.sampled_from("abAé "), max_size=2)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return st.binary(max_size=2)
    if pa.types.is_date(kind):
        return few.map(lambda count: (_INSTANT + timedelta(days=count)).date())
    if pa.types.is_timestamp(kind):
        base = _INSTANT if kind.tz else _INSTANT.replace(tzinfo=None)
        return few.map(lambda count: base + timedelta(milliseconds=count))
    if pa.types.is_struct(kind):
        fields = [kind.field(position) for position in range(kind.num_fields)]
        parts = st.tuples(*(values(part.type, odd_floats=odd_floats) for part in fields))
        return parts.map(lambda row: dict(zip((part.name for part in fields), row)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return st.lists(values(kind.value_type, odd_floats=odd_floats), max_size=2)
    if pa.types.is_null(kind):
        return st.none()
    raise NotImplementedError(f"no values to draw for type {kind}")


@final
@dataclass(slots=True)
class _Maker:
    """Makes one legal element after the other, None where there is none of a kind."""

    draw: st.DrawFn
    pool: list[Payload]
    origin: int
    longest: int
    elements: list[Element] = field(default_factory=list)
    live: Counter[tuple[Payload, int, int]] = field(default_factory=Counter)
    seen: list[tuple[Payload, int]] = field(default_factory=list)
    stable: int = BEGINNING

    def take(self, element: Element) -> None:
        self.elements.append(element)
        if isinstance(element, KitStable):
            self.stable = max(self.stable, element.time)
            return
        if element.end > element.start:
            self.live[element.payload, element.start, element.end] -= 1
        if element.new_end > element.start:
            self.live[element.payload, element.start, element.new_end] += 1
            self.seen.append((element.payload, element.start))

    def insert(self) -> Move | None:
        payload = self.draw(st.sampled_from(self.pool))
        instant = self.draw(instants(self.origin))
        # What would come too late comes a little behind the promise.
        late = instant < self.stable
        return self._insert(payload, self.stable + instant % 8 if late else instant)

    def insert_again(self) -> Move | None:
        """A second copy of an event, or one that was withdrawn before."""
        open_still = [event for event in self.seen if event[1] >= self.stable]
        return self._insert(*self.draw(st.sampled_from(open_still))) if open_still else None

    def adjust(self) -> Move | None:
        """Grow or shrink, half frozen events first."""
        fitting = self._events(lambda _, end: end >= self.stable)
        half_frozen = [event for event in fitting if event[1] < self.stable]
        event = self._one_of(half_frozen or fitting)
        if event is None:
            return None
        payload, start, end = event
        new_end = self._end(start, max(start + 1, self.stable))
        return None if new_end is None else Move(payload, start, end, new_end)

    def adjust_nothing(self) -> Move | None:
        event = self._one_of(self._events(lambda _, end: end >= self.stable))
        return None if event is None else Move(*event, event[2])

    def withdraw(self) -> Move | None:
        event = self._one_of(self._events(lambda start, _: start >= self.stable))
        return None if event is None else Move(*event, event[1])

    def promise(self) -> KitStable:
        """Most often inside a lifetime or at its end; rarely one that says nothing new."""
        event = self._one_of(self._events(lambda _, end: end > self.stable))
        if event is None or self.draw(st.integers(0, 7)) == 0:
            return KitStable(self.draw(instants(self.origin)))
        _, start, end = event
        least = max(start, self.stable)
        return KitStable(self.draw(st.integers(least, min(least + 4, end))))

    def _insert(self, payload: Payload, start: int) -> Move | None:
        end = None if start >= FOREVER else self._end(start, start + 1)
        return None if end is None else Move(payload, start, start, end)

    def _end(self, start: int, least: int) -> int | None:
        most = min(start + self.longest, FOREVER)
        if least > most:
            return None
        near = st.integers(least, min(least + 8, most))
        far = st.integers(least, min(least + 40, most))
        never = st.just(most) if self.longest == FOREVER else near
        return self.draw(st.one_of(near, near, near, far, never))

    def _events(self, fits: Callable[[int, int], bool]) -> list[tuple[Payload, int, int]]:
        return [event for event, count in self.live.items() if count and fits(*event[1:])]

    def _one_of(self, events: list[tuple[Payload, int, int]]) -> tuple[Payload, int, int] | None:
        return self.draw(st.sampled_from(events)) if events else None
