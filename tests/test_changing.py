"""Which of several queries a request of another process means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.changed_scripts import named_outputs
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
