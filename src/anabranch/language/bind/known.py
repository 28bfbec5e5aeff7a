"""`FOR KNOWN AS OF`: a stream as its archive knew it after a revision, or at an instant."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.errors import QueryError
from anabranch.language.names.catalog import CatalogEntry
from anabranch.language.names.context import Context, KnownLeaf
from anabranch.language.text.window_text import KnownText
from anabranch.model.clock import MICROSECONDS
from anabranch.model.time import BEGINNING, FOREVER

_HINT: Final = "write FOR KNOWN AS OF TIMESTAMP '2024-01-01 12:00:00'"
_WORDS: Final = {"table": "table", "derived": "derived stream", "view": "view"}


def bind_known(known: KnownText, entry: CatalogEntry, context: Context) -> Node:
    """The plan of an entry over a leaf of its own, which is read from the archive.

    The leaf is called `Quote@known=3`: what was known is another stream than what is known now.

    Raises:
        QueryError: The entry is not a stream from outside, has no archive that others can find, or
            the instant is none.
    """
    if entry.kind != "stream":
        raise context.wrong(
            f"'{entry.name}' has no archive: it is a {_WORDS[entry.kind]}",
            known.span,
            "write FOR KNOWN AS OF after the streams that it is computed from",
        )
    if entry.archive is None or entry.archive.folder is None:
        kept = "in the checkpoint of each query" if entry.archive is not None else "nowhere"
        raise context.wrong(
            f"'{entry.name}' has no archive to look into: its rows are kept {kept}",
            known.span,
            f"declare a folder for it: CREATE STREAM {entry.name} ... ARCHIVE "
            f"'archive/{entry.name.lower()}'; archive= in Python",
        )
    instant = None if known.instant is None else _instant(known, known.instant, context)
    shown = known.revision if instant is None else MICROSECONDS.format(instant)
    name = f"{entry.name}@known={shown}"
    context.known[name] = KnownLeaf(entry=entry.name, revision=known.revision, instant=instant)
    return _over_leaf(entry.node, name)


def refuse_known(table: exp.Expr, context: Context) -> None:
    """Only names of streams have archives: no nested queries, functions or names of WITH.

    Raises:
        QueryError: FOR KNOWN AS OF stands after something else.
    """
    known = table.meta.get("known")
    if isinstance(known, KnownText):
        raise context.wrong(
            "FOR KNOWN AS OF belongs after the name of a stream",
            known.span,
            "write it inside, after the streams that are read: FROM Quote FOR KNOWN AS OF 3",
        )


def _instant(known: KnownText, text: str, context: Context) -> int:
    """In microseconds; numbers and `forever` are instants, too, but no timestamps."""
    try:
        found = MICROSECONDS.instant(text)
    except QueryError:
        found = FOREVER
    if found in (FOREVER, BEGINNING) or text.strip().lstrip("-").isdigit():
        raise context.wrong(f"'{text}' is not a timestamp", known.span, _HINT)
    return int(found)


def _over_leaf(node: Node, name: str) -> Node:
    """The same over a leaf with another name; edges are a plan over one leaf.

    Rows that were wrong are withdrawn again, wherever the stream itself has inserts only.
    """
    if isinstance(node, Source):
        return replace(node, name=name, insert_only=False)
    return node.with_inputs(*(_over_leaf(each, name) for each in node.inputs))
