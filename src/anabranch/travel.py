"""Plans about another time: as it was known then, or for the answers of a stretch of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from anabranch.algebra.analysis.reach import needed
from anabranch.algebra.clip import Clip
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.source import Source
from anabranch.errors import PlanError, QueryError
from anabranch.model.clock import MICROSECONDS
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.sources.declare.bounded_source import bounded_source
from anabranch.runtime.sources.declare.known_source import known_source
from anabranch.runtime.sources.spec import KnowledgePoint

Travelled = tuple[Node, Mapping[str, Any]]
"""A plan, and its sources by name."""


def knowledge_point(known: Any) -> KnowledgePoint:
    """The number of a revision, or the instant of a timestamp.

    >>> knowledge_point(3).label, knowledge_point("2024-01-01 12:00:00").label
    ('after revision 3', 'at 2024-01-01T12:00:00')

    Raises:
        PlanError: It is neither.
    """
    if isinstance(known, int) and not isinstance(known, bool) and known >= 0:
        return KnowledgePoint(revision=known)
    if isinstance(known, datetime) or (isinstance(known, str) and not _is_number(known)):
        try:
            instant = MICROSECONDS.instant(known)
        except QueryError:
            instant = FOREVER
        if BEGINNING < instant < FOREVER:
            return KnowledgePoint(instant=int(instant))
    raise PlanError(
        f"known must be the number of a revision or a timestamp, not {known!r}",
        where="as_of(...)",
        hint="pass known=3 for after revision 3 (0: before any), or known='2024-01-01 12:00:00'",
    )


def as_known(node: Node, sources: Mapping[str, Any], known: KnowledgePoint) -> Travelled:
    """A plan over the archives of its streams, as they were known then.

    Relations stay what they are; so do streams for which the query says itself what is known.

    Raises:
        PlanError: A stream has no archive in a folder of its own.
    """
    shown = known.revision if known.instant is None else MICROSECONDS.format(known.instant)
    found: dict[str, Any] = {}

    def over(leaf: Source) -> Source:
        source = sources[leaf.name]
        if leaf.relation or leaf.always or getattr(source, "known", None) is not None:
            found[leaf.name] = source
            return leaf
        archive = source.archive
        if archive is None or archive.path is None:
            kept = "nowhere" if archive is None else "in the checkpoint of each query"
            raise PlanError(
                f"'{leaf.name}' has no archive to look into: its rows are kept {kept}",
                where="as_of(...)",
                hint=f"declare a folder for it: CREATE STREAM {leaf.name} ... ARCHIVE "
                f"'archive/{leaf.name.lower()}'; archive= in Python",
            )
        name = f"{leaf.name}@known={shown}"
        found[name] = known_source(source, name, known)
        return replace(leaf, name=name, insert_only=False)

    return _over_leaves(node, over), found


def between(node: Node, sources: Mapping[str, Any], first: Time, last: Time) -> Travelled:
    """A plan for the answers in `[first, last)`, over as much input as they need.

    Its leaves are called `Quote@20..30`.

    Raises:
        PlanError: There is no instant between them, or a source cannot be read again.
    """
    clipped = Clip(input=node, start=first, end=last)
    spans, clock = needed(node, (first, last)), clock_of(node)
    found: dict[str, Any] = {}

    def over(leaf: Source) -> Source:
        source = sources[leaf.name]
        if leaf.relation or leaf.always:
            found[leaf.name] = source
            return leaf
        bounded, own = bounded_source(source, leaf, spans[leaf.name])
        # Another stream than the whole, so that no results of queries over that are read for it.
        name = f"{leaf.name}@{clock.format(first)}..{clock.format(last)}"
        found[name] = replace(bounded, promise=replace(bounded.promise, source=name))
        return replace(own, name=name)

    return _over_leaves(clipped, over), found


def instants_between(node: Node, first: Any, last: Any) -> tuple[Time, Time]:
    """Two instants as users write them; None is the beginning, or forever.

    Raises:
        PlanError: One is not an instant.
    """
    clock = clock_of(node)
    try:
        return (
            BEGINNING if first is None else clock.instant(first),
            FOREVER if last is None else clock.instant(last),
        )
    except QueryError as problem:
        where = f"answers from {first} until {last}"
        raise PlanError(problem.what, where=where, hint=problem.hint) from None


def _over_leaves(node: Node, over: Callable[[Source], Source]) -> Node:
    """The same plan over other leaves; what several nodes read stays one."""
    done: dict[int, Node] = {}

    def visit(each: Node) -> Node:
        if id(each) not in done:
            if isinstance(each, Source):
                done[id(each)] = over(each)
            else:
                done[id(each)] = each.with_inputs(*map(visit, each.inputs))
        return done[id(each)]

    return visit(node)


def _is_number(text: str) -> bool:
    return text.strip().lstrip("-").isdigit()
