"""Queries that run in processes of this machine: announced, watched, asked to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from anabranch.runtime.run import Run

Asked: TypeAlias = Callable[[], bool]
_LOOK: Final = 1.0


@contextmanager
def announced(run: Run, *, script: str, to: str) -> Iterator[Asked]:
    """Let other processes know of a run while the block lasts."""
    del run, script, to
    yield lambda: False


def wait_for(run: Run, asked_to_stop: Asked) -> None:
    """Wait until a run ends, or somebody asks it to stop."""
    while not run.await_end(_LOOK):
        if asked_to_stop():
            run.stop()
            return
