"""One Spark for all tests of a process, and an engine with names of its own for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.engine import Engine

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def first_engine() -> Iterator[Engine]:
    """The engine that has started the Spark of the others."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with Engine(shards=2) as engine:
        yield engine


@pytest.fixture
def engine(first_engine: Engine) -> Iterator[Engine]:
    with Engine(first_engine.spark, shards=2) as engine:
        yield engine
