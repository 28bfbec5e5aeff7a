"""Temporal stream processing on Spark: exact, revisable answers over late and corrected streams."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.adapt.decision import Reoptimize
    from anabranch.algebra.modules.user_operator import Event, Window
    from anabranch.display.result_table import ResultTable
    from anabranch.engine import Engine, GroupedStream, LocalRun, Stream
    from anabranch.errors import (
        AnabranchError,
        EngineError,
        OperatorError,
        PlanError,
        QueryError,
        StreamError,
    )
    from anabranch.fluent import merge
    from anabranch.frames.column import Column, col, expr, lit
    from anabranch.merging.cutover import cutover
    from anabranch.merging.jumpstart import jumpstart
    from anabranch.merging.logs import merge_logs
    from anabranch.merging.replicate import Replication, replicate
    from anabranch.model.batch import EventBatch
    from anabranch.model.files.stream_file import read_batches, write_stream
    from anabranch.model.logical import LogicalStream
    from anabranch.model.time import FOREVER, Duration
    from anabranch.runtime.archive.estimate import estimate_revision
    from anabranch.runtime.archive.summarizing import summarize
    from anabranch.runtime.archive.summary import ArchiveSummary
    from anabranch.runtime.query.run import Run
    from anabranch.runtime.sinks.message_sink import Messages
    from anabranch.runtime.sources.spec import ARRIVAL
    from anabranch.userops.bases import (
        Aggregate,
        IncrementalAggregate,
        IncrementalOperator,
        Operator,
    )
    from anabranch.userops.decorators import uda, udo
    from anabranch.userops.scalars import udf
    from anabranch.windowed import WindowedStream, call

__version__ = "0.1.0"

__all__ = [
    "ARRIVAL",
    "FOREVER",
    "Aggregate",
    "AnabranchError",
    "ArchiveSummary",
    "Column",
    "Duration",
    "Engine",
    "EngineError",
    "Event",
    "EventBatch",
    "GroupedStream",
    "IncrementalAggregate",
    "IncrementalOperator",
    "LocalRun",
    "LogicalStream",
    "Messages",
    "Operator",
    "OperatorError",
    "PlanError",
    "QueryError",
    "Reoptimize",
    "Replication",
    "ResultTable",
    "Run",
    "Stream",
    "StreamError",
    "Window",
    "WindowedStream",
    "call",
    "col",
    "cutover",
    "estimate_revision",
    "expr",
    "jumpstart",
    "lit",
    "merge",
    "merge_logs",
    "read_batches",
    "replicate",
    "summarize",
    "uda",
    "udf",
    "udo",
    "write_stream",
]

_MODULES = {
    "anabranch.algebra.modules.user_operator": ("Event", "Window"),
    "anabranch.display.result_table": ("ResultTable",),
    "anabranch.engine": ("Engine", "GroupedStream", "LocalRun", "Stream"),
    "anabranch.errors": (
        "AnabranchError",
        "EngineError",
        "OperatorError",
        "PlanError",
        "QueryError",
        "StreamError",
    ),
    "anabranch.adapt.decision": ("Reoptimize",),
    "anabranch.fluent": ("merge",),
    "anabranch.frames.column": ("Column", "col", "expr", "lit"),
    "anabranch.merging.cutover": ("cutover",),
    "anabranch.merging.jumpstart": ("jumpstart",),
    "anabranch.merging.logs": ("merge_logs",),
    "anabranch.merging.replicate": ("Replication", "replicate"),
    "anabranch.model.batch": ("EventBatch",),
    "anabranch.model.logical": ("LogicalStream",),
    "anabranch.model.files.stream_file": ("read_batches", "write_stream"),
    "anabranch.model.time": ("FOREVER", "Duration"),
    "anabranch.runtime.archive.estimate": ("estimate_revision",),
    "anabranch.runtime.archive.summarizing": ("summarize",),
    "anabranch.runtime.archive.summary": ("ArchiveSummary",),
    "anabranch.runtime.query.run": ("Run",),
    "anabranch.runtime.sinks.message_sink": ("Messages",),
    "anabranch.runtime.sources.spec": ("ARRIVAL",),
    "anabranch.userops.bases": (
        "Aggregate",
        "IncrementalAggregate",
        "IncrementalOperator",
        "Operator",
    ),
    "anabranch.userops.decorators": ("uda", "udo"),
    "anabranch.userops.scalars": ("udf",),
    "anabranch.windowed": ("WindowedStream", "call"),
}


def __getattr__(name: str) -> Any:
    # Loaded when first used: a command that looks at a file shall not wait for the engine.
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'anabranch' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
