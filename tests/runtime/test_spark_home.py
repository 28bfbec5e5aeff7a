"""The home of Spark from which Python processes start with cached bytecode."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest

from anabranch.runtime.spark.class_archive import SWITCH, archive_options
from anabranch.runtime.spark.spark_home import linked_home, spark_home

INSTALLED = Path(pyspark.__file__).parent


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv(SWITCH, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_home_leads_to_the_installed_package_and_has_no_zips(cache: Path) -> None:
    home = linked_home({})
    assert home is not None
    assert home.parent == cache
    assert (home / "bin").resolve() == INSTALLED / "bin"
    assert (home / "jars").resolve() == INSTALLED / "jars"
    for archive in (INSTALLED / "python" / "lib").iterdir():
        in_its_place = home / "python" / "lib" / archive.name
        assert in_its_place.is_dir()
        [package] = in_its_place.iterdir()
        assert (package / "__init__.py").is_file()
    assert (home / "python" / "lib" / "pyspark.zip" / "pyspark").resolve() == INSTALLED
    # Settings that are added to the installation later are found as well.
    assert (home / "conf").readlink() == INSTALLED / "conf"


def test_a_home_is_made_once_and_again_when_it_is_damaged(cache: Path) -> None:
    home = linked_home({})
    assert home is not None
    made = home.stat().st_ino
    assert linked_home({}) == home
    assert home.stat().st_ino == made
    (home / "jars").unlink()
    assert linked_home({}) == home
    assert (home / "jars").is_dir()
    assert list(cache.iterdir()) == [home]


def test_several_can_make_it_at_once(cache: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(lambda _: linked_home({}), range(16)))
    assert len(homes) == 1
    assert list(cache.iterdir()) == [*homes]


def test_a_home_that_somebody_has_chosen_is_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert linked_home({}) is None
    with spark_home(None):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert not cache.exists()


def test_only_sessions_of_this_machine_have_it(cache: Path) -> None:
    assert linked_home({"spark.master": "spark://other:7077"}) is None
    assert linked_home({"spark.master": "local[2]"}) is not None
    assert cache.exists()


def test_without_a_folder_to_write_to_spark_finds_its_own(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("in the way")
    assert linked_home({}) is None
    monkeypatch.setenv(SWITCH, str(cache / "below"))
    assert linked_home({}) is None
    monkeypatch.setenv(SWITCH, "off")
    assert linked_home({}) is None
    monkeypatch.setenv(SWITCH, f"{cache}:other")
    assert linked_home({}) is None, "a colon ends an entry of the path of Python"


def test_the_environment_names_it_only_while_spark_starts(cache: Path) -> None:
    home = linked_home({})
    with spark_home(home):
        assert os.environ["SPARK_HOME"] == str(home)
    assert "SPARK_HOME" not in os.environ
    with pytest.raises(RuntimeError), spark_home(home):
        raise RuntimeError
    assert "SPARK_HOME" not in os.environ
    assert cache.exists()


def test_its_classes_have_an_archive_of_their_own(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    home = linked_home({})
    options = {archive_options("/java", "4.3.0", each) for each in (None, home)}
    assert len(options) == 2, "an archive is for one class path"
    assert cache.exists()


_PROCESSES = """
import os, tempfile

import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from anabranch.runtime.spark.session import local_session

def process():
    import py4j, pyspark, sys
    packages = (pyspark, py4j)
    return [sys.argv[0].rpartition("/")[2], *(type(each.__loader__).__name__ for each in packages),
        *(os.path.realpath(each.__file__) for each in packages)]

class Reader(SimpleDataSourceStreamReader):
    def initialOffset(self):
        return {"at": 0}
    def read(self, start):
        return iter([(" ".join(process()),)] if start["at"] == 0 else []), {"at": 1}
    def readBetweenOffsets(self, start, end):
        return iter([])

class Source(DataSource):
    @classmethod
    def name(cls):
        return "processes"
    def schema(self):
        return "process string"
    def simpleStreamReader(self, schema):
        return Reader()

def worker(batches):
    for _ in batches:
        yield pa.record_batch({"process": [" ".join(process())]})

spark = local_session(1)
assert "SPARK_HOME" not in os.environ
spark.dataSource.register(Source)
frame = spark.range(1).mapInArrow(worker, "process string")
print("worker", frame.first().process)
with tempfile.TemporaryDirectory() as folder:
    stream = spark.readStream.format("processes").load().writeStream.format("memory")
    stream = stream.queryName("seen").option("checkpointLocation", folder)
    stream.trigger(availableNow=True).start().awaitTermination()
print("source", spark.table("seen").first().process)
print("driver", " ".join(process()))
spark.stop()
"""


@pytest.mark.spark
def test_processes_of_an_embedded_spark_import_it_from_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Where everybody has it: an archive of classes is written there, too, unless there is one.
    for name in ("SPARK_HOME", SWITCH):
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run(
        [sys.executable, "-c", _PROCESSES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = {line.split()[0]: line.split()[2:] for line in done.stdout.splitlines()}
    names = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}
    assert names["worker"] == "daemon.py"
    assert names["source"] == "python_streaming_source_runner.py"
    assert found["driver"][:2] == ["SourceFileLoader", "SourceFileLoader"]
    assert found["worker"] == found["driver"]
    assert found["source"] == found["driver"]
