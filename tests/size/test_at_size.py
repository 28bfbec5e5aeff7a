"""Queries of every family over millions of rows on Spark, against DuckDB at sampled instants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch import Engine
from anabranch.testing import assert_identical
from tests.size.cases import CASES, IN_CI, INEXACT, Case
from tests.size.running import rows_of, run, run_case, smaller


@pytest.fixture(scope="session")
def session() -> Iterator[Any]:
    """One Spark, with the settings of the product, for all cases."""
    with Engine() as engine:
        yield engine.spark


def test_there_are_twenty_million_rows_in_all() -> None:
    assert rows_of(list(CASES.values())) >= 20_000_000


@pytest.mark.size
@pytest.mark.parametrize("name", CASES)
def test_a_query_over_many_rows_answers_as_duckdb_does(
    session: Any, tmp_path: Path, name: str
) -> None:
    assert run_case(session, tmp_path / "case", CASES[name])


@pytest.mark.spark
@pytest.mark.parametrize("name", IN_CI)
def test_a_part_of_it_runs_always(session: Any, tmp_path: Path, name: str) -> None:
    assert run_case(session, tmp_path / "case", smaller(CASES[name], 32_000))


def check_cuts(session: Any, root: Path, case: Case) -> None:
    """The same rows in other batches, in another order within files, on more shards."""
    one, _ = run(session, root / "one", case)
    other, _ = run(session, root / "other", replace(case, per_batch=3, shards=5), order=1)
    assert_identical(one, other)


@pytest.mark.size
def test_many_rows_give_bit_identical_answers_however_they_are_cut(
    session: Any, tmp_path: Path
) -> None:
    check_cuts(session, tmp_path, INEXACT)


@pytest.mark.spark
def test_rows_give_bit_identical_answers_however_they_are_cut(session: Any, tmp_path: Path) -> None:
    check_cuts(session, tmp_path, smaller(INEXACT, 16_000))
