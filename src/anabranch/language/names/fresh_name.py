"""Names for columns that no other column has."""

from __future__ import annotations


def fresh_name(wanted: str, taken: set[str]) -> str:
    """A name that is not taken, whatever the case of its letters."""
    lower = {name.lower() for name in taken}
    name, number = wanted, 1
    while name.lower() in lower:
        number += 1
        name = f"{wanted}_{number}"
    return name
