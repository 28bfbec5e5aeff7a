"""Public test kit: streams to draw, the oracle, a runner without Spark."""

from anabranch.kernels.pipeline import LocalRunner
from anabranch.testing.oracle import assert_agrees, meaning, sources_of
from anabranch.testing.physical import (
    Element,
    Move,
    PhysicalState,
    PhysicalStream,
    Stable,
    adjust,
    elements_of,
    insert,
    stable,
    violations,
)
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
    "Element",
    "LocalRunner",
    "Move",
    "PhysicalState",
    "PhysicalStream",
    "Stable",
    "adjust",
    "assert_agrees",
    "batchings",
    "durations",
    "elements_of",
    "insert",
    "instants",
    "meaning",
    "payload_schemas",
    "points",
    "schedules",
    "sources_of",
    "stable",
    "streams",
    "values",
    "violations",
]
