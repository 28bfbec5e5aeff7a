"""Windows for which user operators failed: reports, and the log of the quarantine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from anabranch.model.record import OMITTED, plain, record, record_of_text
from anabranch.runtime.query.metrics import BatchMetrics
from anabranch.runtime.store.folder import Folder


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FailedEvent:
    """An event of a window, for people."""

    values: str
    start: str
    end: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FailedWindow:
    """The report of a window for which a user operator gave no results.

    Attributes:
        batch: The batch in which it failed.
        stage: The stage.
        shard: The shard of the stage.
        module: The user operator.
        reason: What it said.
        window: Start and end of the window.
        group: The group, where there are groups.
        event: The event that seems to be the reason.
        events: The first events of the window, where it is quarantined.
        count: How many events it has, where it is quarantined.
    """

    batch: int
    stage: str
    shard: int
    module: str
    reason: str
    window: tuple[str, str]
    group: str | None
    event: str
    events: tuple[FailedEvent, ...] | None = field(default=None, metadata=OMITTED)
    count: int | None = field(default=None, metadata=OMITTED)


def failed_windows(batch: BatchMetrics) -> Iterator[FailedWindow]:
    """The failed windows in the metrics of a batch."""
    for stage, counted in batch.stages.items():
        for report in counted.reports:
            yield from reported_windows(batch.batch, stage, report)


def reported_windows(
    batch: int, stage: str, report: Mapping[str, object]
) -> Iterator[FailedWindow]:
    """What one shard of a stage reports of failed windows; shard 0 if it does not say which."""
    failures = report.get("failures", ())
    assert isinstance(failures, list | tuple)
    about = {"batch": batch, "stage": stage, "shard": report.get("shard", 0)}
    for failure in failures:
        yield record(FailedWindow, {**about, **failure}, where=f"a report of stage {stage}")


@final
class Quarantine:
    """A folder with a file of JSON lines for every batch that had to put windows aside.

    A batch that is repeated writes its file again, so nothing is there twice. Nobody reads these
    files but people: they may be removed at any time.
    """

    def __init__(self, checkpoint: str) -> None:
        """That of a checkpoint; it need not exist yet."""
        self._folder = Folder.at(checkpoint).child("quarantine")
        self._left = frozenset(self._folder.names())

    def note(self, batch: int, failures: Sequence[FailedWindow]) -> None:
        """Write down the quarantined windows of a batch."""
        name = f"{batch}.jsonl"
        kept = [each for each in failures if each.events is not None]
        if kept:
            lines = [json.dumps(plain(each), ensure_ascii=False) for each in kept]
            self._folder.write(name, "".join(f"{line}\n" for line in lines).encode())
        elif name in self._left:
            # It is repeated, and the module has been mended.
            self._folder.remove(name)

    def read(self) -> list[FailedWindow]:
        """All windows there are, oldest batch first."""
        names = [name for name in self._folder.names() if name.endswith(".jsonl")]
        found: list[FailedWindow] = []
        for name in sorted(names, key=lambda name: int(name.removesuffix(".jsonl"))):
            data = self._folder.read(name) or b""
            where = f"{self._folder.path}/{name}"
            hint = "remove the file: queries do not need it"
            found += [
                record_of_text(FailedWindow, line, where=where, hint=hint)
                for line in data.decode().splitlines()
            ]
        return found
