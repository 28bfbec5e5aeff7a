"""What earlier queries of the same Spark have shown: which workers are there, what rows cost.

A query that is started again, or one like it, need not find out once more that its rows are
expensive; and workers that one query has started serve the next one.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.runtime.query.driver_share import WARM_UP, ShareCosts
from anabranch.runtime.spark.session import parallelism
from anabranch.runtime.spark.warm_up import WorkerWarmUp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.kernels.plan.stage import PhysicalPlan

REMEMBERED_PLANS: Final = 256
"""The costs of so many plans are kept, those that were used last."""

_COLD_PLAN: Final = 1
"""The first batch of a plan loads loops of its own, though modules are imported by now."""

_COLD_TASKS: Final = 2
"""Workers load them as well, each for itself."""


@final
@dataclass(frozen=True, slots=True)
class Experience:
    """What was learned on one Spark.

    Attributes:
        workers: Its Python workers.
        cores: How many tasks run at once.
    """

    workers: WorkerWarmUp
    cores: int
    _costs: OrderedDict[str, ShareCosts] = field(default_factory=OrderedDict)

    def costs_of(self, plan: PhysicalPlan, before: ShareCosts | None = None) -> ShareCosts:
        """What rows cost in batches of a plan; its queries add to it.

        Of a plan that takes the place of another one, and was never measured, the costs of that
        are assumed at first. What drivers have lost `before` says nothing about it.
        """
        if before is not None:
            self.workers.forget_losses()
        key = plan_fingerprint(plan)
        if key not in self._costs:
            if before is not None:
                costs = before.for_another_plan(_COLD_PLAN)
            else:
                cold = _COLD_PLAN if self._costs else WARM_UP
                costs = ShareCosts(cores=self.cores, cold=cold, cold_tasks=_COLD_TASKS)
            self._costs[key] = costs
            if len(self._costs) > REMEMBERED_PLANS:
                self._costs.popitem(last=False)
        self._costs.move_to_end(key)
        return self._costs[key]


@lru_cache(maxsize=4)
def experience_of(spark: SparkSession) -> Experience:
    """What was learned on a Spark; a process has one, or a few one after the other."""
    cores = parallelism(spark)
    return Experience(WorkerWarmUp(spark, cores), cores)
