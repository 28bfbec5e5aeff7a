"""Loops over columns, compiled for exact types.

Code is compiled once per machine, which takes some seconds, and kept beside the package or in the
user's cache folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from numba import njit, types
from numba.extending import intrinsic

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _column(kind: types.Type) -> types.Array:
    """A column that is only read, as those in Arrow's memory are."""
    return types.Array(kind, 1, "C", readonly=True)


IDS: Final = _column(types.uint64)
INTS: Final = _column(types.int64)
FLOATS: Final = _column(types.float64)
MASK: Final = _column(types.boolean)
INT: Final = types.int64
FLAG: Final = types.boolean
BYTES: Final = _column(types.uint8)
KINDS: Final = BYTES
OFFSETS: Final = _column(types.int32)
TABLE: Final = types.Array(types.uint64, 2, "C")
OWN_TABLE: Final = types.Array(types.int64, 2, "C")
"""A table of whole numbers that is written to."""

OWN_INTS: Final = types.Array(types.int64, 1, "C")
"""A column that is written to."""


def several(kind: types.Type, count: int) -> types.Type:
    """So many columns of one kind, as a tuple."""
    return types.UniTuple(kind, count)  # type: ignore[no-untyped-call]


def compiled(*arguments: types.Type) -> Callable[[_Function], _Function]:
    """Compile for these types, once per machine; other threads run beside it."""

    def decorate(function: _Function) -> _Function:
        try:
            return cast(_Function, njit(arguments, cache=True, nogil=True)(function))
        except RuntimeError:
            # There is no folder for compiled code, as where the package lies in an archive.
            return cast(_Function, njit(arguments, nogil=True)(function))

    return decorate


def inlined(function: _Function) -> _Function:
    """A piece of compiled loops; it has no compiled form of its own."""
    return cast(_Function, njit(inline="always")(function))


def together(function: _Function) -> _Function:
    """A piece that is compiled with what uses it; quicker to compile than `inlined`."""
    return cast(_Function, njit(forceinline=True)(function))


def _byte_at(typing: Any, address: Any) -> Any:
    del typing, address

    def read(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        pointer = context.get_value_type(types.uint8).as_pointer()
        return builder.load(builder.inttoptr(arguments[0], pointer))

    return types.uint8(types.int64), read


byte_at: Final = cast(Callable[[int], int], intrinsic(_byte_at))
"""The byte at an address: for columns of which there are more than a loop has arguments."""
