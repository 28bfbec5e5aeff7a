"""What the JVM and the Python workers write to standard error, without what helps nobody.

The JVM warns of a module that Spark itself asks for, and the daemon that forks workers prints a
traceback when it is interrupted or its parent goes. Both read like failures. Everything else goes
through as it is.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final

_INCUBATOR: Final = b"WARNING: Using incubator modules"
_TRACEBACK: Final = b"Traceback (most recent call last):"
_CHAINED: Final = (b"During handling of the above", b"The above exception was the direct cause")
_OF_DAEMON: Final = re.compile(rb"pyspark[/\\.](?:daemon|zip[/\\]pyspark[/\\]daemon)")
_HARMLESS: Final = (
    b"KeyboardInterrupt",
    b"BrokenPipeError",
    b"ConnectionResetError",
    b"EOFError",
    b"SystemExit",
)
MOST_LINES: Final = 400
"""A traceback that is longer than this goes through: nothing is held back for ever."""


@contextmanager
def quiet_start() -> Iterator[None]:
    """What is started in the block writes its errors through a filter.

    The filter runs in a thread of this process until the last process that was started here is
    gone. Without a standard error of its own (descriptor 2) nothing is changed.
    """
    try:
        kept = os.dup(2)
    except OSError:
        yield
        return
    reading, writing = os.pipe()
    sys.stderr.flush()
    os.dup2(writing, 2)
    os.close(writing)
    thread = threading.Thread(
        target=_forward, args=(reading, kept), name="anabranch-stderr", daemon=True
    )
    thread.start()
    try:
        yield
    except BaseException:
        # What was said about a failed start belongs before its exception.
        os.dup2(kept, 2)
        thread.join(1.0)
        raise
    else:
        sys.stderr.flush()
        os.dup2(kept, 2)


def _forward(reading: int, kept: int) -> None:
    with os.fdopen(reading, "rb") as source:
        for piece in without_noise(source):
            # Where nobody listens any more, the pipe is still read, so that nobody waits.
            with suppress(OSError):
                os.write(kept, piece)


def without_noise(lines: BinaryIO | Iterator[bytes]) -> Iterator[bytes]:
    """The lines that somebody should see.

    A traceback is held back until its last line tells what was raised.

    >>> list(without_noise(iter([b"WARNING: Using incubator modules: x", b"ERROR: disk full"])))
    [b'ERROR: disk full']
    """
    held: list[bytes] = []
    for line in lines:
        if held:
            held.append(line)
            if len(held) > MOST_LINES:
                yield from held
                held = []
            elif _is_last(held):
                if not _is_harmless(held):
                    yield from held
                held = []
        elif line.startswith(_TRACEBACK):
            held = [line]
        elif not line.startswith(_INCUBATOR):
            yield line
    yield from held


def _is_last(held: list[bytes]) -> bool:
    """Whether the line names what was raised: it is not indented, and not about a chain."""
    line = held[-1]
    goes_on = line[:1].isspace() or line.startswith((_TRACEBACK, *_CHAINED))
    return bool(line.strip()) and not goes_on


def _is_harmless(held: list[bytes]) -> bool:
    return held[-1].startswith(_HARMLESS) and any(map(_OF_DAEMON.search, held))
