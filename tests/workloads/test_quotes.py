"""Quotes: one per symbol and second, each known by its number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import QueryError
from anabranch.workloads.quotes import Quotes


@given(st.integers(0, 500), st.integers(1, 500), st.integers(1, 300))
def test_rows_do_not_depend_on_how_they_are_cut(first: int, count: int, symbols: int) -> None:
    quotes = Quotes(symbols=symbols)
    half = count // 2
    parts = [quotes.rows(first, half), quotes.rows(first + half, count - half)]
    assert pa.concat_tables(parts).equals(quotes.rows(first, count))


def test_every_symbol_has_one_quote_a_second_in_order_of_time() -> None:
    rows = Quotes().rows(0, 600)
    assert rows.column("symbol")[0].as_py() == rows.column("symbol")[200].as_py() == "IBM"
    assert len(set(rows.column("symbol").to_pylist())) == 200
    seconds = rows.column("at").cast(pa.int64()).to_numpy() // 1_000_000
    assert (seconds - seconds[0] == np.repeat([0, 1, 2], 200)).all()


def test_a_late_quote_has_the_symbol_and_time_of_its_row_and_another_price() -> None:
    quotes = Quotes()
    late, row = quotes.late(np.array([1_234])), quotes.rows(1_234, 1)
    assert late.select(["symbol", "at"]).equals(row.select(["symbol", "at"]))
    assert late.column("price").to_pylist() != row.column("price").to_pylist()


def test_files_have_the_rows_in_row_groups(tmp_path: Path) -> None:
    quotes = Quotes(symbols=10)
    files = list(quotes.write(tmp_path, first=50, count=250, per_file=100, per_group=40))
    assert [pq.read_metadata(file).num_row_groups for file in files] == [3, 3, 2]
    assert pa.concat_tables(map(pq.read_table, files)).equals(quotes.rows(50, 250))


def test_there_is_at_least_one_symbol() -> None:
    with pytest.raises(QueryError, match="0 symbols"):
        Quotes(symbols=0)
