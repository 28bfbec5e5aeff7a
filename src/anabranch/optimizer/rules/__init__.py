"""Rewrites that keep the meaning, one per file."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, TypeAlias

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.optimizer.rules.compare_with_extreme import compare_with_extreme
from anabranch.optimizer.rules.derive_join_filter import derive_join_filter
from anabranch.optimizer.rules.drop_constant_partition import drop_constant_partition
from anabranch.optimizer.rules.drop_distinct_below_join import drop_distinct_below_join
from anabranch.optimizer.rules.drop_hidden_distinct import drop_hidden_distinct
from anabranch.optimizer.rules.drop_identity_map import drop_identity_map
from anabranch.optimizer.rules.drop_needless_cuts import drop_needless_cuts
from anabranch.optimizer.rules.drop_needless_distinct import drop_needless_distinct
from anabranch.optimizer.rules.drop_needless_retiming import drop_needless_retiming
from anabranch.optimizer.rules.drop_now_window import drop_now_window
from anabranch.optimizer.rules.drop_unused_aggregates import drop_unused_aggregates
from anabranch.optimizer.rules.factor_join_out_of_union import factor_join_out_of_union
from anabranch.optimizer.rules.flatten_unions import flatten_unions
from anabranch.optimizer.rules.fold_intersection import fold_intersection
from anabranch.optimizer.rules.fold_max_union import fold_max_union
from anabranch.optimizer.rules.make_anti_join_a_difference import make_anti_join_a_difference
from anabranch.optimizer.rules.make_difference_strict import make_difference_strict
from anabranch.optimizer.rules.merge_differences import merge_differences
from anabranch.optimizer.rules.merge_filters import merge_filters
from anabranch.optimizer.rules.merge_maps import merge_maps
from anabranch.optimizer.rules.merge_semi_and_anti import merge_semi_and_anti
from anabranch.optimizer.rules.merge_windows_below_distinct import merge_windows_below_distinct
from anabranch.optimizer.rules.merge_windows_over_union import merge_windows_over_union
from anabranch.optimizer.rules.narrow_outer_join import narrow_outer_join
from anabranch.optimizer.rules.prune_columns import prune_columns
from anabranch.optimizer.rules.pull_distinct_above_join import pull_distinct_above_join
from anabranch.optimizer.rules.push_distinct_below_join import push_distinct_below_join
from anabranch.optimizer.rules.push_filter_below_aggregate import push_filter_below_aggregate
from anabranch.optimizer.rules.push_filter_below_apply_module import push_filter_below_apply_module
from anabranch.optimizer.rules.push_filter_below_count_window import push_filter_below_count_window
from anabranch.optimizer.rules.push_filter_below_distinct import push_filter_below_distinct
from anabranch.optimizer.rules.push_filter_below_join import push_filter_below_join
from anabranch.optimizer.rules.push_filter_below_map import push_filter_below_map
from anabranch.optimizer.rules.push_filter_below_retiming import push_filter_below_retiming
from anabranch.optimizer.rules.push_filter_below_set_operation import (
    push_filter_below_set_operation,
)
from anabranch.optimizer.rules.push_filter_below_top_k import push_filter_below_top_k
from anabranch.optimizer.rules.push_filter_below_union import push_filter_below_union
from anabranch.optimizer.rules.push_filter_below_window import push_filter_below_window
from anabranch.optimizer.rules.push_filter_into_join import push_filter_into_join
from anabranch.optimizer.rules.push_grouping_below_join import push_grouping_below_join
from anabranch.optimizer.rules.push_join_predicate import push_join_predicate
from anabranch.optimizer.rules.push_map_below_count_window import push_map_below_count_window
from anabranch.optimizer.rules.push_map_below_distinct import push_map_below_distinct
from anabranch.optimizer.rules.push_map_below_retiming import push_map_below_retiming
from anabranch.optimizer.rules.push_map_below_set_operation import push_map_below_set_operation
from anabranch.optimizer.rules.push_map_below_top_k import push_map_below_top_k
from anabranch.optimizer.rules.push_map_below_union import push_map_below_union
from anabranch.optimizer.rules.push_map_below_window import push_map_below_window
from anabranch.optimizer.rules.simplify_predicate import simplify_predicate

Rule: TypeAlias = Callable[[Node], Node | None]
"""Another node that means the same, or None where the rule does not apply."""

Roots: TypeAlias = tuple[type[Node], ...]
"""The operators that a rule rewrites: of all others it gives None."""

EVERYWHERE: Final[Roots] = (Node,)
"""For rules that ask an operator for its traits, and for those that are not in the table."""

_ALWAYS: Final[Mapping[Rule, Roots]] = {
    flatten_unions: (Union,),
    drop_now_window: (TimeWindow,),
    drop_needless_retiming: (Granularity, Shift, AlterLifetime),
    drop_needless_cuts: EVERYWHERE,
    drop_identity_map: (Map,),
    simplify_predicate: (Filter, Join),
    merge_filters: (Filter,),
    merge_maps: (Map,),
    narrow_outer_join: (Filter,),
    derive_join_filter: (Join,),
    push_filter_below_map: (Filter,),
    push_filter_below_union: (Filter,),
    push_filter_below_window: (Filter,),
    push_filter_below_count_window: (Filter,),
    push_filter_below_top_k: (Filter,),
    push_filter_below_retiming: (Filter,),
    push_filter_below_distinct: (Filter,),
    push_filter_below_aggregate: (Filter,),
    push_filter_below_apply_module: (Filter,),
    push_filter_below_set_operation: (Filter,),
    push_filter_below_join: (Filter,),
    push_filter_into_join: (Filter,),
    push_join_predicate: (Join,),
    push_map_below_union: (Map,),
    push_map_below_window: (Map,),
    push_map_below_retiming: (Map,),
    push_map_below_count_window: (Map,),
    push_map_below_top_k: (Map,),
    push_map_below_distinct: (Map,),
    push_map_below_set_operation: (Map,),
    merge_windows_over_union: (Union,),
    merge_windows_below_distinct: (Distinct,),
    drop_constant_partition: (CountWindow, SessionWindow, TopK),
    drop_needless_distinct: (Distinct,),
    drop_hidden_distinct: (Distinct, Aggregation, Join, SetOperation),
    fold_intersection: (SetOperation,),
    fold_max_union: (SetOperation, Union),
    make_difference_strict: (SetOperation,),
    merge_differences: (SetOperation,),
    make_anti_join_a_difference: (Join,),
    merge_semi_and_anti: (Union,),
    compare_with_extreme: (Join,),
    factor_join_out_of_union: (Union,),
    drop_unused_aggregates: (Map,),
    prune_columns: EVERYWHERE,
}

_BY_COST: Final[Mapping[Rule, Roots]] = {
    push_grouping_below_join: (Aggregation,),
    push_distinct_below_join: (Distinct,),
    pull_distinct_above_join: (Join,),
    drop_distinct_below_join: (Distinct, Aggregation),
}

RULES: Final[tuple[Rule, ...]] = tuple(_ALWAYS)
"""What always helps, in order of application."""

ALTERNATIVES: Final[tuple[Rule, ...]] = tuple(_BY_COST)
"""What helps or not, as the cost model says."""

ROOTS: Final[Mapping[Rule, Roots]] = {**_ALWAYS, **_BY_COST}
"""Where each rule has to be tried: a rule that is not here is tried everywhere."""


@cache
def rules_at(kind: type[Node], rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Those of some rules, in order, that may apply to operators of a kind."""
    return tuple(rule for rule in rules if issubclass(kind, ROOTS.get(rule, EVERYWHERE)))
