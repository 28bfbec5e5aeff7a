"""How far a run is, while somebody waits: a line on a terminal, a bar in a notebook."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Final, TextIO, final

from anabranch.display.aligned import counted

PATIENCE: Final = 1.0
"""Nothing is shown of what takes less than so many seconds."""

PAUSE: Final = 0.2
"""Seconds between two lines."""


@final
class ProgressLine:
    """One line that is written again and again, and is gone in the end.

    On a terminal it is written to standard error, in a notebook it is a bar below the cell;
    elsewhere nothing is shown: a log does not want it.
    """

    def __init__(self, *, patience: float = PATIENCE, stream: TextIO | None = None) -> None:
        """Prepare a line; `stream` is where it is written, standard error unless it is given."""
        self._stream = stream or sys.stderr
        self._began = time.monotonic()
        self._next = self._began + patience
        self._shown = False
        self._bar: Any = None
        self.is_wanted: bool = _in_notebook() or self._stream.isatty()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.update(_Html(""))
        elif self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __call__(self, text: str) -> None:
        """Show a line, unless one has just been shown."""
        now = time.monotonic()
        if not self.is_wanted or now < self._next:
            return
        self._next, self._shown = now + PAUSE, True
        text = f"{text}, {now - self._began:.0f} s"
        if _in_notebook():
            shown = _Html(f"<progress></progress> {text}")
            if self._bar is None:
                self._bar = _display(shown)
            else:
                self._bar.update(shown)
        else:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()


@final
class _Html:
    """What a notebook shows as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return ""


def _in_notebook() -> bool:
    """Whether a kernel of Jupyter runs us; its shell is loaded then."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return found is not None and hasattr(found, "kernel")


def _display(shown: _Html) -> Any:
    from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

    return display(shown, display_id=True)


def progress_text(batches: int, rows: int, stable: str, rewritten: int = 0) -> str:
    """What a line says.

    >>> progress_text(3, 1_200, "stable point 12")
    '3 batches, 1,200 rows read, stable point 12'
    >>> progress_text(1, 1, "stable point 12", rewritten=2)
    '1 batch, 1 row read, 2 files written again, stable point 12'
    """
    read = f"{batches:,} batch{'' if batches == 1 else 'es'}, {counted(rows, rows, 'row')} read"
    again = f", {rewritten_text(rewritten)}" if rewritten else ""
    return f"{read}{again}, {stable}"


def rewritten_text(files: int) -> str:
    """How many files were written again after they were read."""
    return f"{counted(files, files, 'file')} written again"
