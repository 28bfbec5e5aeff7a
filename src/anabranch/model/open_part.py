"""What of some moves lies behind a stable point, and what lies before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anabranch.model.batch import EventBatch
from anabranch.model.time import Time, TimeArray


def open_part(batch: EventBatch, bound: Time | TimeArray | np.int64) -> EventBatch:
    """The moves as far as they change instants from `bound` on; what lies before it is over.

    A move of an end that lies before the bound begins anew there, as an insert. A move that only
    changes what is over disappears. With the bound 20, an insert for [5, 30) becomes one for
    [20, 30), a withdrawal of [5, 30) an adjust to [5, 20), an insert for [5, 9) nothing.
    """
    start = np.where(batch.end < bound, bound, batch.start)
    end, new_end = np.maximum(batch.end, bound), np.maximum(batch.new_end, bound)
    return replace(batch, start=start, end=end, new_end=new_end).where(end != new_end)
