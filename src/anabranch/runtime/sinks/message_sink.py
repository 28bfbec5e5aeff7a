"""Results as messages with keys, for queues such as Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import pyarrow as pa

from anabranch.model.clock import INTEGERS
from anabranch.model.files.line_writer import element_lines, revision_line, stable_line
from anabranch.model.revision import Revision
from anabranch.model.time import Time
from anabranch.runtime.sinks.sinks import (
    Begin,
    ShardResult,
    Sink,
    named_failures,
    new_revisions,
    promised_before,
    rows_of_shards,
)

Send: TypeAlias = Callable[[Sequence[tuple[bytes, bytes]]], object]
"""A user's function: sends messages, key and value each, and returns when all have arrived."""


@final
@dataclass(frozen=True, slots=True)
class Messages:
    """A target for results: every element becomes a message.

    The value is the line of a stream file. The key is `<query>/<batch>/<number>`, the same
    whenever a batch is repeated: a queue that keeps one message per key (a compacted topic), or a
    reader that knows the last key it has seen, has every element once. Numbers are padded with
    zeros, so keys sort in the order of the stream.

    A revision is one message, sent before the elements of its batch. Its key is
    `<query>/revision/<number>`, also where it is repeated with a later batch.
    """

    send: Send


@final
class MessageSink(Sink):
    """One call of the user's function per batch."""

    def __init__(self, messages: Messages) -> None:
        """Send by this function."""
        self._send = messages.send
        self._begin = Begin(pa.schema([]), "", INTEGERS, True)
        self._revision = 0

    def open(self, begin: Begin) -> None:
        """Remember how elements are written."""
        self._begin = begin

    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """Send the revisions, the elements of the batch, and its stable point if it has moved."""
        clock = self._begin.clock
        sent = [
            (f"{self._begin.query}/revision/{each.number:09}", revision_line(each, clock=clock))
            for each in new_revisions(revisions, self._revision)
        ]
        data = element_lines(rows_of_shards(results, self._begin.schema), clock=clock)
        if stable > promised_before(batch, self._begin, results):
            data += stable_line(stable, clock=clock)
        sent += [
            (f"{self._begin.query}/{batch:09}/{number:09}", value)
            for number, value in enumerate(data.splitlines())
        ]
        if not sent:
            return
        with named_failures(self._send, f"batch {batch}, {len(sent)} messages"):
            self._send([(key.encode(), value.rstrip(b"\n")) for key, value in sent])
        self._revision = max([self._revision, *(each.number for each in revisions)])
