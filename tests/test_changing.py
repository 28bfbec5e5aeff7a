"""Which of several queries a request of another process means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.changed_scripts import named_outputs, wanted_change
from anabranch.engine import Engine
from anabranch.errors import PlanError
from anabranch.host import Host
from anabranch.runtime.sources.location import full_path
from anabranch.runtime.store.migrations import MigrationRecord


@dataclass
class Member:
    name: str
    log_folder: str | None


def test_the_query_whose_output_is_named_is_planned_anew_else_all(tmp_path: Path) -> None:
    members: list[Any] = [Member(name, str(tmp_path / name)) for name in ("a", "b")]
    members.append(Member("c", None))

    def named(to: str | None) -> list[int]:
        to = None if to is None else full_path(str(tmp_path / to))
        return named_outputs(MigrationRecord(number=1, reoptimize=True, to=to), members)

    assert [named("a"), named("b"), named("../" + tmp_path.name + "/b")] == [[0], [1], [1]]
    for nobody in (None, "_checkpoint"):
        assert named(nobody) == [0, 1, 2]
    # The only one needs no name.
    members = members[:1]
    assert named(None) == named("_checkpoint") == [0]


class Written:
    """A script of two queries, one of which calls a user operator."""

    def __init__(self, folder: Path) -> None:
        (folder / "bids.jsonl").write_text('{"stable": "forever"}\n')
        self.declared = f"CREATE STREAM Bid (item INT, price INT) SOURCE '{folder}/bids.jsonl'"

    def queries(self, version: int = 1, least: int = 3) -> list[Any]:
        engine = Engine()
        engine.register(operator(version))
        return engine.script(
            f"{self.declared};\n"
            f"SELECT item, price FROM Bid WHERE price > {least};\n"
            "SELECT largest(price) AS it FROM Bid GROUP BY HOPPING(10, 10);"
        )

    def differs(self, now: list[Any], then: list[Any]) -> int:
        """The number of the query that a script changes."""
        host = Host(start_spark=lambda: None, modules={}, read_apart=lambda *_: then)
        members: list[Any] = [Member(name, None) for name in ("a", "b")]
        nothing: Any = None
        record = MigrationRecord(number=1, text="it")
        (number,) = wanted_change(host, nothing, members, record, now).queries
        return number


def operator(number: int) -> Any:
    @ab.uda(name="largest", version=number)
    class Largest:
        def initial(self) -> list[int]:
            return []

        def add(self, state: list[int], v: int) -> list[int]:
            return [*state, v]

        def compute(self, state: list[int]) -> int:
            return max(state) + number

    return Largest


def test_of_several_queries_the_one_that_differs_changes(tmp_path: Path) -> None:
    written = Written(tmp_path)
    assert written.differs(written.queries(), written.queries(least=4)) == 0
    with pytest.raises(PlanError, match="no query of the script differs"):
        written.differs(written.queries(), written.queries())


def test_of_several_copies_for_a_merge_the_one_that_differs_changes(tmp_path: Path) -> None:
    written = Written(tmp_path)
    copies = [each.canonical() for each in written.queries()]
    assert written.differs(copies, written.queries(least=4)) == 0
    assert written.differs(copies, written.queries(version=2)) == 1
    with pytest.raises(PlanError, match="no query of the script differs"):
        written.differs(copies, written.queries())


def test_of_several_queries_the_one_that_calls_other_code_changes(tmp_path: Path) -> None:
    written = Written(tmp_path)
    assert written.differs(written.queries(), written.queries(version=2)) == 1
