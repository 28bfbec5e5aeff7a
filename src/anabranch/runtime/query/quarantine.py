"""Windows that modules failed for: what is told of them, and where some of them are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, final

from anabranch.runtime.store.folder import Folder

_EVENTS: Final = "events"
"""What is told of a window that is quarantined, and of no other."""


def failed_windows(batch: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What is told of failed windows in the metrics of a batch.

    Keys: `batch`, `stage`, `shard`, `module`, `reason`, `window` (start and end), `group`, `event`
    (the one that seems to be the reason); of a quarantined window also `events` (the first ones)
    and `count` (how many it has).
    """
    for stage, counted in batch["stages"].items():
        for report in counted.get("reports", ()):
            yield from failure_notes(batch["batch"], stage, report["shard"], report)


def failure_notes(
    batch: int, stage: str, shard: int, report: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """What one shard of a stage reports of failed windows."""
    for failure in report.get("failures", ()):
        yield {"batch": batch, "stage": stage, "shard": shard, **failure}


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

    def note(self, batch: int, failures: Sequence[Mapping[str, Any]]) -> None:
        """Write down the quarantined windows of a batch."""
        name = f"{batch}.jsonl"
        kept = [each for each in failures if _EVENTS in each]
        if kept:
            lines = [json.dumps(each, ensure_ascii=False) for each in kept]
            self._folder.write(name, "".join(f"{line}\n" for line in lines).encode())
        elif name in self._left:
            # It is repeated, and the module has been mended.
            self._folder.remove(name)

    def read(self) -> list[dict[str, Any]]:
        """All windows there are, oldest batch first."""
        names = [name for name in self._folder.names() if name.endswith(".jsonl")]
        found: list[dict[str, Any]] = []
        for name in sorted(names, key=lambda name: int(name.removesuffix(".jsonl"))):
            data = self._folder.read(name) or b""
            found += [json.loads(line) for line in data.decode().splitlines()]
        return found
