"""Compiled loops that few kernels need: loaded once the rows of such kernels have earned it."""

from __future__ import annotations

from importlib import import_module
from threading import Thread
from typing import Any, Final

from anabranch.kernels.columns import grouped as columns


class LoopFamily:
    """A module of compiled loops, beside those that all kernels share (`grouped.native`).

    Loading one takes 0.1 to 0.3 s of CPU, as long as it takes to go through some ten thousand rows
    in numpy. So small batches go through numpy until they were `COMPILE_FROM_ROWS` rows in all,
    and through the compiled loops from then on, however small they are.
    """

    __slots__ = ("_beside", "_loaded", "_module", "_rows")

    def __init__(self, module: str) -> None:
        """By the name of the module in this folder."""
        self._module = f"{__package__}.{module}"
        self._loaded: Any = None
        self._beside: Thread | None = None
        self._rows = 0

    def loops(self, rows: int) -> Any | None:
        """The module, if so many rows are to go through it, or None."""
        if not columns.is_compiled(rows):
            return None
        if self._loaded is None:
            self._rows += rows
            if self._rows < columns.COMPILE_FROM_ROWS:
                return None
            if columns.waits_for(rows):
                self._load()
            elif self._beside is None:
                self._beside = Thread(target=self._load, name=self._module, daemon=True)
                self._beside.start()
        return self._loaded

    def _load(self) -> None:
        self._loaded = import_module(self._module)


NODES: Final = LoopFamily("compiled_nodes")
STATISTICS: Final = LoopFamily("compiled_statistics")
TOP: Final = LoopFamily("compiled_top")
