"""The corrections of a query: what is known of each, in memory and in the checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import final

import pyarrow as pa

from anabranch.errors import EngineError
from anabranch.model.batch import EventBatch
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING
from anabranch.runtime.revisions.records import CorrectionFolder, CorrectionRecord, EmittedStep
from anabranch.runtime.store.folder import Folder


@final
class CorrectionBook:
    """All records of a query, oldest first; every change is written before it counts.

    The thread that computes revisions and the one that commits batches share it. Whoever changes
    it, or reads it twice, holds `changed`.
    """

    def __init__(self, folder: Folder) -> None:
        """Read what there is."""
        self.changed: threading.Condition = threading.Condition()
        self._folder = folder
        self._records = CorrectionFolder(folder)
        self._all = {each.id: each for each in self._records.read()}
        for each in tuple(self._all.values()):
            for step in each.emissions:
                self.close_together(step)

    def all(self) -> list[CorrectionRecord]:
        """All records, oldest first."""
        with self.changed:
            return list(self._all.values())

    def open(self) -> list[CorrectionRecord]:
        """Those of which something is still to be computed."""
        return [each for each in self.all() if each.is_open]

    def waiting(self) -> set[int]:
        """The serial numbers of what is computed and in no batch yet."""
        steps = [step for each in self.all() for step in each.emissions]
        return {step.serial for step in steps if step.committed is None}

    def __getitem__(self, number: int) -> CorrectionRecord:
        """The record of a number."""
        return self._all[number]

    def next_id(self) -> int:
        """The number of the next correction."""
        return max(self._all, default=0) + 1

    def next_serial(self) -> int:
        """The number of the next step, of whichever correction."""
        serials = [step.serial for each in self._all.values() for step in each.emissions]
        serials += [serial for each in self._all.values() for serial in each.missed]
        return max(serials, default=0) + 1

    def write(self, correction: CorrectionRecord) -> None:
        """Put a record in place, or replace it."""
        self._records.write(correction)
        self._all[correction.id] = correction

    def add_step(
        self, correction: CorrectionRecord, step: EmittedStep, outputs: Sequence[EventBatch]
    ) -> None:
        """Keep a record with one more step, and what that changes in each output."""
        at = len(correction.emissions)
        for output, changes in enumerate(outputs):
            if step.numbers[output]:
                self._records.write_changes(correction.id, at, output, changes)
        self.write(_settled(replace(correction, emissions=(*correction.emissions, step))))

    def close_together(self, step: EmittedStep) -> None:
        """Note of the other corrections that a step was computed for that nothing is left to do."""
        for number in step.together:
            other = self._all[number]
            if other.is_open:
                self.write(replace(other, status="committed", done=other.bound))

    def drop_missed(self, batch: int, serials: Collection[int]) -> bool:
        """Forget states that a batch came before, which did not begin with them.

        Their corrections are open again. Those that a step was computed together with are opened
        first: a crash in between leaves the step, which closes them again.
        """
        missed = [
            (each, step)
            for each in self.all()
            for step in each.emissions
            if step.committed is None
            and step.after is not None
            and not (step.serial in serials and step.is_for(batch))
        ]
        for each, step in missed:
            for number in step.together:
                self.write(replace(self._all[number], status="received", done=BEGINNING))
            steps = tuple(one for one in each.emissions if one is not step)
            reopened = replace(each, status="received", done=BEGINNING, emissions=steps)
            self.write(replace(reopened, missed=(*each.missed, step.serial)))
        return bool(missed)

    def brought(self, serials: Iterable[int], batch: int) -> list[int]:
        """Of the steps that commands of a batch name, those that it brings."""
        steps = [step for each in self.all() for step in each.emissions]
        found = {step.serial for step in steps if step.is_for(batch)}
        return [each for each in serials if each in found]

    def states_from(self, batch: int) -> set[int]:
        """The steps whose state a batch from this one on may begin with, or begin with again.

        A step is noted as committed before Spark has committed its batch, which may be repeated.
        """
        steps = [step for each in self.all() for step in each.emissions]
        return {step.serial for step in steps if step.committed is None or step.committed >= batch}

    def commit(self, serial: int, batch: int) -> tuple[int, ...]:
        """Note that a step is in the output, with a batch; the numbers of its corrections."""
        correction, step = self.of_serial(serial)
        steps = list(correction.emissions)
        steps[step] = replace(steps[step], committed=batch)
        self.write(_settled(replace(correction, emissions=tuple(steps))))
        return (*steps[step].together, correction.id)

    def of_serial(self, serial: int) -> tuple[CorrectionRecord, int]:
        """The correction that has a step, and which of its steps that is.

        Raises:
            EngineError: There is none.
        """
        for each in self._all.values():
            for step, emitted in enumerate(each.emissions):
                if emitted.serial == serial:
                    return each, step
        raise EngineError(
            f"revision {serial} is not in the checkpoint",
            where=self._folder.path,
            hint="restore the checkpoint from a copy, or start the query with a new checkpoint",
        )

    def revisions(
        self, correction: CorrectionRecord, step: int, outputs: Sequence[pa.Schema]
    ) -> list[Revision | None]:
        """What a step changes in each output."""
        return [
            self._records.revision(correction, step, number, schema)
            for number, schema in enumerate(outputs)
        ]

    def numbers(self, outputs: Sequence[EventBatch]) -> tuple[int, ...]:
        """The number of the revision that each output gets; 0 where nothing changes."""
        last = [0] * len(outputs)
        for each in self._all.values():
            for step in each.emissions:
                last = [max(a, b) for a, b in zip(last, step.numbers, strict=True)]
        return tuple(n + 1 if len(rows) else 0 for n, rows in zip(last, outputs, strict=True))

    def earlier(self, correction: CorrectionRecord) -> dict[str, set[int]]:
        """The batches whose late rows count already, per source."""
        found: dict[str, set[int]] = {}
        for each in self.all():
            if each.id < correction.id and each.is_applied:
                found.setdefault(each.source, set()).add(each.batch)
        return found

    def outside(self) -> list[CorrectionRecord]:
        """The corrections whose rows are not in the state of the query, and may never be."""
        taken = {
            number
            for each in self.all()
            for step in each.emissions
            if step.committed is not None
            for number in (each.id, *step.together)
        }
        return [each for each in self.all() if each.source and each.id not in taken]

    def others(self, correction: CorrectionRecord) -> list[CorrectionRecord]:
        """Corrections whose rows are in the query from their bound on, and before it are not.

        Those of earlier corrections count at every instant, unless these are in quarantine.
        """
        return [
            each
            for each in self.all()
            if each.source
            and each.status != "ignored"
            and (each.id > correction.id or (each.id < correction.id and not each.is_applied))
        ]


def _settled(correction: CorrectionRecord) -> CorrectionRecord:
    """The record, committed if all of it is in the output."""
    waits = any(step.committed is None for step in correction.emissions)
    if correction.done < correction.bound or waits:
        return correction
    return replace(correction, status="committed")
