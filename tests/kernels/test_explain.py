from __future__ import annotations

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.explain import explain_stages
from anabranch.model.time import Duration
from tests.kernels.plans import SCHEMA, SOURCE, aggregate


def test_stages_show_what_they_read_and_how_rows_are_spread() -> None:
    other = Source(name="T", schema=SCHEMA, insert_only=True)
    window = TimeWindow(input=Union(inputs=(SOURCE, other)), size=Duration(5))
    inner = aggregate(window, ("k", "v"), "hi")
    plan = compile_plan(inner, emit="final")
    assert explain_stages(plan).splitlines() == [
        "Stage 0-aggregate (by k, v)",
        "  reads source:S (k, v, x) -> TimeWindow 5 presence only",
        "  reads source:T (k, v, x) -> TimeWindow 5 presence only",
        "  Aggregate max(x) AS hi by k, v [keeps events]",
        "  Final (holds what may still change)",
    ]


def test_aggregations_share_a_stage_where_keys_stay_together() -> None:
    inner = aggregate(SOURCE, ("k",), "n")
    most = AggregateCall(function="max", argument=Expression.parse("n", inner.schema))

    def outer(by: str) -> list[str]:
        key = Expression.parse(by, inner.schema)
        node = Aggregation(input=inner, group_by=((by, key),), aggregates=(("most", most),))
        return [stage.name for stage in compile_plan(node).stages]

    assert outer("k") == ["0-aggregate"]
    assert outer("n") == ["0-aggregate", "1-aggregate"]


def test_a_plan_without_memory_has_one_stage_that_collects() -> None:
    plan = compile_plan(TimeWindow(input=SOURCE, size=Duration(5)))
    assert [stage.name for stage in plan.stages] == ["0-collect"]
