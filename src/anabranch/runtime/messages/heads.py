"""The heads of parcels: what a sender says beside its rows.

Who sends which head to whom:

    source task  -- SourceHead, then Continued, with rows -->  every shard of every stage that reads
    source task  -- TimeHead (nothing came, time passes) -->   the source
    source task  -- ControlHead ---------------------------->  every shard of every stage
    stage task   -- StageHead, then Continued, with rows --->  every shard of every stage behind it
    shard        -- OutputHead, perhaps with rows ---------->  the driver, through all later stages

What a sender says goes to each partition of the next stages once, in a parcel without rows; rows
go to shards, in parcels that are `Continued`. Shards that have nothing to do in a batch send one
OutputHead together. On the way a head is one JSON object with the key `kind`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar, final

from anabranch.errors import EngineError
from anabranch.kernels.contract.command import Command
from anabranch.model.record import OMITTED, REPORT, plain, record
from anabranch.model.time import BEGINNING
from anabranch.runtime.messages.counters import RewrittenFile, StageCounters
from anabranch.runtime.messages.measured import EdgeCounters, SourceSample


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """An element file on its way to a log.

    Attributes:
        name: Its name in the folder of the log.
        rows: How many elements it has.
        bytes: How long it is.
        sender: Of a file that a source task wrote: the edge, part and message that it is, which
            give its position among the files of the batch. The log does not keep it.
    """

    name: str
    rows: int
    bytes: int
    sender: tuple[int, int, int] | None = field(default=None, metadata=OMITTED)


@final
@dataclass(frozen=True, slots=True)
class DeliveredRows:
    """What a source task has delivered itself: how many rows, and the file for each output.

    `lifetimes` are those of the rows, where the lineage of results is noted.
    """

    rows: int
    files: Mapping[int, LogFile] = field(default_factory=dict)
    lifetimes: tuple[tuple[int, int], ...] = field(default=(), metadata=OMITTED)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """What a source task has read of a copy.

    `reached` is what it has promised with that; a copy that begins again had promised nothing.
    """

    name: str
    reached: int
    rows: int
    late: int
    adjusted: int
    restart: bool = False
    problem: str | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHead:
    """What a task has read of a source.

    Attributes:
        source: The name of the source.
        counted_at: The stage and its edge where the counts are added up, one of those that get
            this.
        reached: What the source has promised with that.
        rows: How many rows it has read.
        late: How many of them were dropped because they were late.
        adjusted: How many of them were cut to what was not settled yet.
        revised: How many of them were late and become a revision.
        skipped: How many of them matter to nobody, after feedback.
        ordered: Whether rows have positions to be late by.
        copies: What it has read of which copy, by number, where the source has copies.
        delivered: What of it is in the output already, where the sender delivers.
        sample: What the rows are like; None where no event begins.
        sent: What goes through the edge that this head is for, counted step by step.
        last_end: The greatest end of an event among the rows; BEGINNING: there are none.
        rewritten: Files of the source that were written again after they were read.
    """

    source: str
    counted_at: tuple[int, int]
    reached: int
    rows: int = 0
    late: int = 0
    adjusted: int = 0
    revised: int = field(default=0, metadata=OMITTED)
    skipped: int = 0
    ordered: bool = field(default=True, metadata=OMITTED)
    copies: Mapping[int, CopyReport] = field(default_factory=dict, metadata=OMITTED)
    delivered: DeliveredRows | None = field(default=None, metadata=OMITTED)
    sample: SourceSample | None = field(default=None, metadata=OMITTED)
    sent: EdgeCounters | None = field(default=None, metadata=OMITTED)
    last_end: int = field(default=BEGINNING, metadata=OMITTED)
    rewritten: tuple[RewrittenFile, ...] = field(default=(), metadata=OMITTED)


@final
@dataclass(frozen=True, slots=True)
class TimeHead:
    """So many microseconds have gone by for a source, whatever came of it."""

    source: str
    passed: int


@final
@dataclass(frozen=True, slots=True)
class ControlHead:
    """What came through the control stream, oldest first."""

    commands: tuple[Command, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StageHead:
    """How far the shards of a stage have come that a task has.

    Attributes:
        stable: How far the output of all of them is settled.
        shards: How many they are.
        counters: What they have counted, behind what stages before have told them; only the first
            partition gets it.
        sent: What goes through the edge that this head is for, counted step by step, likewise.
    """

    stable: int
    shards: int
    counters: tuple[StageCounters, ...] = ()
    sent: EdgeCounters | None = field(default=None, metadata=OMITTED)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSummary:
    """What Spark's progress shows of a batch: it looks for these keys in the head."""

    rows_in: int = 0
    rows_out: int = 0
    state_rows: int = 0
    stable: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputHead:
    """What the driver gets to know of one output of the plan, from one shard, or from several.

    Several shards speak together where none of them had anything to do.

    Attributes:
        output: The number of the output.
        stable: How far it is settled.
        stable_before: How far it was after the batch before.
        said: The counters of this shard that Spark shows.
        counters: What this shard has counted, behind what shards before it have told it.
        files: The element files that belong to the log now.
        lifetimes: Those of the results, where the lineage of results is noted.
    """

    output: int
    stable: int
    stable_before: int
    said: OutputSummary
    counters: tuple[StageCounters, ...] = ()
    files: tuple[LogFile, ...] = ()
    lifetimes: tuple[tuple[int, int], ...] = field(default=(), metadata=OMITTED)

    @property
    def own(self) -> StageCounters:
        """What this shard has counted."""
        return self.counters[-1]


@final
@dataclass(frozen=True, slots=True)
class Continued:
    """The rows of a message, whose head is in another parcel."""


Head: TypeAlias = SourceHead | TimeHead | ControlHead | StageHead | OutputHead | Continued

CONTINUED: Final = Continued()

_KINDS: Final[Mapping[str, type[Head]]] = {
    "source": SourceHead,
    "time": TimeHead,
    "control": ControlHead,
    "stage": StageHead,
    "output": OutputHead,
    "continued": Continued,
}
_NAMES: Final[Mapping[type[Head], str]] = {kind: name for name, kind in _KINDS.items()}

HeadT = TypeVar("HeadT", bound=Head)


def head_text(head: Head) -> str:
    """A head as it travels."""
    return json.dumps({"kind": _NAMES[type(head)], **plain(head)})


@lru_cache(maxsize=256)
def head_of_text(text: str, where: str = "on its way between workers") -> Head:
    """The head in a text; a worker with several shards gets the same text for each of them.

    Raises:
        EngineError: There is none in it.
    """
    try:
        content = json.loads(text)
        kind = content.pop("kind")
        head_type = _KINDS[kind]
    except (ValueError, AttributeError, KeyError, TypeError):
        raise EngineError(
            "the head of a parcel cannot be read: it does not say what it is",
            where=f"{where}: {text[:100]}",
            hint=REPORT,
        ) from None
    return record(head_type, content, where=where)


def head_as(kind: type[HeadT], head: Head) -> HeadT:
    """A head that can be of one kind only.

    Raises:
        EngineError: It is of another kind.
    """
    if not isinstance(head, kind):
        raise EngineError(
            f"a parcel brought {type(head).__name__} where {kind.__name__} belongs", hint=REPORT
        )
    return head
