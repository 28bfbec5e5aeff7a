"""The records of corrections in a checkpoint: from rows that came late to answers that change.

A correction is a file `revisions/<id>.json`, one for the late rows of a source in a batch. What it
makes of each output is in `revisions/<id>-<step>-<output>.arrow`. Every step writes the record
again, as a whole; a step that is repeated after a crash comes to the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, final

import pyarrow as pa

from anabranch.kernels.contract.packed_events import pack_events, unpack_events
from anabranch.model.batch import EventBatch
from anabranch.model.record import OMITTED, plain, record
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.archive.windowed_estimate import EstimatedAnswer
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.state_store import arrow_file

CorrectionStatus: TypeAlias = Literal[
    "received",
    "planned",
    "computed",
    "committed",
    "ignored",
    "archived",
    "quarantined",
    "estimated",
]
"""How far it has come.

`received`: late rows came, or more of what they change may be settled. `planned`: it is known what
has to be replayed. `computed`: what changes is known, and waits for a batch. `committed`: it is in
the output. `ignored` and `archived`: the query was started that way. `quarantined`: it cannot be
replayed; nothing else is lost. `estimated`: it cannot be replayed, but it is known within bounds
what it would change.
"""

_HINT: Final = "the checkpoint is damaged: restore it, or start with a new one"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedStep:
    """A step of a correction: what is emitted for the instants up to one.

    Attributes:
        serial: Steps of all corrections of a query count up from 1; the control stream names them.
        upto: Answers before this instant are corrected with it.
        numbers: Per output, the number of the revision that it becomes; 0 where nothing changes.
        rows: Per output, how many changes it has.
        committed: The batch that brought it into the output; None while it waits.
        strategy: How the replayed input was found.
        answers: The instants of answers that were computed again.
        inputs: Per source, the instants of input that were replayed.
        replayed: How many rows of input that were.
        seconds: How long the replay took.
        ran: Where it ran: in the driver, or as a job of Spark.
        restricted: Per source, the columns whose values had to occur in the correction.
        together: Earlier corrections that the step corrects answers for, too: their rows are in the
            state that it brings.
        after: The batch after which its state is the one to go on with; None where it has none.
    """

    serial: int
    upto: int
    numbers: tuple[int, ...]
    rows: tuple[int, ...]
    committed: int | None = None
    strategy: str = ""
    answers: tuple[int, int] = (0, 0)
    inputs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    replayed: int = 0
    seconds: float = 0.0
    ran: str = field(default="driver", metadata=OMITTED)
    restricted: Mapping[str, tuple[str, ...]] = field(default_factory=dict, metadata=OMITTED)
    together: tuple[int, ...] = field(default=(), metadata=OMITTED)
    after: int | None = field(default=None, metadata=OMITTED)

    def is_for(self, batch: int) -> bool:
        """Whether a batch can bring it: its state, if it has one, is that before the batch."""
        return self.after is None or self.after == batch - 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionRecord:
    """Late rows of a source in a batch, and what became of them.

    Attributes:
        id: They count up from 1, in the order in which they came.
        source: The name of the source.
        batch: The batch that brought the rows.
        rows: How many rows.
        first: The first instant of the source that they change.
        last: The instant after the last one.
        bound: Answers before this instant are corrected by replay.
        status: How far it has come.
        done: Answers before this instant have been computed.
        emissions: The steps so far.
        known_at: When they came, in microseconds since 1970.
        reason: Why it is in quarantine, or estimated only.
        estimated: How many answers were estimated.
        error: By how much the estimates are off at most.
        estimates: Those answers; of very many the ones with the widest bounds.
        missed: The serial numbers of steps whose state no batch could begin with. They are not
            given again: a command may still name them.
    """

    id: int
    source: str
    batch: int
    rows: int
    first: int
    last: int
    bound: int
    status: CorrectionStatus = "received"
    done: int = BEGINNING
    emissions: tuple[EmittedStep, ...] = ()
    known_at: int = 0
    reason: str = field(default="", metadata=OMITTED)
    estimated: int = field(default=0, metadata=OMITTED)
    error: float = field(default=0.0, metadata=OMITTED)
    estimates: tuple[EstimatedAnswer, ...] = field(default=(), metadata=OMITTED)
    missed: tuple[int, ...] = field(default=(), metadata=OMITTED)

    def is_below(self, batch: int) -> bool:
        """Whether it has no rows of its own, but what an exchange of state led to in a batch."""
        return not self.source and self.batch == batch

    @property
    def is_open(self) -> bool:
        """Whether there is still something to compute."""
        return self.status in ("received", "planned", "computed") and self.done < self.bound

    @property
    def is_applied(self) -> bool:
        """Whether its rows are part of what later corrections are compared with."""
        return self.status != "ignored" and not self.is_set_aside

    @property
    def is_set_aside(self) -> bool:
        """Whether the output stays as it is, because the input to be replayed is gone."""
        return self.status in ("quarantined", "estimated")


@final
@dataclass(frozen=True, slots=True)
class CorrectionFolder:
    """All records of a query."""

    folder: Folder

    def read(self) -> list[CorrectionRecord]:
        """Those that there are, oldest first."""
        ids = [name.removesuffix(".json") for name in self.folder.names()]
        found = [self._read(number) for number in sorted(int(i) for i in ids if i.isdigit())]
        return [each for each in found if each is not None]

    def write(self, correction: CorrectionRecord) -> None:
        """Put a record in place, or replace it."""
        self.folder.write_json(f"{correction.id}.json", plain(correction))

    def write_changes(self, correction: int, step: int, output: int, changes: EventBatch) -> None:
        """Keep what a step changes in an output."""
        name = f"{correction}-{step}-{output}.arrow"
        self.folder.write(name, arrow_file(pack_events(changes)))

    def revision(
        self, correction: CorrectionRecord, step: int, output: int, schema: pa.Schema
    ) -> Revision | None:
        """What a step changes in an output; None if that is nothing."""
        number = correction.emissions[step].numbers[output]
        if not number:
            return None
        data = self.folder.read(f"{correction.id}-{step}-{output}.arrow")
        assert data is not None, f"{self.folder.path}: correction {correction.id} was computed"
        rows = pa.ipc.open_file(pa.py_buffer(data)).get_batch(0)
        return Revision.of(number, unpack_events(rows, schema, Time(BEGINNING)))

    def _read(self, number: int) -> CorrectionRecord | None:
        name = f"{number}.json"
        content = self.folder.read_json(name)
        where = f"{self.folder.path}/{name}"
        return (
            None if content is None else record(CorrectionRecord, content, where=where, hint=_HINT)
        )
