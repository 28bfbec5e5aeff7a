"""One engine with a Spark of its own for all tests of a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.engine import Engine

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with Engine(shards=2) as engine:
        yield engine
