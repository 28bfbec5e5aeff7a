"""When the answer of a job becomes visible in files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LOOK: Final = 0.02
"""Seconds between two looks."""

_HIDDEN: Final = (".", "_")
"""What the names of files begin with that are not there yet."""

Seen = tuple[float, int]
"""Seconds since the start, and the bytes of the answer that can be read then."""


def answer_bytes(out: Path) -> int:
    """The bytes of the answer in a folder: of its files `answer*`, or of those in its log."""
    return sum(_bytes_in(place) for place in (*out.glob("answer*"), out / "log") if place.exists())


def _bytes_in(place: Path) -> int:
    if place.is_file():
        return place.stat().st_size
    total = 0
    for folder, inner, files in os.walk(place):
        inner[:] = [name for name in inner if not name.startswith(_HIDDEN)]
        for name in files:
            if not name.startswith(_HIDDEN) and not name.endswith((".crc", ".json")):
                try:
                    total += (Path(folder) / name).stat().st_size
                except FileNotFoundError:
                    # It has just got another name.
                    continue
    return total


@contextmanager
def watched(out: Path) -> Iterator[list[Seen]]:
    """Look again and again how much of an answer is there, until the block ends."""
    seen: list[Seen] = []
    ended = threading.Event()
    began = time.perf_counter()

    def look() -> None:
        done = False
        while not done:
            done = ended.wait(_LOOK)
            seen.append((time.perf_counter() - began, answer_bytes(out)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def visible_after(seen: Sequence[Seen], part: float, seconds: float) -> float:
    """The seconds after which such a part of the answer was visible; at the latest at the end.

    >>> visible_after([(0.1, 0), (0.2, 50), (0.3, 98), (0.4, 99), (0.5, 100)], 0.99, 0.5)
    0.4
    """
    wanted = part * max((size for _, size in seen), default=0)
    found = (at for at, size in seen if size >= wanted > 0)
    return min(next(found, seconds), seconds)
