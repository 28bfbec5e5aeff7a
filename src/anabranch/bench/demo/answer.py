"""What the demo asks, and what the right answer is: the meaning of the query, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.bench.demo.query import SLIDE, WINDOW
from anabranch.errors import EngineError
from anabranch.expressions.expression import Expression
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.clock import MICROSECONDS
from anabranch.model.elements import elements_of
from anabranch.model.legality import LegalityChecker, show_violation
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Time
from anabranch.workloads.arrival import BID_PAYLOAD


def query_plan() -> Node:
    """The logical plan of the demo's query; its meaning is what the answer is compared with."""
    bids = Source(name="Bid", schema=BID_PAYLOAD, timestamps=True)
    size, slide = MICROSECONDS.duration(WINDOW), MICROSECONDS.duration(SLIDE)
    held = TimeWindow(input=bids, size=size, slide=slide)
    return Aggregation(
        input=held,
        group_by=(("itemID", Expression.parse("itemID", BID_PAYLOAD)),),
        aggregates=(
            (
                "highest",
                AggregateCall(function="max", argument=Expression.parse("price", BID_PAYLOAD)),
            ),
            ("bids", AggregateCall(function="count", argument=None)),
        ),
    )


def right_answer(bids: Iterable[EventBatch]) -> LogicalStream:
    """What the query means over a legal stream of bids."""
    meaning = LogicalStream.of_batches(bids)
    for node in query_plan().walk():
        meaning = meaning if isinstance(node, Source) else node.denote(meaning)
    return meaning


def compare(right: LogicalStream, answer: Sequence[EventBatch]) -> int:
    """Compare an answer at every instant; at how many the right one changes.

    Raises:
        EngineError: The answer is not the one that the meaning of the query demands.
    """
    got = LogicalStream.of_batches(answer)
    if got.agrees_with(right) is not None:
        raise EngineError(
            "the demo's answer is wrong",
            where=got.difference(right),
            hint="please report this with the text above",
        )
    return len(right.change_points())


def check_promises(answer: Iterable[EventBatch]) -> None:
    """Check that nothing was changed that a stable point had settled.

    Raises:
        EngineError: Something was.
    """
    checker = LegalityChecker(clock=MICROSECONDS, unit="element")
    for batch in answer:
        for found in checker.feed(Arrivals.of(elements_of(batch), batch.schema)):
            raise EngineError(
                "the demo's answer breaks a promise",
                where=show_violation(found, clock=MICROSECONDS),
                hint="please report this with the text above",
            )


def settled(node: Node, stable: Time) -> Time:
    """How far the answer of a plan over one source is settled when that is settled so far."""
    if isinstance(node, Source):
        return stable
    return node.promise(*(settled(each, stable) for each in node.inputs))
