"""How far results of windows are settled, and when windows are forgotten, in words."""

from __future__ import annotations

from typing import Final

from anabranch.algebra.apply_module import ApplyModule

_EVERY_EVENT: Final = "; an event is forgotten with the last of its windows"


def liveliness(node: ApplyModule) -> str:
    """How far results are settled once the input is, up to a stable point.

    The stricter rule counts where several modules answer together.
    """
    if not node.time_sensitive:
        return (
            "results are settled up to the start of the earliest window that ends after the "
            "stable point"
        )
    if node.timestamps == "time_bound":
        return "results are settled up to the stable point"
    if node.sees_ends:
        return (
            "results are settled up to the start of the earliest window that ends after the stable "
            "point, or has an event that ends there or later"
        )
    return (
        "results are settled up to the end of the latest window that has ended by the stable "
        "point, and not past the start of one that has not"
    )


def cleanup(node: ApplyModule) -> str:
    """When windows and events are forgotten."""
    if node.sees_ends:
        rule = "a window is forgotten when all its events have ended by the stable point"
    else:
        rule = "a window is forgotten when it has ended by the stable point"
    return rule + _EVERY_EVENT


def warning(node: ApplyModule) -> str | None:
    """Why windows may have to be kept for long; None where they have not."""
    if not node.sees_ends or node.input.properties.only_points:
        return None
    names = ", ".join(
        dict.fromkeys(call.module.name for call in node.calls if call.module.time_sensitive)
    )
    return (
        f"{names} may see an end that lies behind its window: an event that holds for long keeps "
        "all its windows; clip 'right' or 'full' lets them go"
    )
