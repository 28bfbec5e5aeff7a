"""A plan that is stored as objects is read by versions that have the same classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch import __version__
from anabranch.algebra.filter import Filter
from anabranch.algebra.source import Source
from anabranch.errors import EngineError
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.compile import compile_plan
from anabranch.runtime.query.switching import load_work, seal_work
from anabranch.runtime.query.work import Work
from anabranch.runtime.store import plan_form
from anabranch.runtime.store.migrations import MigrationFolder, PlanForm
from anabranch.runtime.store.plan_form import THIS_PYTHON, as_bytes, unreadable

SCHEMA = pa.schema([("price", pa.int64())])
WORK = "anabranch.runtime.query.work:Work"


@ab.udf
def twice(n: int) -> int:
    return 2 * n


def work_of(condition: str) -> Work:
    held = Expression.parse(condition, SCHEMA, functions=[twice])
    node = Filter(input=Source(name="Bid", schema=SCHEMA), predicate=held)
    return Work(plan=compile_plan(node), nodes=(node,))


@pytest.fixture
def folder(tmp_path: Path) -> MigrationFolder:
    return MigrationFolder.of(str(tmp_path))


def written(folder: MigrationFolder, work: Work, change: Callable[[PlanForm], PlanForm]) -> str:
    """The file of a plan that another version has written."""
    data, form = seal_work(work)
    return folder.write_plan(data, change(form))


def test_a_plan_is_read_by_the_version_that_wrote_it(folder: MigrationFolder) -> None:
    work = work_of("price > 3")
    file = folder.write_plan(*seal_work(work))
    assert load_work(folder, file, work).nodes == work.nodes
    form = folder.read_form(file)
    assert form is not None
    assert (form.version, form.python, form.has_code) == (__version__, THIS_PYTHON, False)
    # All classes of which it has objects, however deep.
    names = ["runtime.query.work:Work", "algebra.filter:Filter", "algebra.source:Source"]
    names += ["expressions.expression:Expression", "kernels.plan.stage:PhysicalPlan"]
    assert {f"anabranch.{name}" for name in names} <= form.classes.keys()


def test_a_class_with_other_fields_is_refused_with_what_to_do(folder: MigrationFolder) -> None:
    work = work_of("price > 3")

    def older(form: PlanForm) -> PlanForm:
        classes = {**form.classes, WORK: "of fewer fields"}
        return replace(form, version="0.0.9", classes=classes)

    file = written(folder, work, older)
    with pytest.raises(EngineError, match="cannot be read by this version") as raised:
        load_work(folder, file, work)
    assert raised.value.where == f"{folder.folder.path}/{file}: {WORK} has other fields now"
    assert f"Anabranch 0.0.9 on Python {THIS_PYTHON}" in raised.value.hint
    assert "start it anew, with another checkpoint" in raised.value.hint


def test_a_class_that_is_gone_is_refused(folder: MigrationFolder) -> None:
    work = work_of("price > 3")
    gone = ("anabranch.algebra.filter:Sieve", "anabranch.sieves:Sieve")
    for name in gone:

        def other(form: PlanForm, name: str = name) -> PlanForm:
            return replace(form, classes={**form.classes, name: "of some fields"})

        file = written(folder, work, other)
        with pytest.raises(EngineError, match="cannot be read") as raised:
            load_work(folder, file, work)
        assert f"there is no class {name} any more" in str(raised.value.where)


def test_code_of_users_is_for_one_version_of_python(folder: MigrationFolder) -> None:
    def of_python_2(form: PlanForm) -> PlanForm:
        return replace(form, python="2.7")

    plain, calling = work_of("price > 3"), work_of("twice(price) > 3")
    assert load_work(folder, written(folder, plain, of_python_2), plain).nodes == plain.nodes

    # A function that no other process can import: it is stored as code.
    [filtered] = calling.nodes
    assert isinstance(filtered, Filter)
    own = replace(twice, code=lambda n: 2 * n)
    held = replace(filtered.predicate, functions=(own,))
    node = Filter(input=filtered.input, predicate=held)
    calling = Work(plan=compile_plan(node), nodes=(node,))
    file = written(folder, calling, of_python_2)
    with pytest.raises(EngineError, match="cannot be read") as raised:
        load_work(folder, file, calling)
    assert f"it has code of Python 2.7, and this is Python {THIS_PYTHON}" in str(raised.value.where)
    assert "on Python 2.7" in raised.value.hint


def test_a_plan_of_before_has_no_note_and_is_read(folder: MigrationFolder) -> None:
    work = work_of("price > 3")
    file = folder.write_plan(*seal_work(work))
    folder.folder.remove(file.replace(".pickle", ".json"))
    assert folder.read_form(file) is None
    assert load_work(folder, file, work).nodes == work.nodes


def test_what_is_not_in_force_goes_with_its_note(folder: MigrationFolder) -> None:
    first, second = (
        folder.write_plan(*seal_work(work_of(text))) for text in ("price > 3", "price > 4")
    )
    folder.remove_files(second)
    assert folder.read_form(first) is None
    assert folder.read_form(second) is not None
    assert len(folder.folder.names()) == 2


def test_a_field_that_is_added_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pickle itself does not: it would read the object, and leave the field out."""

    @dataclass(frozen=True)
    class Before:
        one: int

    @dataclass(frozen=True)
    class After:
        one: int
        other: int = 0

    assert len(fields(After)) == 2
    here = "tests.runtime.test_stored_plan"
    monkeypatch.setattr(plan_form, "_OURS", "tests.")
    for kind in (Before, After):
        kind.__module__, kind.__qualname__ = here, "Changing"
    monkeypatch.setitem(globals(), "Changing", Before)
    _, form = as_bytes(Before(1), __version__)
    assert list(form.classes) == [f"{here}:Changing"]
    assert unreadable(form) is None
    monkeypatch.setitem(globals(), "Changing", After)
    assert unreadable(form) == f"{here}:Changing has other fields now"
