"""Random numbers by position: the n-th is known without the ones before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.numbers.hashing import stable_hash

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True)
class Randomness:
    """As many independent sequences as one likes, each a function of seed, name and position.

    So a workload can be made in pieces of any size, in any order, on any machine.
    """

    seed: int

    def words(self, name: str, positions: Integers) -> npt.NDArray[np.uint64]:
        """Uniform in all 64 bits."""
        return stable_hash([pa.array(positions)], len(positions), self._salt(name))

    def floats(self, name: str, positions: Integers) -> Floats:
        """Uniform in [0, 1)."""
        return (self.words(name, positions) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, name: str, positions: Integers, below: int | Integers) -> Integers:
        """Uniform in [0, below)."""
        return (self.floats(name, positions) * below).astype(np.int64)

    def _salt(self, name: str) -> int:
        columns = [pa.array([self.seed], pa.int64()), pa.array([name])]
        return int(stable_hash(columns, 1)[0])
