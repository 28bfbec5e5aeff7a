"""What an operator declares of itself, for those that rewrite and analyse plans.

A trait is a promise about every instance of a class, whatever its arguments. The defaults promise
nothing, so that a new operator is left alone until somebody has thought about it. What depends on
arguments (a time window of one chronon, an inner join) is asked where it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

Events = Literal["new", "one by one", "kept"]
KeptKeys = Literal["none", "at an instant", "in all of time"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Promises of an operator; x is what it reads, of several inputs each of them.

    Attributes:
        snapshot_reducible: A snapshot of the output follows from those of the inputs at that
            instant (Kraemer 2007, 10.4).
        same_snapshots: The output has the snapshots of x; only lifetimes are cut differently.
        keeps_payloads: Every payload of the output is one of x, perhaps with more columns.
        passes_presence: Which payloads are in the output follows from which are in x, and not from
            how often they are.
        keeps_keys: Columns that tell rows of x apart, at an instant or in all of time, tell rows of
            the output apart.
        keeps_length: A row of x counts in the output for as long as it holds.
        events: Each event of x becomes at most one: `one by one`, or `kept` if one lifetime never
            becomes two or is cut. Else they are made anew.
        writes_anew: Snapshot by snapshot, and lifetimes as long as can be: cuts in x do not show.
        cuts: Events end where no snapshot changes.
        retimes: The lifetimes of a payload follow from those of the same payload in x, and nothing
            but times changes.
        moves_instants: An instant of x becomes the same instants for all payloads.
    """

    snapshot_reducible: bool = False
    same_snapshots: bool = False
    keeps_payloads: bool = False
    passes_presence: bool = False
    keeps_keys: KeptKeys = "none"
    keeps_length: bool = False
    events: Events = "new"
    writes_anew: bool = False
    cuts: bool = False
    retimes: bool = False
    moves_instants: bool = False

    @property
    def changes_with_inputs(self) -> bool:
        """Whether the output changes only where an input does."""
        return self.snapshot_reducible and not self.cuts
