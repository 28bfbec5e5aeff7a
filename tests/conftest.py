"""Set-up shared by all tests: hypothesis profiles, the Spark session, doctests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = ROOT / "src" / "anabranch" / "runtime"
LONG = (
    "test_smoke.py",
    "test_kill_driver.py",
    "test_docs.py",
    "test_kill_revisions.py",
    "test_replicas.py",
    "test_campaign.py",
    "test_kill_workers.py",
)
"""What takes longest starts first, so that no process is left with it alone at the end."""

# What runs in environments of their own, with packages that are not here.
collect_ignore = ["bench/peer_jobs"]

# Tests have few rows, which are shared out among tasks all the same, and never run in the driver;
# also by what they start. `test_driver_share.py` compares both ways.
EVERY_ROW = "-Dspark.anabranch.rowsPerTask=1 -Dspark.anabranch.driverRows=0"
os.environ["SPARK_SUBMIT_OPTS"] = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {EVERY_ROW}".strip()

# Workers of Spark import what tests define, whatever folder a test was in when they started.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)

# A shared machine stalls now and then, so the time of one example says nothing.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", PATIENT, max_examples=3)
settings.register_profile("dev", PATIENT, max_examples=10)
settings.register_profile("ci", PATIENT, max_examples=25, print_blob=True)
settings.register_profile("nightly", PATIENT, max_examples=2_000, print_blob=True)
settings.load_profile(os.environ.get("ANABRANCH_HYPOTHESIS", "dev"))


class RuntimeDoctests:
    """Doctests in `runtime/` count as Spark tests: collecting them would import pyspark."""

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        without_spark = "not spark" in config.option.markexpr
        return True if without_spark and collection_path == RUNTIME else None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if RUNTIME in item.path.parents:
                item.add_marker("spark")
        items.sort(key=lambda item: item.path.name not in LONG)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the expected parts of golden files"
    )


def pytest_configure(config: pytest.Config) -> None:
    # As a plugin it also sees src/, which the hooks of this file do not.
    config.pluginmanager.register(RuntimeDoctests())


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files shall be rewritten instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local Spark for all tests; only tests marked `spark` may ask for it."""
    from pyspark.sql import SparkSession

    from anabranch.runtime.spark.java import use_java
    from anabranch.runtime.spark.spark_home import linked_home, spark_home

    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("anabranch-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
    )
    # The class path of sessions that the engine starts: an archive of classes is for that one.
    with spark_home(linked_home({})):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
