"""How much an archive keeps, as users say it, and where it may be."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, final

from anabranch.errors import PlanError, QueryError
from anabranch.model.clock import read_span
from anabranch.runtime.option import LARGEST, POSITIVE_DURATION, UnfitError, ValueKind
from anabranch.runtime.sources.location import FILE_SYSTEMS, scheme_of


@final
@dataclass(frozen=True, slots=True)
class Keep:
    """How much an archive keeps: rows of some age, so many rows, both or everything.

    `age` is a duration as it was written: how many chronons it is, the clock of the stream says.
    """

    age: Any = None
    rows: int | None = None

    @staticmethod
    def of(given: Any) -> Keep:
        """What `keep=` says: an age, a number of rows, or both.

        >>> Keep.of("30 days"), Keep.of(1000), Keep.of(("30 days", 1000))
        (Keep(age='30 days', rows=None), Keep(age=None, rows=1000), Keep(age='30 days', rows=1000))
        """
        if given is None:
            return Keep()
        if isinstance(given, tuple | list):
            age, rows = given
            return Keep(age, rows)
        return Keep(rows=given) if isinstance(given, int) else Keep(given)


EVERYTHING: Final = Keep()


def _keep(value: Any) -> Any:
    """An age has a unit, a number counts rows; in a pair the first is the age."""
    if isinstance(value, tuple | list):
        if len(value) != 2 or (value[0] is None and value[1] is None):
            raise UnfitError
        _age(value[0])
        _rows(value[1])
    elif isinstance(value, str | timedelta):
        if not _has_unit(value):
            raise UnfitError
        _age(value)
    else:
        _rows(value)
        if value is None:
            raise UnfitError
    return value


def _age(value: Any) -> None:
    if value is not None:
        POSITIVE_DURATION.check(value)


def _has_unit(value: str | timedelta) -> bool:
    try:
        return read_span(value)[1]
    except QueryError:
        return False


def _rows(value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise UnfitError


KEEP: Final = ValueKind(
    "an age with a unit, a number of rows, or both in a tuple", "('30 days', 10000000)", _keep
)


def archive_folder(path: str, source: str) -> str:
    """The folder of an archive: a path from here, or the address of one.

    Raises:
        PlanError: There are no folders at such an address.
    """
    text = path.removeprefix("file://")
    scheme = scheme_of(text)
    if scheme is None:
        return str(Path(text).absolute())
    if scheme in FILE_SYSTEMS and text[len(scheme) :].startswith("://"):
        return text.rstrip("/")
    raise PlanError(
        f"an archive cannot be at '{scheme}:'",
        where=f"source '{source}', archive {path}",
        hint=f"an archive is a folder, also {', '.join(f'{each}://' for each in FILE_SYSTEMS)}; a "
        f"path with a colon is written ./{path}",
    )


def lies_in(folder: str, path: str) -> bool:
    """Whether files of a folder would be read with those of a path, which may be a pattern.

    >>> lies_in("/q/archive", "/q"), lies_in("/q/_archive", "/q"), lies_in("/q/archive", "/q/*.csv")
    (True, False, False)
    """
    if glob.has_magic(path):
        before, deep, _ = path.partition("**")
        if not deep or glob.has_magic(before):
            return False
        path = before
    root, own = Path(path.removeprefix("file://")).absolute(), Path(folder)
    if root != own and root not in own.parents:
        return False
    return not any(part.startswith(("_", ".")) for part in own.relative_to(root).parts)
