"""Names that change: what is derived from them is bound anew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Protocol, final

from anabranch.algebra.node import Node
from anabranch.errors import AnabranchError
from anabranch.language.names.catalog import CatalogEntry


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BoundQuery:
    """A query that was bound: its plan, remarks for its author, the names it uses, its text."""

    node: Node
    notes: tuple[str, ...]
    uses: frozenset[str]
    text: str


class Wrong(Protocol):
    """Makes an error out of what happened and a hint."""

    def __call__(self, what: str, *, hint: str) -> AnabranchError:
        """The error."""


def bind_anew(
    entries: dict[str, CatalogEntry],
    again: Mapping[str, Callable[[], BoundQuery]],
    name: str | None,
    wrong: Wrong,
) -> None:
    """Bind again whatever is derived from a name that means something else now.

    Args:
        entries: All names; those that are derived are replaced.
        again: How to bind each derived one, by its name in small letters.
        name: The name that changed; None: any may have, so all that is derived is bound again.
        wrong: Makes an error out of what happened and a hint.

    Raises:
        AnabranchError: One does not bind any more, or would be derived from itself. Some entries
            are replaced already then: the caller has to put back what was there.
    """
    waiting = set(again) if name is None else users_of(entries, again, name)
    if name is not None and name.lower() in waiting:
        raise wrong(
            f"'{name}' would be derived from itself",
            hint="write its query over other streams, or give the new one another name",
        )
    while waiting:
        # One that is derived from none of those that still wait; there are no circles.
        key = next(
            each
            for each in entries
            if each in waiting and waiting.isdisjoint(used.lower() for used in entries[each].uses)
        )
        entry = entries[key]
        try:
            planned = again[key]()
        except AnabranchError as problem:
            of = "" if name is None else f" '{name}'"
            raise wrong(
                f"{entry.kind} '{entry.name}' uses{of or ' it'} and would no longer bind: "
                f"{problem.what}",
                hint=f"drop {entry.name} first, or keep what it needs",
            ) from problem
        entries[key] = replaced(entry, node=planned.node, query=planned.text, uses=planned.uses)
        waiting.discard(key)


def users_of(entries: Mapping[str, CatalogEntry], derived: Collection[str], name: str) -> set[str]:
    """Which of the names that are derived are so from this one, directly or not."""
    found: set[str] = set()
    new = {name.lower()}
    while new:
        new = {
            key
            for key, entry in entries.items()
            if key in derived and new & {used.lower() for used in entry.uses}
        } - found
        found |= new
    return found
