"""What all logical operators share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import pyarrow as pa

from anabranch.model.logical import LogicalStream
from anabranch.model.time import Time


@dataclass(frozen=True, slots=True)
class Properties:
    """What is known of a stream before it runs.

    Attributes:
        insert_only: No adjusts ever come.
        only_points: Every lifetime is one chronon long.
        no_duplicates: No payload holds twice at one instant.
    """

    insert_only: bool = False
    only_points: bool = False
    no_duplicates: bool = False


class Node(ABC):
    """A logical operator: immutable, with a schema, properties and a meaning."""

    __slots__ = ()

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
