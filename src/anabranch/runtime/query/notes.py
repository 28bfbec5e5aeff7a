"""Notes for the author of a query: where an answer is surely not what was meant."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.ranking import Ranking
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.top_k import TopK
from anabranch.language.bind.as_of import holds_one_instant, time_columns
from anabranch.runtime.messages.counters import RewrittenFile
from anabranch.runtime.sources.spec import FileSource

LOGGER: Final = logging.getLogger("anabranch.notes")
"""Where runs say the notes of their queries; its level silences them."""

_WARNINGS: Final = logging.getLogger("anabranch")
_SHOWN_FILES: Final = 5

_CORRECT_HINT: Final = (
    "hand in the rows that differ: anabranch revise CHECKPOINT {source} corrections.jsonl, or "
    "run.revise('{source}', [...]); without ARCHIVE 'folder' put the old file back first, since "
    "the archive refers to it"
)
_REVISE_HINT: Final = (
    "rows that were read are corrected by `anabranch revise` or run.revise('{source}', [...]) if "
    "the source is declared with LATE REVISE (late='revise'); else start with a new checkpoint, "
    "which reads all files again"
)
_WINDOW_HINT: Final = "put a window after the stream: Bid WINDOW(RANGE 10 MINUTES)"
_DELAY_HINT: Final = (
    "declare how late rows may be: DELAY 5 SECONDS, delay='5 seconds'; or that no file follows: "
    "WITH (ends = TRUE), ends=True"
)


@final
@dataclass(frozen=True, slots=True)
class Note:
    """What is odd, where, and what to write if it is not meant.

    >>> print(Note("a join of points", "Join a = b, over Bid, Offer", "use a window"))
    a join of points
      Join a = b, over Bid, Offer
      hint: use a window
    """

    what: str
    where: str
    hint: str

    def __str__(self) -> str:
        return f"{self.what}\n  {self.where}\n  hint: {self.hint}"


def notes_of(node: Node, sources: Mapping[str, Any], emit: str = "speculative") -> tuple[Note, ...]:
    """The notes on a plan over some sources, for one way to emit; none on a query as it should be.

    A note is no error: such a query has an exact answer, but hardly anybody asks for it.
    """
    found = [*_of_instants(node, _retention(sources)), *_of_promises(node, sources, emit)]
    return tuple(dict.fromkeys(found))


def say(notes: Iterable[object]) -> None:
    """Log notes once, as warnings; without a handler Python prints them to standard error."""
    for note in notes:
        LOGGER.warning("note: %s", note)


def rewritten_note(source: str, files: Sequence[RewrittenFile], *, revised: bool) -> Note:
    """What is told of files that were written again; `revised`: the source can be corrected."""
    shown = [str(file) for file in files[:_SHOWN_FILES]]
    more = len(files) - len(shown)
    shown += [f"and {more:,} more files"] if more else []
    were = "a file of it was" if len(files) == 1 else f"{len(files):,} files of it were"
    return Note(
        f"source '{source}': {were} written again after being read; results are those of the rows "
        "that were read first",
        "\n  ".join(shown),
        _CORRECT_HINT.format(source=source) if revised else _REVISE_HINT.format(source=source),
    )


def warn_of_rewritten(
    rewritten: Mapping[str, Sequence[RewrittenFile]], revised: Container[str]
) -> None:
    """Log a warning for each source with files that were written again after they were read.

    Args:
        rewritten: These files, by source.
        revised: The sources that can be corrected.
    """
    for name, files in rewritten.items():
        if files:
            _WARNINGS.warning("warning: %s", rewritten_note(name, files, revised=name in revised))


def _of_instants(node: Node, kept: Mapping[str, str]) -> Iterator[Note]:
    """Operators that see single instants, because nothing holds for longer."""
    for each in node.walk():
        where = f"{each.label}, over {', '.join(_names(each))}"
        below = [_only_instants(one) for one in each.inputs]
        match each:
            case Join(left=left, right=right, predicate=predicate) if all(below):
                used = frozenset() if predicate is None else predicate.columns
                times = [used & time_columns(side, kept) for side in (left, right)]
                if all(times):
                    yield Note(
                        "a join compares times, but only rows that hold at the same instant meet",
                        where,
                        "for a bound on times put a window on the earlier side: "
                        "FROM Offer WINDOW(RANGE 10 MINUTES) JOIN Bid ON ...; the latest row is "
                        "found by ASOF JOIN",
                    )
                    continue
                yield Note(
                    "a join without a window: rows of both sides meet only at equal instants",
                    where,
                    f"{_WINDOW_HINT}, on one side or both; ASOF JOIN finds the latest row",
                )
            case Aggregation(group_by=keys, input=inner) if all(below):
                # Who groups by the time asks for instants.
                if not any(key.is_column in time_columns(inner, kept) for _, key in keys):
                    yield Note(
                        "an aggregate without a window: each result is the result of a single "
                        "instant",
                        where,
                        f"{_WINDOW_HINT}; WINDOW(RANGE UNBOUNDED) for everything so far",
                    )
            case TopK() if all(below):
                yield Note(
                    "the first rows without a window are those of single instants",
                    where,
                    f"{_WINDOW_HINT}; WINDOW(RANGE UNBOUNDED) for everything so far",
                )
            case Ranking() if all(below):
                yield Note(
                    "ranks, LAG and LEAD without a window compare rows of single instants",
                    where,
                    f"{_WINDOW_HINT}; WINDOW(RANGE UNBOUNDED) for everything so far",
                )
            case SetOperation() if all(below):
                yield Note(
                    "a set operation without a window compares rows of equal instants only",
                    where,
                    f"{_WINDOW_HINT}, on both sides",
                )
    # Of the answer itself only: joins use DISTINCT for their own ends. One over a join drops the
    # partners that a row has at its instant, which may well be meant.
    joins = any(isinstance(each, Join) for each in node.walk())
    if isinstance(node, Distinct) and _only_instants(node) and not joins:
        yield Note(
            "DISTINCT without a window removes only duplicates at one instant",
            f"{node.label}, over {', '.join(_names(node))}",
            f"{_WINDOW_HINT}: then a row occurs once while it is in the window",
        )


def _of_promises(node: Node, sources: Mapping[str, Any], emit: str) -> Iterator[Note]:
    """Sources that never say how far they are complete."""
    silent = [
        each.name
        for each in dict.fromkeys(node.walk())
        if isinstance(each, Source) and not each.relation and _never_promises(sources, each.name)
    ]
    if not silent:
        return
    where = f"source {', '.join(silent)}"
    if emit != "speculative":
        yield Note(
            f"with emission '{emit}' nothing is ever written: no row becomes final",
            where,
            _DELAY_HINT,
        )
    elif _remembers(node):
        yield Note(
            "no delay is declared: no result is ever final, and state grows with the input",
            where,
            _DELAY_HINT,
        )


def _never_promises(sources: Mapping[str, Any], name: str) -> bool:
    source: Any = sources.get(name)
    promise, shape = getattr(source, "promise", None), getattr(source, "shape", None)
    if promise is None or shape is None or shape.kind is not None or shape.start is None:
        # Elements bring stable points with them, and relations are all there.
        return False
    if promise.delay is not None or promise.heartbeat is not None:
        return False
    return not source.ends if isinstance(source, FileSource) else bool(source.frame.isStreaming)


def _remembers(node: Node) -> bool:
    return any(each.remembers for each in node.walk())


def _retention(sources: Mapping[str, Any]) -> dict[str, str]:
    """The columns of time that are columns of the payload, too."""
    found: dict[str, str] = {}
    for name, source in sources.items():
        start = getattr(getattr(source, "shape", None), "start", None)
        if start is not None and start in source.schema.names:
            found[name] = start
    return found


def _only_instants(node: Node) -> bool:
    """Whether rows are points, of streams, and no stream below holds for longer.

    A point that looks into a window asks about its instant: the highest bid when an auction ends.
    """
    return (
        _has_stream(node)
        and holds_one_instant(node)
        and all(holds_one_instant(each) for each in node.walk() if _has_stream(each))
    )


def _has_stream(node: Node) -> bool:
    return any(isinstance(each, Source) and not each.relation for each in node.walk())


def _names(node: Node) -> list[str]:
    return list(dict.fromkeys(each.name for each in node.walk() if isinstance(each, Source)))
