"""What a batch costs on how many cores: a model with constants that are measured.

A batch of n rows takes `floor + (n * row + s * shard) / cores` seconds, with s shards beyond the
first ones. The floor does not shrink with more cores: it is what Spark's driver does for
a batch, and the round trips to tasks and their Python workers. Rows are shared among cores: files
are read, packed, exchanged and counted by tasks that know nothing of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

FUTURE_CORES: Final = (16, 128, 1_024)
"""What the model is asked about."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchModel:
    """Seconds of a batch.

    Attributes:
        floor: What it costs before its first row.
        row: What a row costs on one core; 0 where batches were too small to show it.
        shard: What a shard costs on one core, whatever rows it has.
    """

    floor: float
    row: float
    shard: float = 0.0

    @staticmethod
    def through(small: tuple[int, float], large: tuple[int, float]) -> BatchModel:
        """The model of two batches on one core: rows and seconds of each.

        >>> BatchModel.through((1_000, 1.5), (5_000, 5.5))
        BatchModel(floor=0.5, row=0.001, shard=0.0)
        """
        row = max(0.0, (large[1] - small[1]) / (large[0] - small[0]))
        return BatchModel(floor=round(max(0.0, small[1] - row * small[0]), 9), row=row)

    def seconds(self, rows: int, cores: int, shards: int = 0) -> float:
        """What a batch takes; `shards` are those beyond the ones it was measured with."""
        return self.floor + (rows * self.row + shards * self.shard) / cores

    def speed_up(self, rows: int, cores: int, shards: int = 0) -> float:
        """How many times as fast so many cores are than one, with batches of one size.

        >>> BatchModel(floor=0.2, row=0.0001).speed_up(8_000, 2)
        1.666...
        """
        return self.seconds(rows, 1) / self.seconds(rows, cores, shards)

    def rows_per_second(self, rows: int, cores: int, shards: int = 0) -> float:
        """The throughput of batches of so many rows."""
        return rows / self.seconds(rows, cores, shards)

    def rows_for(self, cores: int, share: float = 0.2, shards: int = 0) -> int | None:
        """How large a batch must be so that the fixed part is `share` of it; None if no size is.

        >>> BatchModel(floor=0.2, row=1e-6).rows_for(16)
        12800000
        >>> BatchModel(floor=0.2, row=0.0).rows_for(16)
        """
        if self.row == 0:
            return None
        fixed = self.floor + shards * self.shard / cores
        return round(fixed * (1 / share - 1) * cores / self.row)
