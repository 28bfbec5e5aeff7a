"""One right stream out of several copies that differ physically."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypeAlias, final, get_args

import pyarrow as pa

from anabranch.algebra.analysis.merge_case import BEST_FIRST, CASES, ORDERED, SAYS, Case
from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.analysis.settled_order import is_ordered_when_settled
from anabranch.algebra.node import Node, check_clocks, clock_of
from anabranch.algebra.source import Source
from anabranch.algebra.traits import Traits
from anabranch.algebra.union import columns_of
from anabranch.errors import PlanError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time

Inserts: TypeAlias = Literal["first", "leading", "half_frozen", "quorum"]
Adjusts: TypeAlias = Literal["lazy", "eager", "leading"]
Divergence: TypeAlias = Literal["warn", "quarantine", "fail"]

COMPARED: Final = 250_000
"""So many settled events are kept for a comparison with copies that are behind, unless told."""

_QUORUM: Final = re.compile(r"quorum\(\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*\)")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """What a merge emits when, where it has a choice (Chandramouli et al. 2012, V-A).

    Attributes:
        inserts: `first`: as soon as any input has an event; `leading`: as soon as the input with
            the largest stable point has it; `half_frozen`: once that input can no longer take it
            back; `quorum`: once enough inputs have it.
        quorum: How many inputs are enough: a number from 1 on, or a fraction of them below 1.
        adjusts: `lazy`: only where the stable point would settle something else; `eager`: every
            change of any input; `leading`: every change of the input with the largest stable
            point.
        lag: The output stays so far behind the largest stable point.
        divergence: What happens to an input that contradicts what is settled: `warn`, `quarantine`
            (it is not listened to any more), or `fail`.
        compare: So many events that are settled are kept per shard, so that what inputs say that
            are behind is compared with them, the latest ones; None: all of them.
    """

    identity: ClassVar[Identity] = Identity(
        "MergePolicy", ("inserts", "quorum", "adjusts", "lag", "divergence", "compare")
    )

    inserts: Inserts = "first"
    quorum: float = 1
    adjusts: Adjusts = "lazy"
    lag: int = 0
    divergence: Divergence = "warn"
    compare: int | None = COMPARED

    def __post_init__(self) -> None:
        for name, kinds in (("inserts", Inserts), ("adjusts", Adjusts), ("divergence", Divergence)):
            if getattr(self, name) not in get_args(kinds):
                choices = ", ".join(get_args(kinds)).replace("quorum", "quorum(2), quorum(50%)")
                raise PlanError(
                    f"{name} cannot be '{getattr(self, name)}'",
                    where="the policy of a merge",
                    hint=f"use one of {choices}",
                )
        if self.quorum <= 0 or (self.quorum >= 1 and self.quorum != int(self.quorum)):
            raise PlanError(
                f"a quorum cannot be {self.quorum}",
                where="the policy of a merge",
                hint="give a number of inputs, or a fraction between 0 and 1",
            )
        if self.lag < 0:
            raise PlanError(
                f"the output cannot be {-self.lag} ahead of its inputs",
                where="the policy of a merge",
                hint="a lag is 0 or more",
            )
        if self.compare is not None and self.compare < 0:
            raise PlanError(
                f"a merge cannot keep {self.compare} events",
                where="the policy of a merge: compare",
                hint="give a number of events, 0 or more, or 'all'",
            )

    @staticmethod
    def of(
        *,
        inserts: str = "first",
        adjusts: str = "lazy",
        lag: int = 0,
        divergence: str = "warn",
        compare: int | str = COMPARED,
    ) -> MergePolicy:
        """A policy in the words of a user, with `quorum(2)`, `quorum(0.5)` or `quorum(50%)`.

        `compare` is a number of events, also as text, or `all`.

        Raises:
            PlanError: There is no such policy.
        """
        found = _QUORUM.fullmatch(inserts)
        quorum = 1.0
        if found is not None:
            inserts, quorum = "quorum", float(found[1]) / (100 if found[2] else 1)
        return MergePolicy(
            inserts=inserts,  # type: ignore[arg-type]
            quorum=quorum,
            adjusts=adjusts,  # type: ignore[arg-type]
            lag=lag,
            divergence=divergence,  # type: ignore[arg-type]
            compare=_compared(compare),
        )

    def enough(self, inputs: int) -> int:
        """How many of so many inputs are a quorum."""
        wanted = self.quorum * inputs if self.quorum < 1 else self.quorum
        return max(1, min(inputs, -int(-wanted // 1)))

    def described(self, lag: str) -> str:
        """In words, without what is usual."""
        inserts = self.inserts
        if inserts == "quorum":
            inserts = f"quorum({self.quorum:g})"  # type: ignore[assignment]
        lag = f", {lag} behind" if self.lag else ""
        divergence = "" if self.divergence == "warn" else f", divergence: {self.divergence}"
        compare = ""
        if self.compare != COMPARED:
            many = "all" if self.compare is None else f"{self.compare:,}"
            compare = f", compares {many} settled events"
        return f"inserts {inserts}, adjusts {self.adjusts}{lag}{divergence}{compare}"


def _compared(given: int | str) -> int | None:
    """How many events are kept for comparison; None: all.

    Raises:
        PlanError: It is neither a number nor `all`.
    """
    text = str(given).strip().lower().replace("_", "")
    if text == "all":
        return None
    try:
        return int(text)
    except ValueError:
        raise PlanError(
            f"a merge cannot keep '{given}' events",
            where="the policy of a merge: compare",
            hint="give a number of events, 0 or more, or 'all'",
        ) from None


def _lacks(node: Node, case: Case) -> str:
    """What is not known of an input that a case takes for granted; nothing: all is."""
    properties = node.properties
    strict = properties.insert_only and properties.order == "strict"
    if case in ORDERED:
        if not properties.insert_only:
            return "may adjust events"
        if properties.order == "none":
            return "is not in order of start"
        if isinstance(node, Source) and node.cut:
            return "has lifetimes that are cut at stable points"
        if case == "r0" and not strict:
            return "may have two events of one start"
        if case == "r1" and not (properties.ties or strict):
            return "may have ties in any order"
    # No two of one start are no two of one payload and start.
    if case in ("r2", "r3") and not (properties.keyed or strict):
        return "may have two events of one payload and start"
    return ""


def refuse_case(case: str | None, policy: MergePolicy) -> None:
    """Refuse a case that there is not, or that does not go with a policy.

    Raises:
        PlanError: It is one of these.
    """
    if case is not None and case not in CASES:
        raise PlanError(f"there is no case '{case}'", hint=f"use {', '.join(CASES)}")
    if case in ORDERED and policy.inserts != "first":
        raise PlanError(
            f"as {case}, a merge emits an event as soon as any input has it",
            where=f"inserts {policy.inserts}",
            hint="merge as r3 or r4, which is always right, or keep inserts 'first'",
        )
    if case in ORDERED and policy.divergence != "warn":
        raise PlanError(
            f"as {case}, a merge remembers too little to notice contradictions",
            where=f"divergence {policy.divergence}",
            hint="merge as r3 or r4, which compare what copies settle, or keep 'warn'",
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Node):
    """Copies of one stream become one: right as long as one copy lives, and as early as the best.

    The inputs mean the same stream, or pieces of it; how they cut it, in which order and with which
    revisions may differ. `names` are what messages call them. `case` says what is taken for
    granted of the inputs; None: what is known of them. A stronger case than that is an assertion
    of the user's, and checked while it runs.

    A single input that is a source of copies stands for all of them.
    """

    identity: ClassVar[Identity] = Identity(
        "Merge", ("inputs", "names", "case", "policy"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits()

    inputs: tuple[Node, ...] = field()
    names: tuple[str, ...] = ()
    case: Case | None = None
    policy: MergePolicy = MergePolicy()

    def __post_init__(self) -> None:
        if not self.inputs:
            raise PlanError("a merge needs at least one input", hint="name the copies to merge")
        check_clocks(self.inputs, where="a merge")
        if not self.names:
            named = [n.name if isinstance(n, Source) else "" for n in self.inputs]
            names = [name or f"input {number}" for number, name in enumerate(named, 1)]
            object.__setattr__(self, "names", tuple(names))
        if len(set(self.names)) != len(self.inputs):
            raise PlanError(
                f"{len(self.inputs)} inputs of a merge have {len(set(self.names))} names",
                where=", ".join(self.names),
                hint="every input needs a name of its own",
            )
        refuse_case(self.case, self.policy)
        first = columns_of(self.inputs[0].schema)
        for name, node in zip(self.names, self.inputs):
            if columns_of(node.schema) != first:
                shown = [
                    ", ".join(f"{column} {kind}" for column, kind in columns)
                    for columns in (first, columns_of(node.schema))
                ]
                raise PlanError(
                    f"'{name}' has columns that differ from those of '{self.names[0]}'",
                    where=f"{self.names[0]}: {shown[0]}\n{name}: {shown[1]}",
                    hint="copies of one stream have the same columns, in the same order",
                )

    @property
    def derived(self) -> Case:
        """The strongest case that what is known of the inputs allows."""
        return next(case for case in BEST_FIRST if not self.obstacles(case))

    def obstacles(self, case: Case) -> list[str]:
        """Why what is known of the inputs does not allow a case; none: it does."""
        found: list[str] = []
        if case in ORDERED:
            # Inputs in order are not remembered: there is nothing to wait with or to compare.
            if self.policy.inserts != "first":
                found.append(f"inserts are to leave by '{self.policy.inserts}'")
            if self.policy.divergence != "warn":
                found.append("contradictions are to be noticed")
        for name, node in zip(self.names, self.inputs):
            lacks = _lacks(node, case)
            if lacks:
                found.append(f"'{name}' {lacks}")
        if case == "r1" and not found and len({*map(is_ordered_when_settled, self.inputs)}) > 1:
            found.append("some inputs have ties as they were written, others put them in order")
        return found

    @property
    def why_not_stronger(self) -> str:
        """Which stronger case was not chosen, and why: `not r2: 'left' may adjust events`."""
        if self.case is not None:
            return ""
        # The next ones that the user could have by declaring more.
        stronger = {
            "r0": (),
            "r2": ("r0",),
            "r1": ("r2",),
            "r3": ("r2",),
            "r4": ("r3", "r1") if self._are_in_order else ("r3",),
        }
        found: list[str] = []
        for case in stronger[self.chosen]:
            reasons = self.obstacles(case)  # type: ignore[arg-type]
            more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
            found.append(f"not {case}: {reasons[0]}{more}")
        return "; ".join(found)

    @property
    def _are_in_order(self) -> bool:
        """Whether inputs are in order, as far as is known, and may be merged by it."""
        every = (node.properties for node in self.inputs)
        return all(each.insert_only and each.order != "none" for each in every)

    @property
    def chosen(self) -> Case:
        """The case that is used."""
        return self.case or self.derived

    @property
    def is_asserted(self) -> bool:
        """Whether the user says more than is known."""
        return bool(self.obstacles(self.chosen))

    @property
    def schema(self) -> pa.Schema:
        """The columns all copies have."""
        return self.inputs[0].schema

    @property
    def properties(self) -> Properties:
        """What the case says, and what holds for all inputs."""
        each = [node.properties for node in self.inputs]
        ordered = self.chosen in ORDERED
        return Properties(
            insert_only=ordered,
            only_points=all(of_input.only_points for of_input in each),
            no_duplicates=all(of_input.no_duplicates for of_input in each),
            keyed=self.chosen != "r4" and self.chosen != "r1",
            single=all(of_input.single for of_input in each),
            order="none" if not ordered else "strict" if self.chosen == "r0" else "start",
            ties=ordered,
        )

    @property
    def label(self) -> str:
        """`Merge 3 copies by r3 (no two of one payload and start), inserts first, ...`."""
        many = "copies" if len(self.inputs) == 1 else f"{len(self.inputs)} copies"
        sure = ", asserted" if self.is_asserted else ""
        sure += f"; {self.why_not_stronger}" if self.why_not_stronger else ""
        return f"Merge {many} by {self.chosen} ({SAYS[self.chosen]}{sure}), {self._policy}"

    @property
    def _policy(self) -> str:
        """The policy in words; a lag is shown as the inputs count time."""
        return self.policy.described(clock_of(self).format_duration(Duration(self.policy.lag)))

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The stream that all inputs are copies of."""
        return inputs[0]

    def promise(self, *stables: Time) -> Time:
        """As far as the input that is settled furthest, less the lag."""
        most = max(stables)
        if most in (BEGINNING, FOREVER):
            return most
        return Time(max(most - self.policy.lag, BEGINNING))
