"""What a merge takes for granted of its inputs: the less, the more it has to remember."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

Case: TypeAlias = Literal["r0", "r1", "r2", "r3", "r4"]

CASES: Final[tuple[Case, ...]] = get_args(Case)
ORDERED: Final[tuple[Case, ...]] = ("r0", "r1", "r2")
"""Those in which inputs only insert, by start, so that next to nothing is remembered."""

BEST_FIRST: Final[tuple[Case, ...]] = ("r0", "r2", "r1", "r3", "r4")
"""The order in which one is chosen: r1 asks for less than r2, and looks at ties one by one."""

SAYS: Final = {
    "r0": "inserts in strict order",
    "r1": "inserts in order, ties in one order everywhere",
    "r2": "inserts in order, no two of one payload and start",
    "r3": "no two of one payload and start",
    "r4": "anything",
}
"""What each case takes for granted of every input."""
