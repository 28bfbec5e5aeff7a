"""The quotes of the demo's third act: two days, a price that was wrong, and the right answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.model.batch import EventBatch
from anabranch.model.files.stream_file import write_stream
from anabranch.model.time import SECOND, Time
from anabranch.workloads.quotes import BEGIN, FIRST_SYMBOL, Quotes

FEED: Final = Quotes(symbols=4, seed=2026)
HOUR: Final = 3600 * SECOND
EVERY: Final = 10
"""Seconds between two quotes of a share."""

YESTERDAY: Final = 24 * 3600
UNTIL: Final = YESTERDAY + 12 * 3600
"""The feed ends at noon of the second day."""

WRONG: Final = 14 * 3600 + 30 * 60
"""The second of the quote whose decimal point slipped: 14:30 of the first day."""

MISSING: Final = 21 * 3600 + 20 * 60
"""The second of a quote that comes a day late: 21:20 of the first day."""

Means: TypeAlias = Mapping[tuple[str, Time], float]
"""The mean price of each share in the hour before an instant."""


@final
@dataclass(frozen=True, slots=True)
class Quote:
    """The price of a share at an instant."""

    symbol: str
    price: float
    at: Time


def believed() -> list[Quote]:
    """The quotes as they came: one is wrong, one is missing."""
    found = (_slipped(each) if _is_wrong(each) else each for each in corrected())
    return [each for each in found if not _is_missing(each)]


def corrected() -> list[Quote]:
    """The quotes as they should have been."""
    second = np.repeat(np.arange(0, UNTIL, EVERY), FEED.symbols)
    symbol = np.tile(np.arange(FEED.symbols), UNTIL // EVERY)
    table = FEED.table(symbol, second)
    prices, names = table.column("price").to_pylist(), table.column("symbol").to_pylist()
    starts = [Time(at) for at in (BEGIN + second * SECOND).tolist()]
    return [Quote(*each) for each in zip(names, prices, starts, strict=True)]


def hourly_means(quotes: Iterable[Quote]) -> Means:
    """The answer of the query, in plain Python: exact sums, then divided."""
    prices: dict[tuple[str, Time], list[float]] = defaultdict(list)
    for each in quotes:
        hour = each.at - each.at % HOUR + HOUR
        prices[each.symbol, Time(hour)].append(each.price)
    return {key: fsum(found) / len(found) for key, found in prices.items()}


def write_feed(folder: Path) -> int:
    """Write what came on the two days, a file each; how many quotes."""
    folder.mkdir(parents=True, exist_ok=True)
    quotes = believed()
    midnight = BEGIN + YESTERDAY * SECOND
    days = [[q for q in quotes if q.at < midnight], [q for q in quotes if q.at >= midnight]]
    ends = (midnight, BEGIN + UNTIL * SECOND)
    for number, (day, end) in enumerate(zip(days, ends), 1):
        rows = _batch((each, 1) for each in day).with_stable(Time(end))
        write_stream(folder / f"day-{number}.parquet", [rows], timestamps=True)
    return len(quotes)


def write_correction(path: Path) -> None:
    """Write what the exchange says on the second day about the first."""
    changes: list[tuple[Quote, int]] = []
    for each in corrected():
        if _is_wrong(each):
            changes += [(_slipped(each), -1), (each, 1)]
        elif _is_missing(each):
            changes.append((each, 1))
    write_stream(path, [_batch(changes)], timestamps=True)


def _is_wrong(quote: Quote) -> bool:
    return quote.symbol == FIRST_SYMBOL and quote.at == BEGIN + WRONG * SECOND


def _is_missing(quote: Quote) -> bool:
    return quote.symbol == FIRST_SYMBOL and quote.at == BEGIN + MISSING * SECOND


def _slipped(quote: Quote) -> Quote:
    return Quote(quote.symbol, round(quote.price * 10, 2), quote.at)


def _batch(quotes: Iterable[tuple[Quote, int]]) -> EventBatch:
    """Quotes as elements: inserts, and withdrawals where the sign is -1."""
    rows = list(quotes)
    start = np.array([each.at for each, _ in rows], np.int64)
    gone = np.array([sign < 0 for _, sign in rows], np.bool_)
    columns = [[each.symbol for each, _ in rows], [each.price for each, _ in rows]]
    payload = pa.RecordBatch.from_arrays(
        [pa.array(columns[0], pa.string()), pa.array(columns[1], pa.float64())],
        names=["symbol", "price"],
    )
    return EventBatch(payload, start, start + gone, start + ~gone)
