"""A progress bar for work that takes a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar, final

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress, TaskID

Piece = TypeVar("Piece")

PATIENCE: Final = 1.0
"""No bar for work of less than so many seconds."""


@final
class Bar:
    """Shows how far a piece of work is: on a terminal, only after a second, one at a time.

    Args:
        label: What is being done.
        total: How much there is to do, in any unit.
    """

    _shown: ClassVar[bool] = False

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = total
        self._since = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            Bar._shown = False

    def __call__(self, done: int) -> None:
        """So much has been done by now."""
        if self._bar is None:
            early = time.monotonic() - self._since < PATIENCE
            if early or Bar._shown or not sys.stderr.isatty():
                return
            self._start()
        assert self._bar is not None
        assert self._task is not None
        self._bar.update(self._task, completed=done)

    def _start(self) -> None:
        # Only now: most commands are done before a bar is needed.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._label, total=self._total)
        self._bar.start()
        Bar._shown = True


@final
class Counted:
    """Counts what is generated, with a progress bar."""

    def __init__(self, expected: int) -> None:
        """Nothing so far, of so much."""
        self.total: int = 0
        self._expected = expected

    def __call__(self, parts: Iterator[Piece], size: Callable[[Piece], int]) -> Iterator[Piece]:
        """The same parts."""
        with Bar("generating", self._expected) as bar:
            for part in parts:
                self.total += size(part)
                bar(self.total)
                yield part
