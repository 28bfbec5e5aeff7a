"""Quotes of shares, one per symbol and second: what revisions by replay were measured with.

Maskey and Cherniack: 200 symbols, one quote per second each; 17.25 million of them are a day.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import QueryError
from anabranch.model.time import SECOND, Time
from anabranch.workloads.random_access import Integers, Randomness

BEGIN: Final = Time(1_793_318_400_000_000)  # 2026-10-30T00:00:00Z
FIRST_SYMBOL: Final = "IBM"
_LEAST_PRICE: Final = 20.0
_MOST_PRICE: Final = 220.0
_SWING: Final = 0.05
_MOST_SYMBOLS: Final = 26**4


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Quotes:
    """A feed of quotes in order of time, each row known by its number alone.

    Row `n` is the quote of symbol `n % symbols` at second `n // symbols`. Prices swing around a
    price of the symbol's own, in a wave of some minutes and with some noise, so that averages over
    a minute and over five of them cross.

    Attributes:
        symbols: How many there are; the first one is IBM.
        seed: Another seed gives other prices.
    """

    symbols: int = 200
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.symbols <= _MOST_SYMBOLS:
            raise QueryError(
                f"{self.symbols} symbols cannot be named",
                hint=f"use from 1 to {_MOST_SYMBOLS} symbols",
            )

    @property
    def names(self) -> pa.Array:
        """The symbols: IBM, then words of four letters."""
        index = np.arange(self.symbols)
        letters = np.stack([index // 26**power % 26 for power in (3, 2, 1, 0)], axis=1) + ord("A")
        words = letters.astype(np.uint8).view("S4").ravel().astype(str)
        return pa.array([FIRST_SYMBOL, *words[1:]])

    def at(self, row: int) -> Time:
        """The time of a row."""
        return Time(BEGIN + row // self.symbols * SECOND)

    def rows(self, first: int, count: int) -> pa.Table:
        """Rows from number `first` on: `symbol`, `price`, `at`."""
        numbers = np.arange(first, first + count)
        return self.table(numbers % self.symbols, numbers // self.symbols)

    def table(self, symbol: Integers, second: Integers, salt: str = "price") -> pa.Table:
        """The quotes of some symbols at some seconds; another salt gives other prices."""
        random = Randomness(self.seed)
        base = _LEAST_PRICE + (_MOST_PRICE - _LEAST_PRICE) * random.floats("base", symbol)
        period = 240.0 + 600.0 * random.floats("period", symbol)
        phase = random.floats("phase", symbol)
        wave = np.sin(2 * np.pi * (second / period + phase))
        noise = random.floats(salt, second * self.symbols + symbol) - 0.5
        # In hundredths, as quotes are.
        price = np.round(base * (1 + _SWING * wave + _SWING * noise), 2)
        names = pa.DictionaryArray.from_arrays(pa.array(symbol, pa.int32()), self.names)
        times = pa.array(BEGIN + second * SECOND, pa.timestamp("us"))
        return pa.table([names.cast(pa.string()), price, times], names=("symbol", "price", "at"))

    def late(self, rows: Integers) -> pa.Table:
        """Other quotes for the symbols and times of some rows, which come long after them."""
        return self.table(rows % self.symbols, rows // self.symbols, salt="late")

    def write(
        self, folder: Path, *, first: int, count: int, per_file: int, per_group: int = 50_000
    ) -> Iterator[Path]:
        """Write rows as Parquet files in row groups of some size, one after the other."""
        folder.mkdir(parents=True, exist_ok=True)
        for start in range(first, first + count, per_file):
            size = min(per_file, first + count - start)
            yield put(folder / f"quotes-{start:010}.parquet", self.rows(start, size), per_group)


def put(path: Path, rows: pa.Table, per_group: int = 50_000) -> Path:
    """Write a file that readers of its folder see whole or not at all."""
    hidden = path.with_name(f".{path.name}")
    pq.write_table(rows, hidden, row_group_size=per_group, compression="snappy")
    hidden.rename(path)
    return path
