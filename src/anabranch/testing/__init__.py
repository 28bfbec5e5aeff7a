"""Public test kit: streams to draw, the oracle, a runner without Spark."""

from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.testing.check_module import check_module
from anabranch.testing.compatible import MergeViolation as Violation
from anabranch.testing.compatible import MergeWatch, compatible
from anabranch.testing.identical import assert_identical
from anabranch.testing.merge.inputs import Lag, Quorum
from anabranch.testing.merge.model import MergeModel
from anabranch.testing.merge.oracle import WatchedMerge, assert_merges
from anabranch.testing.oracle import assert_agrees, meaning, sources_of
from anabranch.testing.physical import (
    AnyElement,
    Element,
    KitStable,
    Move,
    PhysicalState,
    PhysicalStream,
    adjust,
    elements_of,
    insert,
    stable,
    violations,
)
from anabranch.testing.replica_forms import MERGE_CASES, MergeCase
from anabranch.testing.replicas import Action, MergeScript, make_script, merge_scripts
from anabranch.testing.strategies import (
    batchings,
    durations,
    instants,
    payload_schemas,
    points,
    schedules,
    streams,
    values,
)

__all__ = [
    "MERGE_CASES",
    "Action",
    "AnyElement",
    "Element",
    "KitStable",
    "Lag",
    "LocalRunner",
    "MergeCase",
    "MergeModel",
    "MergeScript",
    "MergeWatch",
    "Move",
    "PhysicalState",
    "PhysicalStream",
    "Quorum",
    "Violation",
    "WatchedMerge",
    "adjust",
    "assert_agrees",
    "assert_identical",
    "assert_merges",
    "batchings",
    "check_module",
    "compatible",
    "durations",
    "elements_of",
    "insert",
    "instants",
    "make_script",
    "meaning",
    "merge_scripts",
    "payload_schemas",
    "points",
    "schedules",
    "sources_of",
    "stable",
    "streams",
    "values",
    "violations",
]
