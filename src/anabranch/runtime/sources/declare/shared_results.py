"""Queries that read what another query computes already: its log in place of the sub-plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.optimizer.leaves import cut_off, leaf_for
from anabranch.optimizer.meaning.sharing import Sharing
from anabranch.optimizer.meaning.unify import put_in_place
from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.declare.describe import describe_files
from anabranch.runtime.sources.spec import FileSource


@final
@dataclass(frozen=True, slots=True)
class Published:
    """A plan whose results are in a log folder."""

    node: Node
    leaf: Source
    source: FileSource


def publish(node: Node, name: str, folder: str) -> Published:
    """Say that a log folder holds the results of a plan."""
    source, leaf = describe_files(folder, Declared(name=f"results of {name}"))
    return Published(node, replace(leaf_for(node, leaf.name), schema=leaf.schema), source)


def reuse(
    node: Node,
    sources: Mapping[str, Any],
    published: Sequence[Published],
    *,
    sharing: Sharing = "meaning",
) -> tuple[Node, dict[str, Any]]:
    """A plan that reads published results wherever it would compute the same, and its sources.

    Results over a source with an archive are computed anew: whoever reads a log gets no rows to
    keep, and nothing says what revisions in that log lead to.

    `sharing` says what counts as the same.
    """
    archived = {name for name, each in sources.items() if getattr(each, "archive", None)}
    usable = [each for each in published if archived.isdisjoint(_leaves(each.node))]
    if sharing != "text":
        known = [(each.node, each.leaf) for each in usable]
        node = put_in_place(node, known, sharing)
    found = cut_off(node, {each.node: each.leaf for each in usable})
    every = {**sources, **{each.leaf.name: each.source for each in usable}}
    return found, {name: every[name] for name in dict.fromkeys(_leaves(found))}


def _leaves(node: Node) -> list[str]:
    return [each.name for each in node.walk() if isinstance(each, Source)]
