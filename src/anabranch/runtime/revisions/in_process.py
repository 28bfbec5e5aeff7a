"""Revisions of a query that runs in this process: the past is in memory, replay is at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from anabranch.algebra.analysis.spans import EVERYTHING
from anabranch.kernels.plan.late_rows import LateRows, open_bound
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.kernels.plan.swap import ReplayedState, told_otherwise
from anabranch.model.batch import EventBatch
from anabranch.model.lifetimes import lifetimes_of
from anabranch.model.revision import Revision, clipped_changes
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.revisions.corrections import due, pieces, with_entered
from anabranch.runtime.revisions.lineage import LineageInMemory
from anabranch.runtime.revisions.past import PastInMemory
from anabranch.runtime.revisions.replayer import Replayer
from anabranch.runtime.sources.event_names import Names, event_names


@final
@dataclass(slots=True, eq=False)
class CorrectionInProcess:
    """Late rows of a source in a batch, and how far answers are corrected for them."""

    source: str
    batch: int
    rows: EventBatch
    bound: int
    earlier: Mapping[str, Collection[int]]
    done: int = BEGINNING


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessReplay:
    """A query after a batch, as it is and as it would be with the late rows of some batches."""

    old: ReplayedState
    new: ReplayedState
    batch: int
    revised: Mapping[str, frozenset[int]]


@final
class ReviserInProcess:
    """Takes late rows, and replays what they change as far as it is settled."""

    def __init__(self, replayer: Replayer, *, swaps: bool = False) -> None:
        """Nothing has come yet; with `swaps` corrections change the state of the query."""
        self._replayer = replayer
        self._swaps = swaps
        sources = replayer.plan.sources
        self._past = PastInMemory({name: each.schema for name, each in sources.items()})
        by_lineage = replayer.strategy == "RM"
        self._lineage = LineageInMemory(replayer.nodes) if by_lineage else None
        self._waiting: list[CorrectionInProcess] = []
        self._all: list[CorrectionInProcess] = []
        self._taken: dict[str, frozenset[int]] = {}
        self._late: dict[str, set[int]] = {}
        self._replaying: InProcessReplay | None = None
        self._batch = -1
        self._number = 0

    @property
    def waiting(self) -> int:
        """How many corrections wait until all that they change is settled."""
        return len(self._waiting) + len(self._late)

    @property
    def corrected(self) -> Time:
        """Answers before this instant have all corrections; FOREVER where none waits."""
        return Time(min((each.done for each in self._waiting), default=FOREVER))

    def take(
        self,
        batch: int,
        came: Mapping[str, EventBatch],
        withheld: Mapping[str, EventBatch],
        promised: Mapping[str, Time],
        revised: Collection[str],
    ) -> dict[str, LateRows]:
        """Keep what a batch brought; what goes into the query of its late rows.

        Args:
            batch: Its number.
            came: The rows of each source, the late ones among them.
            withheld: What of them the query does not take in.
            promised: How far each source had promised before the batch.
            revised: The sources whose late rows become revisions.
        """
        late: dict[str, LateRows] = {}
        self._batch = batch
        for name, rows in came.items():
            own = withheld.get(name)
            self._past.add(name, batch, rows, own)
            if name in revised and own is not None and len(own):
                if self._swaps:
                    self._late.setdefault(name, set()).add(batch)
                    continue
                bound = open_bound(self._replayer.plan, name, promised[name])
                late[name] = LateRows(own, bound)
                earlier = dict(self._taken)
                correction = CorrectionInProcess(name, batch, own, int(bound), earlier)
                self._waiting.append(correction)
                self._all.append(correction)
                self._taken[name] = self._taken.get(name, frozenset()) | {batch}
        return late

    @property
    def is_replaying(self) -> bool:
        """Whether a replay has begun for an exchange of state."""
        return self._replaying is not None

    def held(self, source: str) -> Names:
        """The events of a source that came late and are not in the state of the query."""
        batches = self._late.get(source, set())
        withheld = self._past.withheld(source, EVERYTHING)
        found = [event_names(rows) for batch, rows in withheld if batch in batches]
        return np.concatenate([np.empty(0, np.uint64), *found])

    def begin_exchange(self, plan: PhysicalPlan, promised: Mapping[str, Time]) -> None:
        """Replay the past with late rows and without them; the query may run on meanwhile.

        Args:
            plan: That of the query.
            promised: How far each source has promised.
        """
        if self._replaying is not None or not self._late:
            return
        revised = {
            name: self._taken.get(name, frozenset()) | self._late.get(name, set())
            for name in plan.sources
        }
        self._replaying = InProcessReplay(
            old=self._replayer.state(self._past, plan, promised, self._taken),
            new=self._replayer.state(self._past, plan, promised, revised),
            batch=self._batch,
            revised={name: frozenset(each) for name, each in revised.items()},
        )

    def exchange(
        self, runner: LocalRunner, promised: Mapping[str, Time], stable: Time
    ) -> tuple[list[Revision], dict[int, EventBatch]]:
        """Give the query the state that it would have, had late rows come in time.

        What has come since the replay began is taken in by both states first, as the query has.

        Args:
            runner: The query, between two batches.
            promised: How far each source has promised.
            stable: How far the output is settled.

        Returns:
            The revision of the output, and what its guard gets with the next batch.
        """
        plan = runner.plan
        self.begin_exchange(plan, promised)
        replay, self._replaying = self._replaying, None
        if replay is None:
            return [], {}
        old, new = replay.old, replay.new
        if self._batch > replay.batch:
            old, new = (
                self._replayer.further_state(each, self._past, plan, promised, replay.batch)
                for each in (old, new)
            )
        self._taken = dict(replay.revised)
        left = {name: each - replay.revised[name] for name, each in self._late.items()}
        self._late = {name: each for name, each in left.items() if each}
        (changes,) = told_otherwise(plan, old, new)
        runner.exchange(new.states)
        revision = Revision.of(self._number + 1, clipped_changes(changes, BEGINNING, stable))
        self._number += revision is not None
        behind = clipped_changes(changes, stable, FOREVER)
        return [] if revision is None else [revision], {plan.outputs[0]: behind}

    def below(self, runner: LocalRunner) -> list[Revision]:
        """The revision of what a guard was told of in the last step below its stable point."""
        found = [Revision.of(self._number + 1, moves) for moves in runner.below.values()]
        revisions = [each for each in found if each is not None]
        self._number += len(revisions)
        return revisions

    def answered(self, outputs: Sequence[EventBatch]) -> None:
        """Note what a batch put out, where replay goes by the lineage of that."""
        if self._lineage is not None:
            self._lineage.add([lifetimes_of(each) for each in outputs])

    def ready(self, stable: Time) -> list[Revision]:
        """The revisions of the output that can be computed once it is settled so far."""
        found: list[Revision] = []
        for one, first, last in due(self._waiting, stable):
            output = self._replayed(one, first, last)
            one.done = int(last)
            revision = Revision.of(self._number + 1, output)
            if revision is not None:
                self._number += 1
                found.append(revision)
        self._waiting = [each for each in self._waiting if each.done < each.bound]
        return found

    def _replayed(self, one: CorrectionInProcess, first: Time, last: Time) -> EventBatch:
        """What a correction changes in the answers of a span."""
        # Earlier ones count at every instant, later ones where they are in the query already.
        others = self._all[self._all.index(one) + 1 :]
        found: list[EventBatch] = []
        for begin, end in pieces(others, first, last):
            reach = self._replayer.reach(
                one.source, one.rows, (begin, end), self._past, self._lineage
            )
            revised = with_entered(one.earlier, others, begin)
            found += self._replayer.replay(self._past, one.source, one.rows, reach, revised)
        return EventBatch.concat(found)
