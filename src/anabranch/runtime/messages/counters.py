"""What a shard counts in a batch: of its stage, of the sources that it reads, of their copies.

Shards send this to the driver, which adds it up for metrics, and keep it in their manifests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, final

from anabranch.kernels.contract.command import Command
from anabranch.model.record import OMITTED
from anabranch.model.time import BEGINNING
from anabranch.runtime.messages.measured import EdgeCounters, OperatorCounters, SourceSample


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCounters:
    """What came of a copy of a source, how far it has promised, and why nothing comes of it."""

    rows: int = 0
    late: int = 0
    adjusted: int = 0
    reached: int = BEGINNING
    problem: str = field(default="", metadata=OMITTED)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFile:
    """A file that was written again after it was read.

    Attributes:
        file: Its path.
        bytes_before: How long it was when it was read.
        bytes: How long it is.
        modified: When it was changed last, as an ISO time in UTC.
    """

    file: str
    bytes_before: int
    bytes: int
    modified: str

    def __str__(self) -> str:
        read = f"{self.bytes_before:,} bytes when it was read"
        return f"{self.file}: {read}, {self.bytes:,} since {self.modified}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCounters:
    """What came of a source.

    Attributes:
        rows: How many rows, with those that were late or left out.
        late: How many of them were dropped because they were late.
        adjusted: How many of them were cut to what was not settled yet.
        reached: How far it has promised.
        order: Rows have no positions to be late by.
        revised: How many of them were late and become a revision.
        skipped: How many of them matter to nobody, after feedback.
        copies: The same for each copy, by name, where the source has copies.
        rewritten: The files of which it was noticed that they were written again.
    """

    rows: int = 0
    late: int = 0
    adjusted: int = 0
    reached: int = BEGINNING
    order: Literal["none"] | None = field(default=None, metadata=OMITTED)
    revised: int = field(default=0, metadata=OMITTED)
    skipped: int = field(default=0, metadata=OMITTED)
    copies: Mapping[str, CopyCounters] | None = field(default=None, metadata=OMITTED)
    rewritten: tuple[RewrittenFile, ...] = field(default=(), metadata=OMITTED)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StageCounters:
    """What one shard of a stage did in a batch, or what several hold that had nothing to do.

    Attributes:
        stage: The name of the stage.
        shard: The number of the shard, or the least one of several.
        rows_in: How many rows arrived.
        rows_out: How many rows left.
        state_rows: How many rows it remembers.
        state_runs: How many sorted runs these are in.
        stable: How far its output is settled.
        sources: What came of the sources that are counted here.
        control: The commands that came; shard 0 tells of them.
        report: What its operators noticed, for people.
        state_bytes: How many bytes the files of its state have; a manifest does not say it.
        seconds: How long its steps took; a manifest does not say it either.
        operators: What each of its kernels did, in order; no manifest says it.
        edges: What came through each of its edges; shard 0 tells of that, and no manifest.
        samples: What the rows of the sources are like that are counted here, likewise.
        shards: Of how many shards it tells.
    """

    stage: str
    shard: int
    rows_in: int = 0
    rows_out: int = 0
    state_rows: int = 0
    state_runs: int = 0
    stable: int = BEGINNING
    sources: Mapping[str, SourceCounters] = field(default_factory=dict)
    control: tuple[Command, ...] = ()
    report: Mapping[str, object] = field(default_factory=dict, metadata=OMITTED)
    state_bytes: int = field(default=0, metadata=OMITTED)
    seconds: Mapping[str, float] = field(default_factory=dict, metadata=OMITTED)
    operators: tuple[OperatorCounters, ...] = field(default=(), metadata=OMITTED)
    edges: tuple[EdgeCounters, ...] = field(default=(), metadata=OMITTED)
    samples: Mapping[str, SourceSample] = field(default_factory=dict, metadata=OMITTED)
    shards: int = field(default=1, metadata=OMITTED)

    @property
    def failed_windows(self) -> int:
        """For how many windows user operators gave no results."""
        return failed_windows_in(self.report)

    def measured(
        self,
        state_bytes: int,
        seconds: Mapping[str, float],
        operators: tuple[OperatorCounters, ...] = (),
        edges: tuple[EdgeCounters, ...] = (),
        samples: Mapping[str, SourceSample] | None = None,
    ) -> StageCounters:
        """The same, once the state is stored."""
        return replace(
            self,
            state_bytes=state_bytes,
            seconds=seconds,
            operators=operators,
            edges=edges,
            samples=samples or {},
        )


def failed_windows_in(report: Mapping[str, object]) -> int:
    """For how many windows user operators gave no results, as they report it."""
    failed = report.get("failed", 0)
    assert isinstance(failed, int)
    return failed
