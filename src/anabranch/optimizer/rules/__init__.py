"""Rewrites that keep the meaning, one per file."""

from collections.abc import Callable
from typing import Final, TypeAlias

from anabranch.algebra.node import Node
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

RULES: Final[tuple[Rule, ...]] = (
    flatten_unions,
    drop_now_window,
    drop_needless_retiming,
    drop_needless_cuts,
    drop_identity_map,
    simplify_predicate,
    merge_filters,
    merge_maps,
    narrow_outer_join,
    derive_join_filter,
    push_filter_below_map,
    push_filter_below_union,
    push_filter_below_window,
    push_filter_below_count_window,
    push_filter_below_top_k,
    push_filter_below_retiming,
    push_filter_below_distinct,
    push_filter_below_aggregate,
    push_filter_below_apply_module,
    push_filter_below_set_operation,
    push_filter_below_join,
    push_filter_into_join,
    push_join_predicate,
    push_map_below_union,
    push_map_below_window,
    push_map_below_retiming,
    push_map_below_count_window,
    push_map_below_top_k,
    push_map_below_distinct,
    push_map_below_set_operation,
    merge_windows_over_union,
    merge_windows_below_distinct,
    drop_constant_partition,
    drop_needless_distinct,
    drop_hidden_distinct,
    fold_intersection,
    fold_max_union,
    make_difference_strict,
    merge_differences,
    make_anti_join_a_difference,
    merge_semi_and_anti,
    compare_with_extreme,
    factor_join_out_of_union,
    drop_unused_aggregates,
    prune_columns,
)
"""What always helps, in order of application."""

ALTERNATIVES: Final[tuple[Rule, ...]] = (
    push_grouping_below_join,
    push_distinct_below_join,
    pull_distinct_above_join,
    drop_distinct_below_join,
)
"""What helps or not, as the cost model says."""
