"""Copies of one stream that differ physically: what logical merge was measured with.

Chandramouli et al. (2012, VI-B): an event has a number and a long text. Copies tell of the same
events; each has an order, provisional ends and stable points of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final, get_args

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.time import BEGINNING, FOREVER, SECOND, Duration, Time
from anabranch.workloads.random_access import Integers, Randomness

CopyCase: TypeAlias = Literal["r0", "r1", "r2", "r3", "r4"]

PAYLOAD: Final = pa.schema([("value", pa.int64()), ("text", pa.string())])

_BEGIN: Final = Time(1_793_527_200_000_000)  # 2026-11-01T10:00:00Z
_BLOCK: Final = 16_384
_VALUES: Final = 401
_STEPS: Final = 20
_NUMBERED: Final = 8
"""So many letters of a text say which event it is of."""

_TWENTY_SECONDS: Final = Duration(20 * SECOND)
_TEN_MINUTES: Final = Duration(600 * SECOND)
_LETTER: Final = np.uint64(0x6161616161616161)
_NIBBLES: Final = np.uint64(0x0F0F0F0F0F0F0F0F)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LMerge:
    """A stream, and how its copies may differ.

    Attributes:
        events: How many events there are.
        seed: Another seed gives other events.
        case: What all copies have in common. As `r0`, `r1` and `r2` they insert in order: at
            different starts, with ties in one order, with ties in any order. As `r3` they do what
            they like, but no two events have one payload and start. As `r4` they may.
        text: Bytes of the text of an event.
        live: About so many events hold at one instant.
        gap: The starts of two successive events lie at most so far apart.
        disorder: The share of events that come late in a copy: as if their start had been moved
            back.
        back: By how much, at most.
        adjusts: The share of adjusts among inserts and adjusts.
        revisions: An event that is revised at all is revised so often, at least: as by an
            aggregate, whose result moves with everything that comes late.
        stable_share: The share of stable points among all elements.
        twins: As `r4`, the share of events with the payload and start of the event before.
    """

    events: int = 200_000
    seed: int = 1
    case: CopyCase = "r3"
    text: int = 1_000
    live: int = 10_000
    gap: Duration = _TWENTY_SECONDS
    disorder: float = 0.2
    back: Duration = _TEN_MINUTES
    adjusts: float = 0.0
    revisions: int = 1
    stable_share: float = 0.01
    twins: float = 0.1

    def __post_init__(self) -> None:
        if self.case not in get_args(CopyCase):
            raise QueryError(f"there is no case '{self.case}'", hint="use r0, r1, r2, r3 or r4")
        for name in ("disorder", "adjusts", "stable_share", "twins"):
            if not 0 <= getattr(self, name) <= 1:
                raise QueryError(f"'{name}' is not a share", hint="a share is between 0 and 1")
        if self.adjusts > 0.9:
            raise QueryError("more than 9 adjusts per insert", hint="use 'adjusts' up to 0.9")
        if self.revisions < 1:
            raise QueryError(f"events are revised {self.revisions} times", hint="use 1 or more")
        if min(self.text, self.live, self.back) < 0 or self.gap < _STEPS:
            raise QueryError(
                "a size is negative, or the gap too small",
                hint=f"sizes are 0 or more, and the gap is {_STEPS} or more",
            )

    @property
    def is_ordered(self) -> bool:
        """Whether copies insert in order, and do nothing else."""
        return self.case in ("r0", "r1", "r2")

    @property
    def per_insert(self) -> float:
        """How many adjusts an event has, on average."""
        return 0.0 if self.is_ordered else self.adjusts / (1 - self.adjusts)

    @property
    def patience(self) -> int:
        """How far a stable point stays behind what arrives."""
        late = self.disorder and not self.is_ordered
        return (self.back if late else 0) + (self.back if self.per_insert else 0)

    def payload(self, event: Integers) -> pa.RecordBatch:
        """The payloads of some events."""
        random = Randomness(self.seed)
        value = random.integers("value", event, _VALUES)
        words = -(-self.text // 8)
        index = (event[:, None] * max(words, 1) + np.arange(words)).ravel()
        letters = random.words("text", index).reshape(len(event), words)
        if words:
            # Texts differ for sure: their first letters are the number of the event.
            nibble = np.arange(_NUMBERED, dtype=np.uint64)
            number = event.view(np.uint64)[:, None] >> (nibble * np.uint64(4))
            letters[:, 0] = ((number & np.uint64(15)) << (nibble * np.uint64(8))).sum(
                axis=1, dtype=np.uint64
            )
        letters &= _NIBBLES
        letters += _LETTER
        data = letters.view(np.uint8)[:, : self.text] if words else np.empty(0, np.uint8)
        offsets = np.arange(len(event) + 1, dtype=np.int32) * np.int32(self.text)
        text = pa.StringArray.from_buffers(
            len(event), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))
        )
        return pa.RecordBatch.from_arrays([pa.array(value), text], schema=PAYLOAD)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrivingElements:
    """Elements of a copy by their arrival: moves of ends, of which events.

    `rank` is 0 for inserts; adjusts of an event are numbered from 1 on.
    """

    arrival: Integers
    event: Integers
    rank: Integers
    start: Integers
    end: Integers
    new_end: Integers

    def __len__(self) -> int:
        return len(self.event)

    def take(self, rows: np.ndarray) -> ArrivingElements:
        """Those at these positions."""
        columns = (self.arrival, self.event, self.rank, self.start, self.end, self.new_end)
        return ArrivingElements(*(column[rows] for column in columns))

    @staticmethod
    def joined(parts: list[ArrivingElements]) -> ArrivingElements:
        """All of them, one behind the other."""
        names = ("arrival", "event", "rank", "start", "end", "new_end")
        return ArrivingElements(
            *(np.concatenate([getattr(part, n) for part in parts]) for n in names)
        )

    @staticmethod
    def nothing() -> ArrivingElements:
        """No elements."""
        none = np.empty(0, np.int64)
        return ArrivingElements(none, none, none, none, none, none)


@final
@dataclass(frozen=True, slots=True, eq=False)
class CopyHistory:
    """Some events as all copies tell of them in the end; `source` is whose payload each has."""

    event: Integers
    source: Integers
    start: Integers
    end: Integers


def history(config: LMerge) -> Iterator[CopyHistory]:
    """All events by number, which is the order of their starts."""
    random = Randomness(config.seed)
    clock, twin_of = int(_BEGIN), 0
    least = config.case == "r0" or (config.case in ("r2", "r3") and config.text < _NUMBERED)
    for first in range(0, config.events, _BLOCK):
        event = np.arange(first, min(first + _BLOCK, config.events), dtype=np.int64)
        steps = least + random.integers("gap", event, _STEPS + 1 - least)
        twin = np.zeros(len(event), np.bool_)
        if config.case == "r4":
            twin = (random.floats("twin", event) < config.twins) & (event > 0)
        start = clock + np.cumsum(np.where(twin, 0, steps * (config.gap // _STEPS)))
        source = np.maximum.accumulate(np.where(twin, twin_of, event))
        clock, twin_of = int(start[-1]), int(source[-1])
        mean = max(config.live * config.gap // 2, 2)
        length = 1 + mean // 2 + random.integers("lifetime", event, mean)
        yield CopyHistory(event, source, start, start + length)


def elements_of_copy(config: LMerge, copy: int) -> Iterator[tuple[ArrivingElements, Integers]]:
    """What a copy says, in pieces, with the event whose payload each element has."""
    held, sources = ArrivingElements.nothing(), np.empty(0, np.int64)
    random = Randomness(config.seed)
    for events in history(config):
        sent = ArrivingElements.joined([held, _revised(config, copy, events)])
        last = int(events.event[-1])
        over = last + 1 == config.events
        # Events to come arrive from here on.
        ready = np.full(len(sent), over) | (sent.arrival < events.start[-1])
        least = int(sent.event.min())
        sources = np.concatenate(
            [sources[len(sources) - (events.event[0] - least) :], events.source]
        )
        held, now = sent.take(~ready), sent.take(ready)
        ties = random.words(f"tie {copy}", now.event) if config.case == "r2" else now.event
        now = now.take(np.lexsort((now.rank, ties, now.arrival)))
        yield now, sources[now.event - least]


def _revised(config: LMerge, copy: int, events: CopyHistory) -> ArrivingElements:
    """Inserts of some events, some with provisional ends, and adjusts to the right ones."""
    random = Randomness(config.seed)
    count = len(events.event)
    arrival = events.start.copy()
    if config.disorder and not config.is_ordered:
        late = random.floats(f"late {copy}", events.event) < config.disorder
        by = 1 + random.integers(f"by {copy}", events.event, config.back)
        arrival += np.where(late, by, 0)
    often = config.per_insert / config.revisions
    rounds = (random.floats(f"revisions {copy}", events.event) + often).astype(np.int64)
    revisions, most = rounds * config.revisions, (int(often) + 1) * config.revisions
    parts, before = [], events.start
    length = events.end - events.start
    for rank in range(most + 1):
        revised = np.flatnonzero(revisions >= rank)
        guess = 1 + random.integers(f"end {rank} {copy}", events.event, 2 * length)
        end = np.where(revisions == rank, events.end, events.start + guess)
        when = arrival
        if rank:
            share = rank - random.floats(f"when {rank} {copy}", events.event)
            when = arrival + (share / most * config.back).astype(np.int64)
        sent = ArrivingElements(when, events.event, np.full(count, rank), events.start, before, end)
        parts.append(sent.take(revised))
        before = end
    return ArrivingElements.joined(parts)


def copy_batches(config: LMerge, copy: int, rows: int | None = None) -> Iterator[EventBatch]:
    """A copy, in batches that end at each of its stable points, or of so many elements.

    Batches of a given size have the last stable point that lies in them. The last one says that
    nothing follows.
    """
    random = Randomness(config.seed)
    rest, origins = ArrivingElements.nothing(), np.empty(0, np.int64)
    reached, position = int(BEGINNING), 0
    for piece, source in elements_of_copy(config, copy):
        sent, of = ArrivingElements.joined([rest, piece]), np.concatenate([origins, source])
        index = np.arange(position, position + len(sent), dtype=np.int64)
        marked = random.floats(f"stable {copy}", index) < config.stable_share
        slack = random.integers(f"slack {copy}", index, config.gap)
        point = np.where(marked, sent.arrival - config.patience - slack, BEGINNING)
        stable = np.maximum(np.maximum.accumulate(point), reached) if len(point) else point
        cuts = np.flatnonzero(marked) + 1
        if rows is not None:
            cuts = np.arange(rows, len(sent) + 1, rows)
        begin = 0
        for cut in cuts.tolist():
            at = np.arange(begin, cut)
            yield _batch(config, sent.take(at), of[begin:cut], int(stable[cut - 1]))
            begin = cut
        reached = int(stable[begin - 1]) if begin else reached
        rest, origins = sent.take(np.arange(begin, len(sent))), of[begin:]
        position += begin
    yield _batch(config, rest, origins, int(FOREVER))


def _batch(config: LMerge, sent: ArrivingElements, source: Integers, stable: int) -> EventBatch:
    payload = config.payload(source) if len(source) else no_rows(PAYLOAD)
    return EventBatch(payload, sent.start, sent.end, sent.new_end, Time(stable))
