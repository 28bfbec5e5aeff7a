"""Text in columns; it needs no Arrow, which takes longer to load than most commands run."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(names: Sequence[str], columns: Sequence[Sequence[str]], numeric: set[int]) -> str:
    """The table as plain text; columns in `numeric` are set to the right.

    >>> print(aligned(["item", "price"], [["a", "bb"], ["80.0", "9.5"]], {1}), end="")
    item  price
    a      80.0
    bb      9.5
    """
    if not columns:
        return ""
    widths = [max(map(len, (name, *column))) for name, column in zip(names, columns)]
    lines = []
    for row in (names, *zip(*columns)):
        padded = [
            text.rjust(width) if index in numeric else text.ljust(width)
            for index, (text, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(padded).rstrip() + "\n")
    return "".join(lines)


def counted(total: int, shown: int, what: str) -> str:
    """How many there are, and how many of them are shown.

    >>> counted(1, 20, "row"), counted(2_000, 20, "row")
    ('1 row', '20 of 2,000 rows')
    """
    plural = what if total == 1 else f"{what}s"
    return f"{total:,} {plural}" if shown >= total else f"{shown:,} of {total:,} {plural}"
