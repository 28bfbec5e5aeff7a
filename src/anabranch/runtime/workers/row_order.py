"""The order of output rows, which does not depend on how kernels happen to go about it."""

from __future__ import annotations

import numpy as np

from anabranch.model.batch import EventBatch
from anabranch.model.netting import net


def ordered(batch: EventBatch) -> EventBatch:
    """The rows by time.

    An event may move several times in a batch, and its moves keep their order.
    """
    if len(batch) < 2:
        return batch
    if (batch.end != batch.start).any():
        return batch.take(np.argsort(batch.start, kind="stable"))
    order = np.lexsort((batch.new_end, batch.end, batch.start))
    return batch if (order[1:] > order[:-1]).all() else batch.take(order)


def netted(batch: EventBatch) -> EventBatch:
    """One move per event, for rows whose order says nothing; inserts stay as they are."""
    return net(batch) if (batch.end != batch.start).any() else ordered(batch)
