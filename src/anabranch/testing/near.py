"""Compare with another engine, whose sums of floats depend on the order of adding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from anabranch.model.logical import LogicalStream

TOLERANCE: Final = 1e-9
"""Floats of another engine may differ by this part, or by this much, whatever is more."""


def difference_from_engine(ours: LogicalStream, theirs: LogicalStream) -> str:
    """Where our stream first differs from another engine's, empty where they are near.

    >>> one, two = (LogicalStream.of([((x,), 0, 1)]) for x in (0.3, 0.1 + 0.2))
    >>> difference_from_engine(one, two), one.difference(two) == ""
    ('', False)
    """
    if not ours.difference(theirs):
        return ""
    near = _representatives(_floats([*ours.steps, *theirs.steps]))
    return _replaced(ours, near).difference(_replaced(theirs, near))


def _replaced(stream: LogicalStream, by: Mapping[float, float]) -> LogicalStream:
    return LogicalStream.of(
        (tuple(_replace_floats(value, by) for value in payload), start, end)
        for payload, start, end in stream.events()
    )


def _floats(values: Iterable[Any]) -> Iterator[float]:
    for value in values:
        if isinstance(value, tuple):
            yield from _floats(value)
        elif isinstance(value, float) and math.isfinite(value):
            yield value


def _representatives(values: Iterable[float]) -> dict[float, float]:
    """Each float's smallest neighbour: neighbours are chains of values within the tolerance."""
    nearest: dict[float, float] = {}
    last = math.nan
    for value in sorted(set(values)):
        close = math.isclose(value, last, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        nearest[value] = nearest[last] if close else value
        last = value
    return nearest


def _replace_floats(value: Any, by: Mapping[float, float]) -> Any:
    if isinstance(value, tuple):
        return tuple(_replace_floats(part, by) for part in value)
    return by.get(value, value) if isinstance(value, float) else value
