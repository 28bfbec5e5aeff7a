"""How long a change would take, by clip and by replay: what `auto` decides by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from anabranch.model.time import Time
from anabranch.runtime.query.batch_times import BatchTimes

ROWS_PER_SECOND: Final = 500_000.0
"""The assumed rate of a query that has not been measured yet."""

SHORT_CLIP_SECONDS: Final = 10.0
"""A clip that is over so soon is not worth a replay."""

WORTH_IT: Final = 2.0
"""A replay has to be so many times faster than a clip: it takes cores from the query meanwhile."""


@final
@dataclass(frozen=True, slots=True)
class Effort:
    """What the two ways would take.

    Attributes:
        rows: About how many rows would be read again.
        rows_per_second: How fast the query computes, as measured.
        clip_seconds: How long both plans would have to run; None where nobody knows the pace.
    """

    rows: int
    rows_per_second: float
    clip_seconds: float | None

    @property
    def replay_seconds(self) -> float:
        """How long reading again would take."""
        return self.rows / self.rows_per_second

    @property
    def prefers_replay(self) -> bool:
        """Whether reading again is over clearly earlier."""
        clip = self.clip_seconds
        return (
            clip is not None and clip > SHORT_CLIP_SECONDS and self.replay_seconds * WORTH_IT < clip
        )

    def text(self) -> str:
        """Both, for people."""
        clip = "takes an unknown time"
        if self.clip_seconds is not None:
            clip = f"about {seconds_text(self.clip_seconds)}"
        return (
            f"reading {self.rows:,} rows again takes about {seconds_text(self.replay_seconds)} at "
            f"{self.rows_per_second:,.0f} rows/s, a clip {clip}"
        )


def seconds_text(seconds: float) -> str:
    """A duration with one unit.

    >>> seconds_text(0.2), seconds_text(90), seconds_text(7200)
    ('0.2 seconds', '90 seconds', '120 minutes')
    """
    if seconds < 10:
        return f"{seconds:.1f} seconds"
    return f"{seconds:.0f} seconds" if seconds <= 100 else f"{seconds / 60:.0f} minutes"


def effort_of(
    times: BatchTimes,
    rows: int,
    *,
    clip_at: Time,
    stable: Time,
) -> Effort:
    """What the ways would take by the pace and the rate of the last batches."""
    pace, rate = times.pace, times.rows_per_second
    clip = None if pace is None else max(0, clip_at - stable) / pace
    return Effort(rows, rate or ROWS_PER_SECOND, clip)
