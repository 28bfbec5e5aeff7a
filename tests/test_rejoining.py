"""Which queries a group has when its script is started again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from anabranch.engine import Engine
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.planning import plan_queries
from anabranch.rejoining import GroupMember, is_regrouped, members_now
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord, PlanInForce
from anabranch.runtime.store.query_record import QueryRecord, write_query_record

DECLARED = "CREATE STREAM Bid (item INT, price INT) SOURCE '{folder}/bids.jsonl'"
PLAN = partial(plan_queries, emit="speculative", plan="optimized", checkpoint=None)


def select(least: int) -> str:
    return f"SELECT item, price FROM Bid WHERE price >= {least}"


class Group:
    """A checkpoint of queries, with records of what has become of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = str(folder / "checkpoint")
        self.asked_for: list[str] = []
        self.declared = DECLARED.format(folder=folder)
        (folder / "bids.jsonl").write_text('{"stable": "forever"}\n')

    def read(self, text: str, name: str | None = None, modules: Sequence[str] = ()) -> list[Any]:
        self.asked_for.extend(modules)
        return Engine().script(text, name=name)

    def script(self, *least: int) -> str:
        return ";\n".join([self.declared, *map(select, least)])

    def members(self, *least: int) -> list[GroupMember]:
        found = self.read(self.script(*least))
        return [
            GroupMember(name=f"query_{n}", query=query, to=f"{self.folder}/report/query_{n}")
            for n, query in enumerate(found, 1)
        ]

    def note(self, **about: Any) -> None:
        MigrationFolder.of(self.home).add(
            MigrationRecord(number=0, **{"state": "finished", "output": None, **about})
        )

    def added(self, least: int, name: str, **about: Any) -> None:
        to = f"{self.folder}/{name}"
        self.note(verb="add", text=self.script(least), script="it.sql", what=name, to=to, **about)

    def has(self, *least: int, last: int) -> None:
        """Its plan in force is that of these queries."""
        planned = PLAN(self.read(self.script(*least)))
        in_force = PlanInForce(
            migration=last, file="plan", asked=(plan_fingerprint(planned.physical),)
        )
        about = QueryRecord(query="q", shards=1, in_force=in_force)
        write_query_record(Folder.at(self.home), about)

    def now(self, *least: int) -> list[tuple[str, str]]:
        found = members_now(self.members(*least), self.home, self.read, PLAN)
        return [(each.name, str(each.to).removeprefix(f"{self.folder}/")) for each in found]


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


FIRST, SECOND = ("query_1", "report/query_1"), ("query_2", "report/query_2")


def test_a_group_that_has_not_changed_is_its_script(group: Group) -> None:
    assert group.now(1, 2) == [FIRST, SECOND]
    assert not is_regrouped(group.home)
    assert not is_regrouped(None)


def test_those_that_joined_and_stayed_are_started_too(group: Group) -> None:
    group.added(3, "dear")
    group.added(4, "short")
    group.note(verb="drop", what="query_1")
    # By its folder.
    group.note(verb="drop", what=f"{group.folder}/short")
    group.has(2, 3, last=4)
    assert is_regrouped(group.home)
    assert group.now(1, 2) == [SECOND, ("dear", "dear")]


def test_a_script_that_says_what_there_is_counts_as_it_is(group: Group) -> None:
    group.added(3, "dear")
    group.has(1, 2, 3, last=1)
    assert group.now(1, 2, 3) == [FIRST, SECOND, ("query_3", "report/query_3")]


def test_the_plan_in_force_decides_where_a_process_died_right_behind_it(group: Group) -> None:
    group.added(3, "dear", state="requested")
    group.added(4, "later", state="requested")
    group.has(1, 2, 3, last=1)
    assert group.now(1, 2) == [FIRST, SECOND, ("dear", "dear")]


def test_refused_changes_do_not_count(group: Group) -> None:
    group.added(3, "dear", state="refused")
    group.added(3, "again")
    group.has(1, 3, last=2)
    assert group.now(1) == [FIRST, ("again", "again")]


def test_a_query_that_joined_and_became_another_one_is_that(group: Group) -> None:
    group.added(3, "dear")
    group.note(verb="change", output=1, text=group.script(1, 5), script="it.sql")
    group.has(1, 5, last=2)
    assert group.now(1) == [FIRST, ("dear", "dear")]


def test_a_group_of_copies_is_found_again_behind_a_change(group: Group) -> None:
    group.added(3, "dear")
    group.note(verb="change", output=0, text=group.script(2, 3), script="it.sql")
    group.note(verb="change", output=1, text=group.script(2, 5), script="it.sql")
    # The query of the script is a copy that a merge reads, the one that joined is not.
    [second, dear] = group.read(group.script(2, 5))
    asked = (plan_fingerprint(PLAN([second.canonical(), dear]).physical),)
    in_force = PlanInForce(migration=3, file="plan", asked=asked)
    about = QueryRecord(query="q", shards=1, in_force=in_force)
    write_query_record(Folder.at(group.home), about)
    copies = [replace(each, query=each.query.canonical()) for each in group.members(2)]
    found = members_now(copies, group.home, group.read, PLAN)
    assert [each.name for each in found] == ["query_1", "dear"]


def test_a_query_that_joined_is_read_with_the_modules_that_were_handed_in(group: Group) -> None:
    group.added(3, "dear", modules=("/it/mine.py",))
    group.note(
        verb="change", output=1, text=group.script(1, 5), script="it.sql", modules=("/it/more.py",)
    )
    group.has(1, 5, last=2)
    assert group.now(1) == [FIRST, ("dear", "dear")]
    assert group.asked_for == ["/it/mine.py", "/it/more.py"]


def test_where_records_do_not_tell_the_script_is_left_as_it_is(group: Group) -> None:
    # Added in Python: a start refuses the script, and says which queries are needed.
    group.note(verb="add", what="dear")
    group.has(1, 3, last=1)
    assert group.now(1) == [FIRST]
    # Another script than the one of the group.
    group.added(3, "other")
    assert group.now(7) == [FIRST]
