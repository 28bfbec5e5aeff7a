"""Which of several queries a request of another process means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anabranch.changing import _named_output
from anabranch.errors import PlanError
from anabranch.runtime.sources.location import full_path
from anabranch.runtime.store.migrations import MigrationRecord


@dataclass
class Member:
    name: str
    log_folder: str | None


def test_the_query_whose_output_is_named_is_planned_anew(tmp_path: Path) -> None:
    members: list[Any] = [Member(name, str(tmp_path / name)) for name in ("a", "b")]
    members.append(Member("c", None))

    def named(to: str | None) -> int:
        to = None if to is None else full_path(str(tmp_path / to))
        return _named_output(MigrationRecord(number=1, reoptimize=True, to=to), members)

    assert [named("a"), named("b"), named("../" + tmp_path.name + "/b")] == [0, 1, 1]
    for nobody in (None, "_checkpoint"):
        with pytest.raises(PlanError, match="3 queries run together: which of them") as raised:
            named(nobody)
        assert f"{tmp_path}/b, c" in raised.value.hint
    # The only one needs no name.
    members = members[:1]
    assert named(None) == named("_checkpoint") == 0
