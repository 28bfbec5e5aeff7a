"""Where duplicates do not count."""

from __future__ import annotations

from typing import Final

from anabranch.algebra.analysis.presence import ignores_duplicates as ignores_duplicates
from anabranch.algebra.clip import Clip
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.split import Split
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union

_TRANSPARENT: Final = (
    *(Filter, Map, Union, TimeWindow, Granularity, Shift, Clip, Coalesce, Split, Cleanse),
)
_SET_KINDS: Final = ("strict difference", "intersection", "max-union")


def without_distinct(node: Node, *, joins: bool = False) -> Node | None:
    """A plan whose snapshots hold the same payloads, any number of times; None if there is none.

    What is passed through are operators for which the payloads of an output snapshot depend on
    the payloads of input snapshots alone, not on how many there are.
    """
    if isinstance(node, Distinct):
        return node.input
    passes = isinstance(node, _TRANSPARENT)
    passes |= isinstance(node, SetOperation) and node.kind in _SET_KINDS
    passes |= joins and isinstance(node, Join)
    if not passes:
        return None
    found = [without_distinct(each, joins=joins) for each in node.inputs]
    if all(each is None for each in found):
        return None
    inputs = [old if new is None else new for old, new in zip(node.inputs, found)]
    return node.with_inputs(*inputs)
