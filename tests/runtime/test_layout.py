"""What of a checkpoint stays when a query changes, and when the format of checkpoints does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.source import Source
from anabranch.errors import EngineError, PlanError
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.compile import compile_plan
from anabranch.model.time import Duration
from anabranch.runtime.query.checkpoint import Checkpoint, read_facts
from anabranch.runtime.store.folder import Folder

SCHEMA = pa.schema([("k", pa.int64())])
ROWS = Source(name="rows", schema=SCHEMA, insert_only=True)
CORRECTED = Source(name="corrected", schema=SCHEMA)
POINTS = Source(name="points", schema=SCHEMA, only_points=True)
K = Expression.parse("k", SCHEMA)
TABLE = Source(name="table", schema=SCHEMA, insert_only=True, relation=True)


def counted(input: Node) -> Aggregation:
    key = Expression.parse("k", input.schema)
    calls = (("n", AggregateCall(function="count")),)
    return Aggregation(input=input, group_by=(("k", key),), aggregates=calls)


def opened(path: Path, *nodes: Node, changed: bool = False, done: int = 0) -> Checkpoint:
    """Open a checkpoint as a start does, let it go, and say that some batches were done."""
    found = Checkpoint(str(path), compile_plan(*nodes), 2, changed=changed)
    found.close()
    for batch in range(done):
        Folder.at(found.spark).child("commits").write(str(batch), b"")
    return found


def test_what_is_the_same_stays_where_it_is(tmp_path: Path) -> None:
    first = opened(tmp_path, counted(ROWS), Distinct(input=ROWS), done=3)
    homes = first.layout.stages
    for home in homes.values():
        Folder.at(first.state).child(home.folder).child("0").write("2.json", b"{}")
    # One is gone, one has come; the stages have other numbers now.
    after = opened(tmp_path, counted(Distinct(input=ROWS)), counted(ROWS), changed=True)
    assert after.query == first.query
    assert [home in homes.values() for home in after.layout.stages.values()] == [False, True]
    assert after.layout.stages["1-aggregate"].folder == "0-aggregate"
    assert [home.since for home in after.layout.outputs] == [3, 0]
    assert after.layout.outputs[1] == first.layout.outputs[0]
    # And back to what it was; the one that left begins anew.
    again = opened(tmp_path, counted(ROWS), changed=True)
    assert again.layout.stages["0-aggregate"] == homes["0-aggregate"]
    assert Folder.at(again.state).folders() == ["0-aggregate"]


def test_outputs_are_told_apart(tmp_path: Path) -> None:
    found = opened(tmp_path, counted(ROWS), counted(ROWS), Distinct(input=ROWS))
    assert len({home.identity for home in found.layout.outputs}) == 3
    assert len({folder.path for folder in found.outs}) == 3


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (Distinct(input=CORRECTED), "'corrected', which corrects earlier rows"),
        (Distinct(input=TABLE), "'table', which has been read already"),
        (counted(counted(CORRECTED)), "the results of stage 0-aggregate"),
    ],
)
def test_what_needs_the_past_cannot_come_later(tmp_path: Path, more: Node, what: str) -> None:
    before = (counted(CORRECTED), counted(TABLE))
    opened(tmp_path, *before, done=1)
    with pytest.raises(PlanError, match=what):
        opened(tmp_path, *before, more, changed=True)
    # Nothing has happened.
    opened(tmp_path, *before)


def test_a_source_that_is_new_may_be_anything(tmp_path: Path) -> None:
    opened(tmp_path, counted(ROWS), done=1)
    found = opened(tmp_path, counted(ROWS), Distinct(input=CORRECTED), changed=True)
    assert [home.since for home in found.layout.outputs] == [0, 1]


def test_a_change_must_be_said(tmp_path: Path) -> None:
    opened(tmp_path, counted(ROWS))
    with pytest.raises(PlanError, match="belongs to another query"):
        opened(tmp_path, Distinct(input=ROWS))


def test_a_checkpoint_of_the_first_format_goes_on(tmp_path: Path) -> None:
    first = opened(tmp_path, counted(ROWS))
    folder = Folder.at(str(tmp_path))
    about = folder.read_json("query.json") or {}
    old = {key: value for key, value in about.items() if key not in ("layout", "sources")}
    folder.write_json("query.json", {**old, "format": 1})
    facts = read_facts(str(tmp_path))
    assert facts is not None
    assert facts.folders == {"0-aggregate": "0-aggregate"}
    again = opened(tmp_path, counted(ROWS))
    assert (again.query, again.layout, again.fresh) == (first.query, first.layout, False)
    assert folder.read_json("query.json") == about


def test_a_checkpoint_from_before_there_were_signatures_is_refused_not_misread(
    tmp_path: Path,
) -> None:
    opened(tmp_path, counted(ROWS))
    folder = Folder.at(str(tmp_path))
    about = folder.read_json("query.json") or {}
    # Its plan was known by the names of classes.
    folder.write_json("query.json", {**about, "format": 3, "plan": "0123456789abcdef"})
    with pytest.raises(PlanError, match="as an earlier version of Anabranch ran it") as refused:
        opened(tmp_path, counted(ROWS))
    assert "format 3, now 5" in refused.value.where
    assert folder.read_json("query.json") == {**about, "format": 3, "plan": "0123456789abcdef"}
    # That it may have changed does not mean that its state may be forgotten.
    with pytest.raises(PlanError, match="as an earlier version of Anabranch ran it"):
        opened(tmp_path, counted(ROWS), changed=True)


def test_a_checkpoint_of_a_later_format_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, counted(ROWS))
    folder = Folder.at(str(tmp_path))
    about = folder.read_json("query.json") or {}
    folder.write_json("query.json", {**about, "format": 99})
    with pytest.raises(EngineError, match="format 99, this version reads formats up to 5"):
        opened(tmp_path, counted(ROWS))


def test_a_query_of_an_earlier_format_goes_on_as_it_began(tmp_path: Path) -> None:
    node = SessionWindow(input=POINTS, gap=Duration(3), partition_by=(("k", K),))
    older = compile_plan(node, emit="final", routed=False)
    began = Checkpoint(str(tmp_path), older, 2)
    began.close()
    folder = Folder.at(str(tmp_path))
    about = folder.read_json("query.json") or {}
    new = ("routed", "epoch")
    old = {key: value for key, value in about.items() if key not in new}
    folder.write_json("query.json", {**old, "format": 2})
    now = compile_plan(node, emit="final")
    assert [stage.name for stage in now.stages] == ["0-session-window", "1-final"]

    def again(**options: Any) -> Checkpoint:
        found = Checkpoint(str(tmp_path), now, 3, older=lambda: older, **options)
        found.close()
        return found

    assert (again().plan, again().shards, again().query) == (older, 2, began.query)
    assert (folder.read_json("query.json") or {})["format"] == 5
    with pytest.raises(PlanError, match="the number of shards of this query is fixed: 2"):
        again(reshard=True)
    assert again(reshard=False).shards == 2


def forms_written(folder: Folder, **changed: Any) -> dict[str, Any]:
    """What a checkpoint says after another version wrote the state of its first operator."""
    about = folder.read_json("query.json") or {}
    home = next(iter(about["layout"]["stages"].values()))
    home["forms"][0] |= changed
    folder.write_json("query.json", about)
    return about


def test_state_of_another_version_is_refused_not_misread(tmp_path: Path) -> None:
    opened(tmp_path, counted(ROWS))
    folder = Folder.at(str(tmp_path))
    about = forms_written(folder, version=7)
    with pytest.raises(PlanError) as refused:
        opened(tmp_path, counted(ROWS))
    assert refused.value.what == (
        "the state of AggregateKernel cannot be read: the checkpoint has version 7 of its format, "
        "and this version of Anabranch version 1"
    )
    assert refused.value.where == (f"{tmp_path}, stage 0-aggregate: Aggregate count(*) AS n by k")
    assert "resume the query with the version of Anabranch that wrote" in refused.value.hint
    assert folder.read_json("query.json") == about
    with pytest.raises(PlanError, match="the checkpoint has version 7 of its format"):
        opened(tmp_path, counted(ROWS), Distinct(input=CORRECTED), changed=True)


def test_state_that_another_planner_laid_out_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, counted(ROWS))
    forms_written(Folder.at(str(tmp_path)), layout="0123456789abcdef")
    with pytest.raises(PlanError, match="the checkpoint has layout 0123456789abcdef of its format"):
        opened(tmp_path, counted(ROWS))


def test_stages_may_have_other_names_in_a_later_version(tmp_path: Path) -> None:
    first = opened(tmp_path, counted(ROWS))
    folder = Folder.at(str(tmp_path))
    about = folder.read_json("query.json") or {}
    about["layout"]["stages"] = {"0-sum": about["layout"]["stages"].pop("0-aggregate")}
    folder.write_json("query.json", about)
    again = opened(tmp_path, counted(ROWS))
    assert (again.query, again.layout, again.fresh) == (first.query, first.layout, False)


def test_a_query_that_resumes_writes_nothing_anew(tmp_path: Path) -> None:
    opened(tmp_path, counted(ROWS), Distinct(input=CORRECTED))
    before = (tmp_path / "query.json").stat()
    opened(tmp_path, counted(ROWS), Distinct(input=CORRECTED))
    assert (tmp_path / "query.json").stat() == before


def test_the_number_of_shards_changes_before_the_first_batch(tmp_path: Path) -> None:
    first = opened(tmp_path, counted(ROWS))
    found = Checkpoint(str(tmp_path), compile_plan(counted(ROWS)), 7, reshard=True)
    found.close()
    assert (found.shards, found.query) == (7, first.query)
    assert found.layout.stages["0-aggregate"].folder == "0-aggregate.s1"


def test_another_query_and_another_number_at_once(tmp_path: Path) -> None:
    opened(tmp_path, counted(ROWS), Distinct(input=ROWS))
    plan = compile_plan(Distinct(input=ROWS))
    found = Checkpoint(str(tmp_path), plan, 3, changed=True, reshard=True)
    found.close()
    about = Folder.at(str(tmp_path)).read_json("query.json") or {}
    assert (found.shards, about["left"]) == (3, ["0-aggregate", "1-distinct"])


def test_whole_events_are_not_spread_anew_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    plan = compile_plan(Cleanse(input=CORRECTED, cut=False))
    Checkpoint(str(tmp_path), plan, 2).close()
    spark = Folder.at(f"{tmp_path}/spark")
    spark.child("offsets").write("0", b"")
    with pytest.raises(PlanError, match="in the middle of a batch"):
        Checkpoint(str(tmp_path), plan, 3, reshard=True)
    facts = read_facts(str(tmp_path))
    assert facts is not None
    assert facts.shards == 2


def test_what_an_interrupted_change_has_left_is_removed(tmp_path: Path) -> None:
    state = Folder.at(f"{tmp_path}/state")
    for name in ("0-aggregate", "0-aggregate.s1"):
        state.child(name).child("0").write("0.json", b"{}")
    opened(tmp_path, counted(ROWS))
    assert state.folders() == ["0-aggregate"]
