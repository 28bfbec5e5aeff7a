"""What a physical operator is: a pure step over batches and a trace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

import pyarrow as pa

from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, Time

ID: Final = "__id"
"""The column of a prepared batch that says to which key a row belongs (uint64)."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A sorted immutable piece of a trace.

    `name` is empty until the run has been stored; a stored run never changes under its name.
    """

    rows: pa.RecordBatch
    name: str = ""

    def __len__(self) -> int:
        return int(self.rows.num_rows)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The memory of a kernel: named lists of runs (oldest first) and the stable point reached."""

    runs: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    stable: Time = BEGINNING

    def rows(self) -> int:
        """How many rows are held, over all runs."""
        return sum(len(run) for runs in self.runs.values() for run in runs)


class Kernel(ABC):
    """A physical operator."""

    __slots__ = ()

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The payload columns of the output."""


class Stateless(Kernel):
    """A step without memory: any row order, any batching."""

    __slots__ = ()

    @abstractmethod
    def apply(self, batch: EventBatch) -> EventBatch:
        """The rows of the output; the stable point is passed on by the caller."""


class Stateful(Kernel):
    """A step with memory, for one shard.

    `prepare` runs before the exchange, where the rows are: it turns events into what the step
    needs, as small as it can (rows of one key may already be added up). Its result has the
    column `__id`; rows with one id meet in one shard. `step` runs after the exchange.
    """

    __slots__ = ()

    @abstractmethod
    def prepare(self, batch: EventBatch) -> pa.RecordBatch:
        """What the exchange carries."""

    @abstractmethod
    def step(self, trace: Trace, arrived: pa.RecordBatch, stable: Time) -> tuple[Trace, EventBatch]:
        """Take in what arrived and the input's new stable point; give back memory and output.

        The result does not depend on the order of the rows, and nothing is written in place.
        """
