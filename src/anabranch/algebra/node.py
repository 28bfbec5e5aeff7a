"""What all logical operators share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Time


class Node(ABC):
    """A logical operator: immutable, with a schema, properties and a meaning."""

    __slots__ = ()

    identity: ClassVar[Identity]
    """What it is called and what it is made of, for plans that are compared across versions."""

    traits: ClassVar[Traits] = Traits()
    """What holds of it whatever its arguments are; unless it is declared, nothing."""

    holds_back: ClassVar[bool] = False
    """Whether snapshots appear late, each once it is settled, and promises may come late, too."""

    makes_events: ClassVar[bool] = False
    """Whether every result is an event of its own, also beside an equal one."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]:
        """The operators this one reads, left to right."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The payload columns that leave this operator."""

    @property
    @abstractmethod
    def properties(self) -> Properties:
        """What is known of the output, derived from the inputs."""

    @property
    @abstractmethod
    def label(self) -> str:
        """One line for `explain`: the operator and its arguments."""

    @abstractmethod
    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The meaning: the output's snapshots, given the inputs' snapshots."""

    @property
    def remembers(self) -> bool:
        """Whether it keeps rows from one batch to the next, so that it has state."""
        return True

    @property
    def reads(self) -> tuple[Expression, ...] | None:
        """Of one input, all that it looks at; None where whole payloads count or are passed on."""
        return None

    @property
    def clock(self) -> Clock | None:
        """How the stream counts time: as its inputs do; None where its rows hold always."""
        return next((each for node in self.inputs if (each := node.clock) is not None), None)

    def promise(self, *stables: Time) -> Time:
        """How far the output is settled once the inputs are: by causality, as far as they are."""
        return Time(min(stables))

    def with_inputs(self, *inputs: Node) -> Node:
        """The same operator over other inputs."""
        names = {field.name for field in fields(self)}  # type: ignore[arg-type]
        if "inputs" in names:
            changed: dict[str, object] = {"inputs": inputs}
        else:
            sides = ("left", "right") if len(inputs) == 2 else ("input",)
            changed = dict(zip(sides, inputs, strict=True)) if inputs else {}
        return replace(self, **changed)  # type: ignore[type-var]

    def walk(self) -> Iterator[Node]:
        """This node and all below it, inputs first."""
        for node in self.inputs:
            yield from node.walk()
        yield self


def clock_of(node: Node) -> Clock:
    """How a stream counts time; what holds always may count as it likes."""
    return node.clock or INTEGERS


def check_clocks(inputs: Sequence[Node], *, where: str) -> None:
    """Refuse streams that count time in different ways: one instant of them is not the same.

    Raises:
        PlanError: They do.
    """
    clocks = [(node.label, clock) for node in inputs if (clock := node.clock) is not None]
    for label, clock in clocks[1:]:
        first, other = clocks[0]
        if clock == other:
            continue
        if clock.timestamps != other.timestamps:
            what = "streams of timestamps and streams of whole numbers cannot be combined"
            hint = "order both by timestamps, or both by whole numbers"
        else:
            what = "the streams have different chronons"
            hint = "declare the same CHRONON for both (in Python chronon='1 second')"
        shown = [f"{name}: {_shown(each)}" for name, each in ((first, other), (label, clock))]
        raise PlanError(what, where="\n".join([where, *shown]), hint=hint)


def _shown(clock: Clock) -> str:
    kind = "timestamps" if clock.timestamps else "whole numbers"
    return f"{kind}, {f'one chronon is {clock.label}' if clock.label else 'no CHRONON declared'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Node):
    """An operator with one input, whose columns it keeps unless it says otherwise."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one stream it reads."""
        return (self.input,)

    @property
    def schema(self) -> pa.Schema:
        """That of the input."""
        return self.input.schema
