"""Routes: how rows, and the state kept of them, tell the shard of their key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.join_band import Band
from anabranch.expressions.expression import Expression, evaluate_all
from anabranch.expressions.rewriting import rename
from anabranch.kernels.columns.grouped import Ids, Ints
from anabranch.kernels.columns.stretches import near_stretches
from anabranch.kernels.contract.keys import key_ids
from anabranch.model.identity import Identity

_HALF: Final = np.uint64(32)
_UPPER: Final = np.uint64(0xFFFF_FFFF_0000_0000)


def shard_of(ids: Ids, shards: int) -> Ints:
    """The shard of each id: ids are hashes, so any bits will do, and these are the upper half."""
    return ((ids >> _HALF) % np.uint64(shards)).astype(np.int64)


def marked(route: Ids, check: Ids) -> Ids:
    """Second hashes that also tell the shard: their upper half is that of the id of the route.

    Half a second hash is enough to notice two keys under one id. A mark on a mark changes nothing.
    """
    return np.asarray((route & _UPPER) | (check & ~_UPPER))


@final
@dataclass(frozen=True, slots=True)
class Route:
    """How rows in a stage tell by which id they were sent there.

    Attributes:
        keys: The hash of these is that id. None: it is the id that the kernel itself gives them.
        band: In place of keys, for a join of what is near: the stretch of its right side.
    """

    identity: ClassVar[Identity] = Identity("Route", ("keys", "band"))

    keys: tuple[Expression, ...] | None = None
    band: Band | None = None

    @property
    def is_own(self) -> bool:
        """Whether the ids of the kernel say it."""
        return self.keys is None and self.band is None

    def ids(self, payload: pa.RecordBatch) -> Ids:
        """The ids by which rows were sent."""
        length = payload.num_rows
        if self.band is not None:
            _, stretch = near_stretches(self.band, payload, side=1)
            return key_ids([pa.array(stretch)], length)
        assert self.keys is not None
        return key_ids(evaluate_all(self.keys, payload, length), length)

    def renamed(self, names: Mapping[str, str], schema: pa.Schema) -> Route | None:
        """The same after columns got other names; None where one of them is gone."""
        if self.band is not None or self.keys is None:
            return None
        if not all(each.columns <= names.keys() for each in self.keys):
            return None
        return replace(self, keys=tuple(rename(each, names, schema) for each in self.keys))

    def same_as(self, keys: tuple[Expression, ...]) -> bool:
        """Whether ids that are hashes of these keys are those of the route."""
        if self.keys is None or len(self.keys) != len(keys):
            return False
        both = zip(self.keys, keys, strict=True)
        return all(one.sql == other.sql and one.type == other.type for one, other in both)


OWN: Final = Route()


def is_own(route: Route | None) -> bool:
    """Whether nothing but ids is remembered of where keys belong."""
    return route is None or route.is_own


def routed_checks(route: Route | None, payload: pa.RecordBatch, check: Ids) -> Ids:
    """The second hashes of rows, marked where their ids do not tell the shard."""
    if route is None or route.is_own:
        return check
    return marked(route.ids(payload), check)


@final
@dataclass(frozen=True, slots=True)
class Routing:
    """How the rows of a list of runs tell in which shard they belong.

    Attributes:
        by: `id`: their ids do; `check`: their second hash is marked; `payload`: their columns do;
            `list`: another list of the kernel has their ids, too; `everywhere`: in all shards, all
            of which have the same; `gathered`: in all shards, those of each of them.
        payload: The columns.
        route: What they say.
        list: The other list.
    """

    by: Literal["id", "check", "payload", "list", "everywhere", "gathered"]
    payload: pa.Schema | None = None
    route: Route | None = None
    list: str = ""


BY_ID: Final = Routing("id")
BY_CHECK: Final = Routing("check")
EVERYWHERE: Final = Routing("everywhere")
GATHERED: Final = Routing("gathered")


def by_id_or(route: Route | None, other: Routing) -> Routing:
    """By id, where the ids of a kernel are those of its stage."""
    assert route is not None, "the plan has no routes"
    return BY_ID if route.is_own else other


def by_payload(route: Route | None, payload: pa.Schema) -> Routing:
    """By the columns that are remembered, where ids do not tell."""
    return by_id_or(route, Routing("payload", payload, route))


def like(route: Route | None, name: str) -> Routing:
    """As another list has it, where ids do not tell."""
    return by_id_or(route, Routing("list", list=name))
