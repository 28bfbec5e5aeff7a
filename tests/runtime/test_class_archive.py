"""Where the archive of Spark's classes is, and who writes it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from anabranch.runtime.spark import class_archive
from anabranch.runtime.spark.class_archive import (
    SWITCH,
    archive_options,
    base_archive,
    write_base,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(SWITCH, str(tmp_path / "cache"))
    monkeypatch.setattr(class_archive, "LEAST_BYTES", 3)
    (tmp_path / "java").mkdir()
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.15"\n')
    return tmp_path


def test_the_first_session_writes_and_later_ones_read(folder: Path) -> None:
    java = str(folder / "java")
    first = archive_options(java, "4.3.0")
    assert first.startswith("-XX:ArchiveClassesAtExit=")
    written = Path(first.split("=")[1].split()[0])
    assert archive_options(java, "4.3.0") == first, "nothing has been written yet"
    written.write_bytes(b"classes")
    assert "ArchiveClassesAtExit" in archive_options(java, "4.3.0"), "this process still runs"
    written.rename(written.with_name(written.name.replace(f".{os.getpid()}.", ".999999999.")))
    archive = folder / "cache" / f"spark-4.3.0-17.0.15-{class_archive._installation()}.jsa"
    assert archive_options(java, "4.3.0") == (
        f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:disable "
        "-Xlog:all=error,cds*=off:stderr"
    )
    assert "ArchiveClassesAtExit" in archive_options(java, "4.4.0"), "another Spark has its own"


def test_what_a_killed_jvm_left_is_removed(folder: Path) -> None:
    cache = folder / "cache"
    cache.mkdir()
    installed = class_archive._installation()
    part = cache / f"spark-4.3.0-17.0.15-{installed}.jsa.999999999.new"
    part.write_bytes(b"c")
    assert "ArchiveClassesAtExit" in archive_options(str(folder / "java"), "4.3.0")
    assert not part.exists()


def test_the_environment_decides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:SharedArchiveFile=/other.jsa")
    assert archive_options(str(folder / "java"), "4.3.0") == ""
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    monkeypatch.setenv(SWITCH, "off")
    assert archive_options(str(folder / "java"), "4.3.0") == ""


def test_a_folder_that_cannot_be_made_is_no_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("")
    monkeypatch.setenv(SWITCH, str(folder / "file" / "cache"))
    assert archive_options(str(folder / "java"), "4.3.0") == ""


def test_nothing_of_it_is_told_on_stdout(folder: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("no java on the path")
    archive = folder / "cache" / "wrong.jsa"
    archive.parent.mkdir()
    archive.write_bytes(b"not an archive" * 10_000)
    quiet = class_archive._QUIET.split()
    done = subprocess.run(
        ["java", f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *quiet, "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""


def test_an_archive_stands_on_that_of_java_itself_where_java_comes_without_one(
    folder: Path,
) -> None:
    home = folder / "java"
    java = home / "java"
    java.write_text('#!/bin/sh\necho classes > "${2#-XX:SharedArchiveFile=}"\n')
    java.chmod(0o755)
    base = base_archive(home)
    write_base(java, base)
    assert base == home / "classes-17.0.15.jsa"
    assert base.exists()
    first = archive_options(str(home), "4.3.0")
    assert first.startswith(f"-XX:SharedArchiveFile={base} -XX:ArchiveClassesAtExit=")
    archive = folder / "cache" / f"spark-4.3.0-17.0.15-{class_archive._installation()}.jsa"
    archive.write_bytes(b"classes")
    both = f"-XX:SharedArchiveFile={base}:{archive} "
    assert archive_options(str(home), "4.3.0").startswith(both)


def test_a_java_that_cannot_write_its_archive_is_used_without(folder: Path) -> None:
    write_base(folder / "nothing", base_archive(folder / "java"))
    assert not base_archive(folder / "java").exists()
