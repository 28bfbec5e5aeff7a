"""A filter moves below what changes lifetimes, payload by payload."""

from __future__ import annotations

from typing import Final

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.clip import Clip
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.to_stream import ToStream
from anabranch.optimizer.pushing import filtered, part

NEUTRAL: Final = (Coalesce, Split, Cleanse)
_RETIMING: Final = (Granularity, Shift, Clip, AlterLifetime, ToStream, ToSigned, FromSigned)


def push_filter_below_retiming(node: Node) -> Node | None:
    """Filter(op(x), p) -> op(Filter(x, p)), if op gives out(q, t) as a function of in(q, .).

    That is so for coalesce, split and cleanse (Kraemer 2007, lemma 12.1), and for all that
    changes the lifetimes of each payload on its own. p must not ask for a sign.
    """
    match node:
        case Filter(input=below, predicate=p) if isinstance(below, (*NEUTRAL, *_RETIMING)):
            (x,) = below.inputs
            names = set(x.schema.names)
            same = isinstance(below, NEUTRAL)
            moving, staying = part(p, lambda c: c.columns <= names, same_rows=same)
            if moving:
                return filtered(below.with_inputs(filtered(x, moving)), staying)
    return None
