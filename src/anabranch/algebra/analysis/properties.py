"""What is known of a stream before it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Order = Literal["none", "start", "strict"]


@dataclass(frozen=True, slots=True)
class Properties:
    """What is known of a stream before it runs.

    Attributes:
        insert_only: No adjusts ever come.
        only_points: Every lifetime is one chronon long.
        no_duplicates: No payload holds twice at one instant.
        keyed: No two events have the same payload and start. (Follows from no_duplicates.)
        single: At most one payload holds at an instant, once. (Implies no_duplicates.)
        order: Elements come by start: `start`, `strict` if no two starts are equal, or `none`.
        ties: Elements of one start come in one order in every copy of the stream, or can be put in
            one as soon as they are settled, because they are there as a whole.
    """

    insert_only: bool = False
    only_points: bool = False
    no_duplicates: bool = False
    keyed: bool = False
    single: bool = False
    order: Order = "none"
    ties: bool = False

    def __post_init__(self) -> None:
        if self.single:
            object.__setattr__(self, "no_duplicates", True)
        if self.no_duplicates:
            object.__setattr__(self, "keyed", True)

    def emitted(self, emission: str) -> Properties:
        """What leaves: final emission only inserts, in order, cut where the stable point stood."""
        if emission != "final":
            return self
        return replace(
            self,
            insert_only=True,
            keyed=self.no_duplicates,
            order="strict" if self.single else "start",
            ties=self.only_points,
        )

    def meet(self, other: Properties) -> Properties:
        """What holds of both streams."""
        orders = (self.order, other.order)
        order: Order = "none" if "none" in orders else "start" if "start" in orders else "strict"
        return Properties(
            insert_only=self.insert_only and other.insert_only,
            only_points=self.only_points and other.only_points,
            no_duplicates=self.no_duplicates and other.no_duplicates,
            keyed=self.keyed and other.keyed,
            single=self.single and other.single,
            order=order,
            ties=self.ties and other.ties,
        )

    def loosened(self, **changed: bool) -> Properties:
        """The same where starts may coincide that did not before."""
        order: Order = "none" if self.order == "none" else "start"
        changed = {"ties": False, **changed}
        return replace(self, keyed=self.no_duplicates, order=order, **changed)

    @property
    def label(self) -> str:
        """In words: `insert-only, points, no duplicates, in order`."""
        named = {
            "insert-only": self.insert_only,
            "points": self.only_points,
            "at most one row at a time": self.single,
            "no duplicates": self.no_duplicates and not self.single,
            "no two with one start": self.keyed and not self.no_duplicates,
            "in order": self.order == "start",
            "in strict order": self.order == "strict",
            "ties": self.ties and self.order == "start" and not self.keyed,
        }
        return ", ".join(name for name, holds in named.items() if holds) or "any"
