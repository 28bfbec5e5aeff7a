"""Names, texts and addresses for the public Nexmark benchmark, drawn by position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.workloads.random_access import Integers, Randomness

_FIRST: Final = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah")
_LAST: Final = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones")
LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "person name": tuple(f"{first} {last}" for first in _FIRST for last in _LAST),
    "city": (
        *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
        *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
    ),
    "state": ("AZ", "CA", "ID", "OR", "WA", "WY"),
}

Pool: TypeAlias = Literal["word", "extra", "card"]
_POOL_SIZE: Final = 4_096
_LETTERS: Final[Mapping[Pool, int]] = {"word": 8, "extra": 12, "card": 4}

WELL_KNOWN: Final = ("Google", "Facebook", "Baidu", "Apple")
_SITE: Final = "https://www.nexmark.com"


def some_of(name: str, random: Randomness, position: Integers) -> pa.Array:
    """One of a fixed list."""
    return pa.array(LISTS[name]).take(pa.array(random.integers(name, position, len(LISTS[name]))))


def from_pool(name: str, random: Randomness, position: Integers, pool: Pool) -> pa.Array:
    """One of a few thousand short texts."""
    return _pool(random.seed, pool).take(pa.array(random.integers(name, position, _POOL_SIZE)))


def emails(random: Randomness, position: Integers) -> pa.Array:
    """Addresses nobody has."""
    name, domain = (from_pool(f"mail {part}", random, position, "word") for part in ("name", "at"))
    return pc.binary_join_element_wise(name, "@", domain, ".example", "")


def phrases(random: Randomness, position: Integers) -> pa.Array:
    """Four words."""
    words = (from_pool(f"word {number}", random, position, "word") for number in range(4))
    return pc.binary_join_element_wise(*words, " ")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Channels:
    """Through which channel bids come, and the address of the item there.

    Half of the bids come through well-known channels; nine of ten others have an id in the url.
    """

    names: pa.Array
    urls: pa.Array

    @staticmethod
    @lru_cache(maxsize=8)
    def of(seed: int, count: int) -> Channels:
        """The channels of a seed: the well-known ones, then so many others."""
        random = Randomness(seed)
        number = np.arange(len(WELL_KNOWN) + count, dtype=np.int64)
        parts = (from_pool(f"folder {part}", random, number, "word") for part in range(3))
        urls = pc.binary_join_element_wise(_SITE, *parts, "item.htm?query=1", "/")
        other = number - len(WELL_KNOWN)
        ids = pa.array(random.integers("channel id", number, 2**31)).cast(pa.string())
        with_id = pc.binary_join_element_wise(urls, "&channel_id=", ids, "")
        has_id = (other >= 0) & (random.floats("has id", number) < 0.9)
        names = pc.binary_join_element_wise("channel-", pa.array(other).cast(pa.string()), "")
        names = pa.concat_arrays([pa.array(WELL_KNOWN), names.slice(len(WELL_KNOWN))])
        return Channels(names, pc.if_else(pa.array(has_id), with_id, urls))

    def take(self, random: Randomness, position: Integers) -> tuple[pa.Array, pa.Array]:
        """Channels and urls of bids."""
        well_known = random.floats("well-known", position) < 1 / 2
        others = len(self.names) - len(WELL_KNOWN)
        other = len(WELL_KNOWN) + random.integers("channel", position, others)
        known = random.integers("known channel", position, len(WELL_KNOWN))
        chosen = pa.array(np.where(well_known, known, other))
        return self.names.take(chosen), self.urls.take(chosen)


@lru_cache(maxsize=32)
def _pool(seed: int, pool: Pool) -> pa.Array:
    length = _LETTERS[pool]
    positions = np.arange(_POOL_SIZE * length, dtype=np.int64)
    symbols = "0123456789" if pool == "card" else "abcdefghijklmnopqrstuvwxyz"
    drawn = Randomness(seed).integers(f"pool {pool}", positions, len(symbols))
    letters = np.frombuffer(symbols.encode(), np.uint8)[drawn]
    return pa.array(letters.view(f"S{length}").astype(str).tolist(), pa.string())
