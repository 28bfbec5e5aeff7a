"""How far feedback of a merge gets in a plan: which rows of the sources it spares, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from anabranch.algebra.analysis.node_reach import UNBOUNDED_NODES, taken
from anabranch.algebra.analysis.reach import outputs_first
from anabranch.algebra.analysis.spans import Span, hull, span
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time

_SINCE: Final = Time(1 << 60)
"""An instant far from both ends of time, and a multiple of most slides."""


@final
@dataclass(frozen=True, slots=True)
class SparedRows:
    """What feedback spares of a source.

    Attributes:
        source: Its name.
        back: Rows that end so much before the results of interest begin are left out; None: all
            rows are needed.
        stops_at: The operator that needs all of them, and why.
    """

    source: str
    back: Duration | None
    stops_at: str = ""


def spared_rows(node: Node) -> list[SparedRows]:
    """What feedback with both instants spares of every source of a plan, in order of their names.

    Results of interest follow from the snapshots since they begin, and those from the snapshots of
    the inputs that decide them. An operator without such a bound needs everything below it.
    """
    wanted: dict[int, list[Span]] = {id(node): [span(_SINCE, FOREVER)]}
    stopped: dict[int, str] = {}
    found: dict[str, SparedRows] = {}
    for each in outputs_first(node):
        over = hull(wanted[id(each)])
        why = stopped.get(id(each), "")
        if isinstance(each, Source):
            back = None if over[0] == BEGINNING else Duration(int(_SINCE - over[0]))
            found[each.name] = SparedRows(each.name, back, why)
        for below in each.inputs:
            below_over = taken(each, over)
            if below_over[0] == BEGINNING < over[0] and not why:
                stopped.setdefault(id(below), f"{each.label}: {_reason(each)}")
            elif why:
                stopped.setdefault(id(below), why)
            wanted.setdefault(id(below), []).append(below_over)
    return [found[name] for name in sorted(found)]


def only_newest(node: CountWindow) -> bool:
    """Whether of the rows before an instant only the newest matter from there on.

    Not where one of these may be withdrawn, for an older one then takes its place; nor with a
    slide, for a row that comes late gives all those after it other numbers.
    """
    is_plain = node.slide == 1 and node.rows != UNBOUNDED
    return is_plain and node.input.properties.insert_only


def describe_feedback(node: Node) -> str:
    """The same in words, a line per source."""
    lines = ["feedback of a merge:"]
    for each in spared_rows(node):
        if each.back is None:
            lines.append(f"  {each.source}: all rows are needed, by {each.stops_at}")
        else:
            back = clock_of(node).format_duration(each.back)
            when = f"more than {back} before" if each.back else "before"
            lines.append(f"  {each.source}: skips rows that end {when} the results still needed")
    return "\n".join(lines)


def _reason(node: Node) -> str:
    if isinstance(node, CountWindow):
        reason = "its rows may be as old as they like"
        if only_newest(node):
            reason += f", but it forgets all except the newest {node.rows}"
            reason += " of each group" if node.partition_by else ""
        return reason
    return UNBOUNDED_NODES.get(type(node), "nothing is known of how far back it looks")
