"""The revisions of copies that a running query merges: each leaves once, by its number.

Copies of one stream have the same revisions under the same numbers. Whichever log has the next
number brings it, once the merged stream is settled as far as it goes. The driver looks for it when
a batch is committed, and hands a command `revise <number>` to the control stream. So the plan of a
batch decides which one brings it, and a batch that is repeated after a crash brings it again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

from anabranch.algebra.merge import Divergence, Merge
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.errors import StreamError
from anabranch.kernels.contract.command import REVISE, Command
from anabranch.model.batch import EventBatch
from anabranch.model.revision import Revision, reversed_changes, snapshot_changes
from anabranch.model.time import Time
from anabranch.runtime.revisions.lineage import Lifetimes
from anabranch.runtime.sources.files.copies import list_copies
from anabranch.runtime.sources.files.listing import is_log_folder
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.files.log_records import LogRevision
from anabranch.runtime.store.control import ControlFolder

_LOG: Final = logging.getLogger("anabranch.notes")


def merged_copies(nodes: Sequence[Node]) -> Merge | None:
    """The merge of one source of copies that a query is; None for any other query."""
    if len(nodes) != 1 or not isinstance(nodes[0], Merge) or len(nodes[0].inputs) != 1:
        return None
    (source,) = nodes[0].inputs
    return nodes[0] if isinstance(source, Source) and source.copies else None


@final
@dataclass(slots=True, eq=False)
class CopiedRevisions:
    """What is known of the revisions in the logs of copies.

    Attributes:
        pattern: Where the copies are.
        control: The control stream of the query.
        divergence: What becomes of a revision that differs from that of another copy.
    """

    pattern: str
    control: ControlFolder
    divergence: Divergence
    _handed_in: int = field(init=False)
    _known: dict[str, dict[int, LogRevision]] = field(default_factory=dict)
    _compared: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Go on behind the commands that were handed in."""
        self._handed_in = max(self.control.values(REVISE), default=0)

    def revisions(self, batch: int, commands: Sequence[Command]) -> list[list[Revision]]:
        """Those that a batch with these commands brings to the output.

        Raises:
            StreamError: No copy has one of them any more.
        """
        del batch
        numbers = [each.value for each in commands if each.verb == REVISE and each.value]
        if any(self._first_with(number) is None for number in numbers):
            self._look()
        return [[self._read(number) for number in sorted(numbers)]]

    def committed(
        self,
        batch: int,
        commands: Sequence[Command],
        stables: Sequence[Time],
        lifetimes: Sequence[Lifetimes] = (),
    ) -> None:
        """Hand in the next revisions of an output that is settled so far.

        Raises:
            StreamError: Two copies differ in a revision, and that is not to be.
        """
        del batch, commands, lifetimes
        self._look()
        self._compare()
        (stable,) = stables
        while True:
            name = self._first_with(self._handed_in + 1)
            if name is None or self._known[name][self._handed_in + 1].last > stable:
                return
            self._handed_in += 1
            self.control.put(Command(verb=REVISE, value=self._handed_in))

    def _look(self) -> None:
        """Find the revisions of all copies that are logs."""
        for path in sorted(map(str, list_copies(self.pattern).values())):
            if is_log_folder(path):
                own = self._known.setdefault(path, {})
                for entry in LogFolder(path).entries(self._seen.get(path)):
                    self._seen[path] = entry.batch
                    own |= {each.number: each for each in entry.revisions}

    def _first_with(self, number: int) -> str | None:
        return next((name for name, own in self._known.items() if number in own), None)

    def _read(self, number: int, copy: str | None = None) -> Revision:
        name = copy or self._first_with(number)
        if name is None:
            raise StreamError(
                f"revision {number} is in none of the copies any more",
                where=self.pattern,
                hint="a copy had it when the batch was planned: restore that copy",
            )
        return LogFolder(name).read_revision(self._known[name][number])

    def _compare(self) -> None:
        """Compare what is new in a copy with the same number in the first one that has it."""
        for name, own in self._known.items():
            before = self._compared.get(name, 0)
            for number in sorted(each for each in own if each > before):
                first = self._first_with(number)
                if first is not None and first != name:
                    self._refuse_other(first, name, number)
                self._compared[name] = number

    def _refuse_other(self, first: str, name: str, number: int) -> None:
        one, other = self._read(number, first), self._read(number, name)
        both = EventBatch.concat([one.changes, reversed_changes(other.changes)])
        if not len(snapshot_changes(both)):
            return
        what = f"revision {number} differs from that of '{first}'"
        if self.divergence == "fail":
            raise StreamError(
                what,
                where=f"copy '{name}'",
                hint="find out which copy is right, and remove the other one; with --divergence "
                "warn the merge continues with the revision of the first copy",
            )
        _LOG.warning("copy '%s': %s; it is left out", name, what)
