"""Late rows of sources in the order in which they came, and how far answers are corrected for them.

A correction changes answers before its bound. They can be corrected as far as the output is
settled, and that may be less than the bound where another source is behind. So a correction may be
emitted in two steps or more, each up to the stable point of the output. What makes several
corrections add up is their order: the answers that a correction is compared with are those with all
earlier ones and none of the later ones, whichever have been emitted. At every instant they are
emitted in that order, so that no answer is withdrawn before it is there: whenever one is corrected
further, all earlier ones are, too.
"""

from __future__ import annotations

from collections.abc import Sequence
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
