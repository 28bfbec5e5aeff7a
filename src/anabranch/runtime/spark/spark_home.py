"""A home of Spark without zipped Python code, so that Python processes of Spark start faster.

Spark's JVM puts `$SPARK_HOME/python/lib/pyspark.zip`, and py4j beside it, first on the path of
every Python process that it starts. A zip has no cached bytecode, so each process, and each worker
after its fork, compiles all that it imports of pyspark again: 0.3 s. The home made here consists of
links to the installed package, except that `pyspark.zip` is a folder with a link to the installed
package `pyspark`: Python takes a folder of any name. So workers import the files that the driver
imports, with their bytecode, whichever interpreter runs them. Leaving the zips out would do for an
interpreter that has pyspark installed, but not for others.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pyspark
from pyspark.find_spark_home import _find_spark_home

from anabranch.runtime.spark.class_archive import cache_folder

_HOME: Final = "SPARK_HOME"
_ZIPS: Final = Path("python") / "lib"
_LATER: Final = ("conf",)
"""What a user may add to an installation: linked before it is there."""


def linked_home(settings: Mapping[str, str]) -> Path | None:
    """The home for a JVM that this process starts; it is made once per installation of Spark.

    None where Spark finds its home as ever: the environment names one, tasks run elsewhere than in
    children of this process, Spark is not the installed package, or there is no folder to write to.
    """
    folder = cache_folder()
    if folder is None or os.name != "posix" or _HOME in os.environ:
        return None
    if not settings.get("spark.master", "local").startswith("local"):
        return None
    installed = _package("pyspark")
    if installed is None or Path(_find_spark_home()) != installed:
        return None
    packages = {each.name: _source(each.name) for each in (installed / _ZIPS).glob("*.zip")}
    sources = {name: source for name, source in packages.items() if source is not None}
    # A colon would end an entry of the path.
    if sources != packages or any(each in ": \t\n" for each in str(folder)):
        return None
    known = "\n".join([str(installed), *(f"{name}={sources[name]}" for name in sorted(sources))])
    number = hashlib.sha256(known.encode()).hexdigest()[:8]
    home = folder / f"spark-{pyspark.__version__}-{number}-home"
    try:
        if not _is_whole(home, sources):
            _make(home, installed, sources)
        return home if _is_whole(home, sources) else None
    except OSError:
        return None


@contextmanager
def spark_home(home: Path | None) -> Iterator[None]:
    """A JVM that is started in the block has this home; afterwards nobody else is told of it."""
    if home is None:
        yield
        return
    os.environ[_HOME] = str(home)
    try:
        yield
    finally:
        os.environ.pop(_HOME, None)


def _source(archive: str) -> Path | None:
    """The installed package that an archive of Python code holds."""
    return _package(archive.partition(".")[0].partition("-")[0])


def _package(name: str) -> Path | None:
    found = find_spec(name)
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    return folder if folder.is_dir() else None


def _is_whole(home: Path, sources: Mapping[str, Path]) -> bool:
    """Whether all that a start needs is there: links may have lost what they lead to."""
    packages = [home / _ZIPS / name / source.name for name, source in sources.items()]
    needed = [home / "bin" / "spark-submit", *(each / "__init__.py" for each in packages)]
    return all(each.is_file() for each in needed) and (home / "jars").is_dir()


def _make(home: Path, installed: Path, sources: Mapping[str, Path]) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    # Several processes may start at once: each makes one, and the first to rename it has won.
    made = Path(tempfile.mkdtemp(dir=home.parent, prefix=f"{home.name}."))
    try:
        for name in sorted({each.name for each in installed.iterdir()} | set(_LATER)):
            if name != _ZIPS.parent.name:
                (made / name).symlink_to(installed / name)
        for name, source in sources.items():
            (made / _ZIPS / name).mkdir(parents=True)
            (made / _ZIPS / name / source.name).symlink_to(source)
        if home.exists() and not _is_whole(home, sources):
            shutil.rmtree(home)
        made.chmod(0o755)
        with suppress(OSError):
            made.rename(home)
    finally:
        shutil.rmtree(made, ignore_errors=True)
