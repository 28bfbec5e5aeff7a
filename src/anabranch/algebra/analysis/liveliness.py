"""How far results of windows are settled, and when windows are forgotten, in words."""

from __future__ import annotations

from typing import Final

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Snapshot

_EVERY_EVENT: Final = "; an event is forgotten with the last of its windows"


def settles_with_input(node: ApplyOperator) -> bool:
    """Whether all that holds before the stable point is settled, also of windows that go on.

    A window between two changes says the same wherever it ends, if modules see values only. So a
    window [6, forever) that becomes [6, 13) and [13, forever), by an event that starts at 13,
    keeps what it said of 6 to 13; before a stable point of 13 or less nothing changes.
    """
    shown = node.open_windows and node.columns is None
    return isinstance(node.window, Snapshot) and shown and not node.time_sensitive


def liveliness(node: ApplyOperator) -> str:
    """How far results are settled once the input is, up to a stable point.

    The stricter rule counts where several modules answer together.
    """
    if settles_with_input(node) or (node.time_sensitive and node.timestamps == "time_bound"):
        return "results are settled up to the stable point"
    if not node.time_sensitive:
        return (
            "results are settled up to the start of the earliest window that ends after the "
            "stable point"
        )
    if node.sees_ends:
        return (
            "results are settled up to the start of the earliest window that ends after the stable "
            "point, or has an event that ends there or later"
        )
    return (
        "results are settled up to the end of the latest window that has ended by the stable "
        "point, and not past the start of one that has not"
    )


def cleanup(node: ApplyOperator) -> str:
    """When windows and events are forgotten."""
    if node.sees_ends:
        rule = "a window is forgotten when all its events have ended by the stable point"
    else:
        rule = "a window is forgotten when it has ended by the stable point"
    return rule + _EVERY_EVENT


def warning(node: ApplyOperator) -> str | None:
    """Why windows may have to be kept for long; None where they have not."""
    if not node.sees_ends or node.input.properties.only_points:
        return None
    names = ", ".join(
        dict.fromkeys(call.operator.name for call in node.calls if call.operator.time_sensitive)
    )
    return (
        f"{names} may see an end that lies after its window: an event with a long lifetime keeps "
        "all its windows in the state; clip 'right' or 'full' releases them"
    )
