"""What a run says of its plan: expected and measured figures side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from anabranch.model.record import plain
from anabranch.runtime.measure.running_plan import batch_size, plans_as_measured, running_text
from anabranch.runtime.sources.files.batch_sizing import BatchSize
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord
from anabranch.runtime.store.query_statistics import QueryStatistics

if TYPE_CHECKING:
    from anabranch.runtime.query.execution import Execution


class ExplainsItself(ABC):
    """A run that explains the plan it has."""

    @property
    @abstractmethod
    def execution(self) -> Execution:
        """What Spark executes."""

    def explain(self) -> str:
        """The plan that runs, with what was expected of each operator and what was measured.

        Rows per second (per chronon where that has no length), what conditions let through, keys,
        rows held (expected in brackets) and milliseconds per batch.
        """
        return running_text(self._statistics(), self.change, self._batch_size())

    def explain_json(self) -> Any:
        """The same for programs: a dictionary as `anabranch explain --running --json` prints it."""
        found = plans_as_measured(self._statistics(), self.change, self._batch_size())
        return plain(found)

    @property
    def change(self) -> MigrationRecord | None:
        """The change of the query that was asked for or is in progress; None if there is none."""
        return MigrationFolder.of(self.execution.checkpoint).unfinished()

    def _batch_size(self) -> BatchSize | None:
        return batch_size(self.execution.checkpoint)

    def _statistics(self) -> QueryStatistics:
        measurements = self.execution.assembly.measurements
        assert measurements is not None
        return measurements.statistics
