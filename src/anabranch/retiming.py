"""Methods that change when rows hold: samples, cuts, points, shifts and other lifetimes."""

from __future__ import annotations

from typing import Any, TypeVar

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.clip import Clip
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import SIGN, ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import clock_of
from anabranch.algebra.shift import Shift
from anabranch.algebra.to_stream import Anchor, ToStream
from anabranch.windowed import Span, Windowing

R = TypeVar("R", bound="Retiming")


class Retiming(Windowing):
    """What a stream can change lifetimes by; payloads stay as they are, but for signs."""

    __slots__ = ()

    def granularity(self: R, granule: Span) -> R:
        """Sample and hold: what holds at a multiple of the granule holds up to the next one."""
        length = clock_of(self.node).duration(granule)
        return self._with(Granularity(input=self.node, granule=length))

    def split(self: R, length: Span) -> R:
        """Cut lifetimes into pieces of at most this length; no snapshot changes."""
        return self._with(Split(input=self.node, length=clock_of(self.node).duration(length)))

    def istream(self: R) -> R:
        """A point wherever a row begins to hold."""
        return self._with(ToStream(input=self.node, kind="insertions"))

    def dstream(self: R, *, anchor: Anchor = "last_valid") -> R:
        """A point wherever a row ceases to hold: its last instant, or the first without it."""
        return self._with(ToStream(input=self.node, kind="deletions", anchor=anchor))

    def rstream(self: R) -> R:
        """Every row at every instant as a point of its own."""
        return self._with(ToStream(input=self.node, kind="snapshots"))

    def to_signed(self: R, column: str = SIGN) -> R:
        """Changes in place of lifetimes: points with +1 where a row begins, -1 where it ends."""
        return self._with(ToSigned(input=self.node, column=column))

    def from_signed(self: R, column: str = SIGN) -> R:
        """Lifetimes from points with a sign."""
        return self._with(FromSigned(input=self.node, column=column))

    def cleanse(self: R, *, cut: bool = True) -> R:
        """Only settled events, in order of start, never corrected.

        With `cut` lifetimes are cut at the stable point; without it they are written whole, and
        an event without an end holds back everything after it.
        """
        return self._with(Cleanse(input=self.node, cut=cut))

    def shift(self: R, by: Span) -> R:
        """Move all lifetimes: `"5 minutes"` later, `"-5 minutes"` earlier."""
        return self._with(Shift(input=self.node, by=clock_of(self.node).distance(by)))

    def clip(self: R, start: Any = None, end: Any = None) -> R:
        """Only what holds from `start` on and before `end`."""
        clock = clock_of(self.node)
        low = None if start is None else clock.instant(start, exact=True)
        high = None if end is None else clock.instant(end, exact=True)
        return self._with(Clip(input=self.node, start=low, end=high))

    def lifetime(
        self: R,
        *,
        duration: Span | None = None,
        extend: Span | None = None,
        at_most: Span | None = None,
    ) -> R:
        """Change how long rows hold: for a fixed time, longer by some, or no longer than that."""
        clock = clock_of(self.node)
        node = AlterLifetime(
            input=self.node,
            duration=None if duration is None else clock.duration(duration),
            extend=None if extend is None else clock.duration(extend),
            at_most=None if at_most is None else clock.duration(at_most),
        )
        return self._with(node)
