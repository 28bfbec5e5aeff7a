"""How long the rows that a query has read matter to answers of another plan.

A plan that begins in the middle of its sources has not seen the rows before. Its answers are right
from the instant on at which these rows no longer matter: all their lifetimes are over, and so are
the windows around them. That instant is the least one at which a running query can change to the
plan without reading anything again (spec: GenMig with T above every end).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import final

from anabranch.algebra.analysis.node_reach import keeps_instants, reached
from anabranch.algebra.analysis.spans import span
from anabranch.algebra.clip import Clip
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.source import Source
from anabranch.model.time import BEGINNING, FOREVER, Time


@final
@dataclass(frozen=True, slots=True)
class ReadHistory:
    """What a running query has read, and which of its operators another plan takes over.

    Attributes:
        ends: Per source the greatest end of all events that were read of it; FOREVER where it is
            not known. A source that is not in it has not been read.
        kept: Operators with state that stay, with what they remember.
        tables: Relations that are looked up in files: nothing of them has to be remembered.
        reopened: Operators that begin with all that others remember, and tell it anew; each with
            the instant at which answers are over that were forgotten before.
        revised: Sources whose earlier events may be corrected, insert-only or not.
    """

    ends: Mapping[str, Time]
    kept: Collection[Node] = frozenset()
    tables: Collection[str] = frozenset()
    reopened: Mapping[Node, Time] = field(default_factory=dict)
    revised: Collection[str] = frozenset()

    def end(self, node: Node) -> Time:
        """From this instant on, rows from before do not matter to the answers of a plan.

        FOREVER where they always may. Operators that are kept have seen those rows: only their
        results from before count.
        """
        return self._end(node, {})

    def _end(self, node: Node, found: dict[int, Time]) -> Time:
        if id(node) not in found:
            if isinstance(node, Source):
                found[id(node)] = self._source_end(node)
            elif node in self.reopened:
                found[id(node)] = self.reopened[node]
            else:
                inputs = [self._end(each, found) for each in node.inputs]
                found[id(node)] = _end_of(node, inputs, is_kept=node in self.kept)
        return found[id(node)]

    def _source_end(self, source: Source) -> Time:
        if source.name in self.tables:
            return BEGINNING
        return self.ends.get(source.name, BEGINNING)

    def unclippable(self, node: Node) -> str | None:
        """Why a plan cannot begin in the middle of its sources; None where it can."""
        for each in node.walk():
            if each in self.kept or each in self.reopened:
                continue
            if isinstance(each, Source):
                continue
            copied = [i for i in each.inputs if isinstance(i, Source) and i.copies]
            if copied:
                return f"'{each.label}' compares the copies of '{copied[0].name}' event by event"
            told = [i for i in each.inputs if each.remembers and self.tells_of_earlier(i)]
            if told and not keeps_instants(each) and self.end(each) > BEGINNING:
                return f"'{each.label}' looks at whole events, and earlier ones may be adjusted"
            endless = [found for i in told if (found := self._first_endless(i)) is not None]
            if endless:
                return _endless(endless[0])
        never = self._first_endless(node)
        return None if never is None else _endless(never)

    def _first_endless(self, node: Node) -> Node | None:
        """The lowest operator to which earlier rows matter for ever."""
        if self.end(node) != FOREVER:
            return None
        if isinstance(node, Source) or node in self.kept:
            return node
        below = [self._first_endless(each) for each in node.inputs]
        return next((each for each in below if each is not None), node)

    def clipped(self, node: Node) -> Node:
        """The plan for rows from now on, with clips where earlier events may still be adjusted.

        An adjust of an event that only the old plan has seen must not reach an operator that
        begins with nothing. Behind the clip all that was there before is empty, so the adjust is
        an insert of what it adds behind the clip, or nothing (spec: `o = v`). Operators above must
        work snapshot by snapshot; `unclippable` says whether they do.
        """
        return self._clipped(node, {})

    def _clipped(self, node: Node, done: dict[int, Node]) -> Node:
        if isinstance(node, Source) or node in self.kept or node in self.reopened:
            return node
        if id(node) not in done:
            inputs = []
            for each in node.inputs:
                below = self._clipped(each, done)
                at = self.end(each)
                if node.remembers and at > BEGINNING and self.tells_of_earlier(each):
                    below = Clip(input=below, start=at)
                inputs.append(below)
            changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
            done[id(node)] = node.with_inputs(*inputs) if changed else node
        return done[id(node)]

    def tells_of_earlier(self, node: Node) -> bool:
        """Whether moves of events may come that began before the plan did."""
        if isinstance(node, Source):
            is_final = node.properties.insert_only and node.name not in self.revised
            return node.name not in self.tables and not is_final
        if node in self.kept or node in self.reopened:
            read = {each.name for each in node.walk() if isinstance(each, Source)}
            return not node.properties.insert_only or not read.isdisjoint(self.revised)
        return not node.remembers and any(self.tells_of_earlier(each) for each in node.inputs)


def _endless(node: Node) -> str:
    if isinstance(node, Source):
        return f"'{node.name}' has events without an end, or ends that are not known"
    return f"'{node.label}' depends on rows however old"


def _end_of(node: Node, inputs: list[Time], *, is_kept: bool) -> Time:
    if is_kept:
        match node:
            # What such an operator has put out ends with the inputs that it needs.
            case Join(kind="inner" | "semi") | SetOperation(kind="intersection"):
                return Time(min(inputs))
            case Join(kind="left" | "anti") | SetOperation(kind="difference" | "strict difference"):
                return inputs[0]
    over = span(BEGINNING, max(inputs, default=BEGINNING))
    return reached(node, over)[1]
