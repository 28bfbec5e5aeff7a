"""A cutover is refused where it would leave a merge without a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import PlanError
from anabranch.kernels.contract.command import Command
from anabranch.merging.cutover import _refuse_gone
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder


def test_what_a_detached_copy_is_told_does_not_bring_it_back(tmp_path: Path) -> None:
    folder = ControlFolder(Folder.at(str(tmp_path)))
    folder.put(Command(verb="detach", source="copies", copy="b"))
    folder.put(Command(verb="spare", source="copies", copy="b", value=9))
    with pytest.raises(PlanError, match="has detached 'b'"):
        _refuse_gone(folder, "copies", "a", "b", "merged")
    folder.put(Command(verb="rejoin", source="copies", copy="b"))
    _refuse_gone(folder, "copies", "a", "b", "merged")
