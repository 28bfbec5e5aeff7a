"""Where data come from and go to: a path, or a scheme with something behind it."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from anabranch.errors import PlanError, StreamError

FILE_SYSTEMS: Final = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
"""Schemes of file systems that pyarrow opens, for log folders and checkpoints."""

SINKS: Final = ("delta", "postgresql", "postgres")
"""Schemes of sinks that are no folders."""

STREAM_FILES: Final = (".jsonl", ".json", ".ndjson")
"""The ends of the names of stream files."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOCAL: Final = "file://"


def scheme_of(text: str) -> str | None:
    """The scheme of a location, in small letters; None for a path.

    A path with a colon in its first name is written with a folder before it.

    >>> scheme_of("delta:out"), scheme_of("s3://bucket/x"), scheme_of("./a:b"), scheme_of("10:30")
    ('delta', 's3', None, None)
    """
    found = _SCHEME.match(text)
    return None if found is None else found[1].lower()


def sink_scheme(to: str) -> str | None:
    """The scheme of a target for results, if it is known; None for a path.

    Raises:
        PlanError: Nothing can be written there.
    """
    scheme = scheme_of(to)
    if scheme is None:
        return None
    schemes = (*SINKS, *FILE_SYSTEMS)
    if scheme not in schemes:
        near = get_close_matches(scheme, schemes, 1)
        guess = f"did you mean '{near[0]}:{to[len(scheme) + 1 :]}'? " if near else ""
        raise PlanError(
            f"results cannot be written to '{scheme}:'",
            where=f"to='{to}'",
            hint=f"{guess}supported are: delta:<path>, postgresql://..., and folders, also "
            f"{', '.join(f'{each}://' for each in FILE_SYSTEMS)}; a path with a colon is written "
            f"./{to}",
        )
    if scheme != "delta" and not to[len(scheme) :].startswith("://"):
        raise PlanError(
            f"'{to}' is not an address",
            where=f"to='{to}'",
            hint=f"write {scheme}://{to[len(scheme) + 1 :].lstrip('/')}, or ./{to} for a path",
        )
    if scheme in FILE_SYSTEMS and to.endswith(STREAM_FILES):
        raise PlanError(
            "a stream file is appended to, so it must be on a local disk",
            where=f"to='{to}'",
            hint="write a log folder there (without the ending .jsonl), or a local file",
        )
    return scheme


def folder_for_all(to: str | Path) -> str:
    """The folder in which several queries write a log folder each.

    Raises:
        PlanError: It is no folder.
    """
    text = str(to).removeprefix(_LOCAL)
    scheme = None if isinstance(to, Path) else sink_scheme(text)
    if text == "-" or text.endswith(STREAM_FILES) or scheme in SINKS:
        raise PlanError(
            f"several queries cannot be written to '{to}'",
            where=f"to='{to}'",
            hint="name a folder: every query writes a log folder in it",
        )
    return text.rstrip("/") or "/"


def local_path(location: Any, *, where: str) -> str:
    """The path of files to be read.

    Raises:
        StreamError: They are not on a disk of this machine.
    """
    if isinstance(location, Path):
        return str(location)
    text = str(location).removeprefix(_LOCAL)
    scheme = scheme_of(text)
    if scheme is None or Path(text).exists():
        return text
    raise _remote(text, scheme, where)


def _remote(text: str, scheme: str, where: str) -> StreamError:
    if scheme in FILE_SYSTEMS or scheme in ("http", "https", "s3a", "s3n", "dbfs", "ftp"):
        hint = (
            "files are read from a local or mounted disk; let Spark read them: "
            f"SOURCE spark('parquet', '{text}'), or engine.stream(spark.readStream...)"
        )
    elif scheme == "kafka":
        hint = (
            "let Spark read it: SOURCE spark('kafka') WITH ('kafka.bootstrap.servers' = '...', "
            "subscribe = '...')"
        )
    else:
        near = get_close_matches(scheme, ("delta", "file"), 1)
        guess = f"did you mean '{near[0]}:{text[len(scheme) + 1 :]}'? " if near else ""
        hint = (
            f"{guess}a source is a path, delta:<path>, or what Spark reads: SOURCE spark('format')"
            f"; a path with a colon is written ./{text}"
        )
    return StreamError(f"there are no files at '{scheme}:'", where=where, hint=hint)


def full_path(path: str) -> str:
    """A path that compares: without links and relative parts; an address as it is."""
    return path if "://" in path else str(Path(path).resolve())
