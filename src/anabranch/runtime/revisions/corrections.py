"""Late rows of sources in the order in which they came, and how far answers are corrected for them.

A correction changes answers before its bound. They can be corrected as far as the output is
settled, and that may be less than the bound where another source is behind. So a correction may be
emitted in two steps or more, each up to the stable point of the output. What makes several
corrections add up is their order: the answers that a correction is compared with are those with all
earlier ones and none of the later ones, whichever have been emitted. At every instant they are
emitted in that order, so that no answer is withdrawn before it is there: whenever one is corrected
further, all earlier ones are, too.

From its bound on a correction is not replayed: that part has entered the query. So a correction of
another source may be replayed at instants at which a later one is in the answers already. Example:
S is promised up to 28 and T up to 10. First a row of S comes for [14, 50), then one of T for
[5, 28). In [14, 28) the row of T is in the query, and that of S is not: its replay must see it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from anabranch.model.time import BEGINNING, Time


class Corrects(Protocol):
    """A correction: answers before `done` are corrected, those from `bound` on need not be."""

    @property
    def bound(self) -> int:
        """No answer from here on changes, but by what was sent on."""

    @property
    def done(self) -> int:
        """Answers before this are corrected."""

    @property
    def source(self) -> str:
        """What is corrected."""

    @property
    def batch(self) -> int:
        """The batch that brought it."""


CorrectsT = TypeVar("CorrectsT", bound=Corrects)


def due(corrections: Sequence[CorrectsT], stable: Time) -> list[tuple[CorrectsT, Time, Time]]:
    """The corrections to emit once the output is settled so far, and for which instants.

    Nothing as long as none of them is new or can be completed: then each settled instant would
    lead to another replay.
    """
    is_new = any(each.done == BEGINNING for each in corrections)
    if not is_new and not any(each.done < each.bound <= stable for each in corrections):
        return []
    found = []
    for each in corrections:
        last = min(int(stable), each.bound)
        if each.done < last:
            found.append((each, Time(each.done), Time(last)))
    return found


def pieces(others: Sequence[Corrects], first: Time, last: Time) -> Iterator[tuple[Time, Time]]:
    """Cut a span of answers so that in each piece the same other corrections are in the query."""
    cuts = sorted({each.bound for each in others if first < each.bound < last})
    for begin, end in pairwise([int(first), *cuts, int(last)]):
        yield Time(begin), Time(end)


def with_entered(
    earlier: Mapping[str, Collection[int]], others: Iterable[Corrects], first: Time
) -> dict[str, set[int]]:
    """Per source, the batches whose late rows are part of what a correction is compared with.

    Args:
        earlier: Those of earlier corrections.
        others: All other corrections.
        first: The first instant of a piece.
    """
    found = {name: set(batches) for name, batches in earlier.items()}
    for each in others:
        if each.bound <= first:
            found.setdefault(each.source, set()).add(each.batch)
    return found
