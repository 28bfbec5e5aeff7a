"""What all logical operators share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from anabranch.model.logical import LogicalStream


@dataclass(frozen=True, slots=True)
class Properties:
    """What is known of a stream before it runs.

    `insert_only`: no adjusts ever come. `only_points`: every lifetime is one chronon long.
    """

    insert_only: bool = False
    only_points: bool = False


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

    def walk(self) -> Iterator[Node]:
        """This node and all below it, inputs first."""
        for node in self.inputs:
            yield from node.walk()
        yield self
