"""Which queries a group has now: those of its script, with those that have joined and left since.

A group is started by a script. Queries join it and leave it by commands, and the checkpoint has a
record of each. Whoever starts the same script again finds here what has become of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from anabranch.host import ReadApart
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.planning import PlannedQueries
from anabranch.runtime.sources.location import full_path
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord
from anabranch.runtime.store.query_record import read_query_record
from anabranch.targets import Target

if TYPE_CHECKING:
    from anabranch.stream import Stream


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One of several queries that run together.

    Attributes:
        name: What it is called.
        query: The query.
        to: Where its results go.
        is_joined: True for one that is not in the script.
    """

    name: str
    query: Stream
    to: Target
    is_joined: bool = False

    def is_called(self, name: str) -> bool:
        """Whether a command means it: by its name, or by the path of its output."""
        return name == self.name or full_path(name) == full_path(str(self.to))


def is_regrouped(checkpoint: str | None) -> bool:
    """Whether queries have joined or left the one that a checkpoint began with."""
    stored = None if checkpoint is None else read_query_record(checkpoint)
    if checkpoint is None or stored is None or stored.in_force is None:
        return False
    records = MigrationFolder.of(checkpoint).records()
    return any(each.verb != "change" and each.state != "refused" for each in records)


def members_now(
    members: Sequence[GroupMember],
    checkpoint: str | None,
    read: ReadApart,
    plan: Callable[[Sequence[Any]], PlannedQueries],
) -> list[GroupMember]:
    """The queries that a checkpoint has now, where the group has changed since its script.

    The given ones come back where they are what the checkpoint has, or where its records do not
    tell: a start then refuses what is not the same.

    Args:
        members: The queries of the script.
        checkpoint: The checkpoint of the group, if it has one.
        read: Reads the script of a query that has joined.
        plan: Plans queries as a start does.
    """
    given = list(members)
    stored = None if checkpoint is None else read_query_record(checkpoint)
    if checkpoint is None or stored is None or stored.in_force is None:
        return given
    accepted = stored.in_force.asked
    if _print_of(given, plan) in accepted:
        return given
    found: list[GroupMember] | None = given
    for record in MigrationFolder.of(checkpoint).records():
        # The last change may not be marked as over, if the process died right behind it.
        is_made = record.state in ("switched", "finished")
        if found is not None and (is_made or record.number == stored.in_force.migration):
            found = _after(found, record, read)
    if not found or _print_of(found, plan) not in accepted:
        return given
    return found


def _print_of(
    members: Sequence[GroupMember], plan: Callable[[Sequence[Any]], PlannedQueries]
) -> str:
    return plan_fingerprint(plan([each.query for each in members]).physical)


def _after(
    members: Sequence[GroupMember], record: MigrationRecord, read: ReadApart
) -> list[GroupMember] | None:
    """The members after a change; None where its record does not tell."""
    if record.verb == "drop":
        left = [each for each in members if not each.is_called(record.what)]
        return left if len(left) == len(members) - 1 else None
    if record.verb == "change":
        return _changed(members, record, read)
    if record.text is None or record.to is None:
        # It was added in Python: nobody else knows the query.
        return None
    query = read(record.text, record.script, record.modules)[-1]
    return [*members, GroupMember(name=record.what, query=query, to=record.to, is_joined=True)]


def _changed(
    members: Sequence[GroupMember], record: MigrationRecord, read: ReadApart
) -> list[GroupMember] | None:
    """A query has become another one: that of the script says itself what it is now."""
    numbers = record.outputs or (0,)
    if max(numbers) >= len(members):
        return None
    joined = [number for number in numbers if members[number].is_joined]
    if record.reoptimize or not joined:
        return list(members)
    queries = [] if record.text is None else read(record.text, record.script, record.modules)
    if len(queries) != len(members):
        return None
    found = list(members)
    for number in joined:
        found[number] = replace(found[number], query=queries[number])
    return found
