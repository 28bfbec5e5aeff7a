"""A stream from outside."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Order, Properties
from anabranch.algebra.node import Node
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Node):
    """A named stream from outside, as it is.

    `timestamps` says that times are counted from 1970 on and are printed as such; `chronon` how
    many microseconds one step of time is (None: one for timestamps, and for whole numbers it is
    not known). `relation` says that it is a table that is all there, so that it never holds a query
    back. `unique` are sets of columns in which no two events ever agree, at any time: the
    optimizer relies on them. `always` says that its rows hold at every instant and never change.
    `copies` says that it stands for several copies of the stream that come and go, each an input of
    its own; only a merge reads it. `timeless` says that it stands for a plan over such sources.
    `cut` says that lifetimes end where its writer's stable point stood, and go on in another event.
    `ties` says that elements of one start come in the same order in every copy of the stream.
    `settles_order` says that its order holds before its stable points, and behind them not yet.
    `rate` is how many events are expected per chronon, and `distinct` how many different values
    columns are expected to have: plans are priced by them.
    """

    identity: ClassVar[Identity] = Identity(
        "Source",
        (
            "name",
            "schema",
            "insert_only",
            "only_points",
            "timestamps",
            "relation",
            "no_duplicates",
            "keyed",
            "order",
            "unique",
            "always",
            "copies",
            "timeless",
            "clock",
        ),
        ignored={
            "chronon": "a part of the clock, which knows the usual one",
            "rate": "the optimizer prices plans by it; what they compute does not depend on it",
            "distinct": "like the rate",
            "cut": "merges choose their case by it, and the case is part of their form",
            "ties": "like `cut`",
            "settles_order": "a merge waits for the stable point by it, in the same state",
        },
        by_hash=True,
    )

    traits: ClassVar[Traits] = Traits()

    name: str
    schema: pa.Schema = field()
    insert_only: bool = False
    only_points: bool = False
    timestamps: bool = False
    relation: bool = False
    no_duplicates: bool = False
    keyed: bool = False
    order: Order = "none"
    unique: tuple[tuple[str, ...], ...] = ()
    always: bool = False
    copies: bool = False
    chronon: int | None = None
    timeless: bool = False
    cut: bool = False
    ties: bool = False
    settles_order: bool = False
    rate: float | None = None
    distinct: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise PlanError("a source needs a name", hint="give it the name that queries use")
        check_names(self.schema.names, where=f"source '{self.name}'")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """None: this is a leaf."""
        return ()

    @property
    def clock(self) -> Clock | None:
        """How it counts time; None where its rows hold always, or it goes with every time."""
        if self.always or self.timeless:
            return None
        return Clock(self.chronon or 1 if self.timestamps else self.chronon, self.timestamps)

    @property
    def remembers(self) -> bool:
        """No: rows come from outside."""
        return False

    @property
    def properties(self) -> Properties:
        """What the owner of the source declares."""
        return Properties(
            insert_only=self.insert_only,
            only_points=self.only_points,
            no_duplicates=self.no_duplicates,
            keyed=self.keyed,
            order=self.order,
            ties=self.ties,
        )

    @property
    def label(self) -> str:
        """`Source Bid`, `Relation Category`, or `Copies Replica`; `Source Bid chronon 1 second`."""
        kind = "Relation" if self.relation else "Copies" if self.copies else "Source"
        clock = self.clock
        chronon = "" if clock is None or clock.is_usual else f" chronon {clock.label}"
        return f"{kind} {self.name}{chronon}"

    @property
    def expected(self) -> str:
        """What is declared of its rows, for people: `10/s, item 1000 values`; mostly nothing."""
        found = [] if self.rate is None else [(self.clock or INTEGERS).format_rate(self.rate)]
        found += [f"{name} {count:.4g} values" for name, count in self.distinct]
        return ", ".join(found)

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The stream itself, handed in by whoever asks for the meaning of a plan."""
        (rows,) = inputs
        return rows


def check_names(names: list[str], *, where: str) -> None:
    """Refuse columns that could not be told apart, or that collide with the engine's own."""
    for name, count in Counter(names).items():
        if count > 1:
            hint = "give every column a name of its own"
            raise PlanError(f"there are {count} columns '{name}'", where=where, hint=hint)
        if not name or name.startswith("__"):
            hint = "a name has at least one character and does not begin with '__'"
            raise PlanError(f"a column cannot be called '{name}'", where=where, hint=hint)
