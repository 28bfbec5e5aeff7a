"""Who decides in a merge, how far, and what is still compared with those who are behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.kernels.merge.copies import Copies, InputState
from anabranch.model.time import BEGINNING, FOREVER, Time


@final
@dataclass(frozen=True, slots=True, eq=False)
class Lead:
    """Who decides, and how far. Inputs are in columns.

    Attributes:
        keys: Under which numbers the inputs are remembered.
        leader: The index of the one that leads.
        since: The output's stable point before the batch.
        until: The output's stable point after the batch.
        was: What of the output each input had settled before the batch.
        now: What of the output each input has settled after it.
        vouched: From which end on each input vouches for events; FOREVER: not at all, for now.
        slow: What of the output all inputs have settled: before that nobody can contradict any
            more, or is not compared.
        forgotten: What of the output was forgotten before the batch.
        joins: An input has joined since the last time: what it said before counts from now on.
    """

    keys: tuple[int, ...]
    leader: int | None
    since: Time
    until: Time
    was: Ints
    now: Ints
    vouched: Ints
    slow: Time
    forgotten: Time
    joins: bool = False

    def bounded(self, age: Ints, most: int | None) -> Lead:
        """The same, where no more than the latest `most` events that are settled are kept.

        `age` is until when each node matters. If the stable point has moved, these are all nodes
        that start before it; those that end before it, too, are there for comparison only.
        """
        if most is None or self.before is None:
            return self
        kept = age[(age < self.until) & (age >= self.slow)]
        if len(kept) <= most:
            return self
        # The latest one that is one too many, and all that matter no longer than it.
        place = len(kept) - most - 1
        return replace(self, slow=Time(int(np.partition(kept, place)[place]) + 1))

    @property
    def before(self) -> Time | None:
        """All that began before is looked at: what is settled now and was not, or counts now."""
        if self.joins:
            return FOREVER
        compares = bool((self.comparable & (self.now > self.was)).any())
        return self.until if self.until > self.since or compares else None

    @property
    def joined(self) -> Mask:
        """Who has joined: others prompt nothing."""
        return np.asarray(self.vouched < FOREVER)

    @property
    def comparable(self) -> Mask:
        """Who has settled something that it vouches for.

        Before that, what goes on as yet may still end too early for it to know.
        """
        return self.joined & (self.vouched <= self.now)


def lead_of(before: Copies, copies: Copies, since: Time, until: Time) -> Lead:
    """Who leads from one stable point of the output to the next."""
    heard = copies.heard
    leader = [index for index, copy in enumerate(heard) if copy.number == copies.leader]
    promised = {copy.key: copy.stable for copy in before.each}
    joining = {copy.key for copy in before.each if copy.status == "joining"}
    vouched = [max(c.since, c.known) if c.status == "joined" else FOREVER for c in heard]
    was = [min(promised.get(copy.key, BEGINNING), since) for copy in heard]
    # Nothing was compared before they had settled something that they vouch for.
    was = [
        BEGINNING if copy.key in joining or settled < since_when else settled
        for copy, settled, since_when in zip(heard, was, vouched)
    ]
    now = [min(copy.stable, until) for copy in heard]

    def settled(copy: InputState) -> int:
        # What ended before `known` is not compared with it, however far it is.
        return min(max(copy.stable, copy.known), int(until))

    return Lead(
        tuple(copy.key for copy in heard),
        leader[0] if leader else None,
        since,
        until,
        np.array(was, np.int64),
        np.array(now, np.int64),
        np.array(vouched, np.int64),
        Time(min(map(settled, heard), default=int(until))),
        Time(before.forgotten),
        joins=any(c.status == "joined" and c.key in joining for c in heard),
    )
