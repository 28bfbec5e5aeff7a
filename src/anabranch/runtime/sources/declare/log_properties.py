"""What log folders say of their streams, as plans rely on it."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.source import Source
from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.files.log_records import NOTHING_KNOWN, LogProperties
from anabranch.runtime.sources.spec import FileSource


def relying(
    source: FileSource, leaf: Source, known: LogProperties, declared: Declared
) -> tuple[FileSource, Source]:
    """A source over log folders, and its leaf, with what the logs say added to what is declared.

    Late rows that are revised may change what is settled, so little holds of them. Where a part of
    the columns is read, two events may become alike.
    """
    if declared.late == "revise" or known == NOTHING_KNOWN:
        return source, leaf
    if declared.schema is not None:
        known = replace(known, no_duplicates=False, keyed=False)
    source, relying_leaf = relying_on(source, leaf, known)
    return source, replace(relying_leaf, keyed=relying_leaf.keyed or leaf.keyed)


def relying_on(source: FileSource, leaf: Source, known: LogProperties) -> tuple[FileSource, Source]:
    """A source over log folders, and its leaf, that rely on exactly this.

    Where no two events have one payload and start, nobody relies on the order of ties.
    """
    known = replace(known, ties=known.ties and not known.is_keyed)
    relying_leaf = replace(
        leaf,
        insert_only=known.insert_only,
        only_points=known.only_points,
        no_duplicates=known.no_duplicates,
        keyed=known.keyed,
        order=known.order,
        ties=known.ties,
        cut=known.cut,
        # The shards of its writer let go what is not settled each in an order of its own.
        settles_order=known.order != "none",
    )
    return replace(source, relied_on=known), relying_leaf
