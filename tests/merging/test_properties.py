"""What is known of copies decides the case of their merge, and `explain` says why not more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.merge import Merge
from anabranch.errors import PlanError, StreamError
from anabranch.model.clock import INTEGERS
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.files.log_records import LogProperties

STRICT = Properties(insert_only=True, keyed=True, order="strict")


def merged(node: object) -> Merge:
    assert isinstance(node, Merge)
    return node


def rows(path: Path, count: int = 4) -> str:
    path.write_text("".join(json.dumps({"k": n % 2, "at": n}) + "\n" for n in range(count)))
    return str(path)


def test_each_case_is_chosen_by_what_is_declared(tmp_path: Path) -> None:
    engine = ab.Engine()
    path = rows(tmp_path / "rows.jsonl")

    def case(tail: str, view: str = "SELECT k FROM {name}") -> str:
        for name in ("one", "two"):
            engine.sql(
                f"CREATE OR REPLACE STREAM {name} (k INT, at INT) SOURCE '{path}' "
                f"ORDERED BY at {tail}"
            )
        views = ", ".join(f"({view.format(name=name)}) AS {name}_" for name in ("one", "two"))
        return merged(engine.sql(f"SELECT * FROM MERGE({views})").node.inputs[0]).chosen

    assert case("ORDERED KEYED") == "r2"
    assert case("KEYED") == "r3"
    assert case("ORDERED TIES KEYED") == "r2"
    assert case("ORDERED TIES") == "r1"
    assert case("ORDERED") == "r4"
    assert case("") == "r4"


def test_in_python_as_well_and_released_whole_in_order_is_r0_or_r2(tmp_path: Path) -> None:
    engine = ab.Engine()
    path = rows(tmp_path / "rows.jsonl")
    one, two = (
        engine.stream(path, name=name, start="at", ordered=True, keyed=True)
        for name in ("one", "two")
    )
    assert merged(ab.merge(one, two).node).chosen == "r2"
    scalar = [each.window(2).agg(n="COUNT(*)").cleanse(cut=False) for each in (one, two)]
    assert merged(ab.merge(*scalar).node).chosen == "r0"
    grouped = [
        each.window(2).group_by("k").agg(n="COUNT(*)").cleanse(cut=False) for each in (one, two)
    ]
    node = merged(ab.merge(*grouped).node)
    assert node.chosen == "r2"
    assert [type(each).__name__ for each in node.inputs] == ["Cleanse", "Cleanse"]
    # Pieces that are cut where the stable point stood differ from copy to copy.
    cut = [each.window(2).agg(n="COUNT(*)").cleanse() for each in (one, two)]
    assert merged(ab.merge(*cut).node).chosen == "r3"
    speculative = [each.window(2).group_by("k").agg(n="COUNT(*)") for each in (one, two)]
    assert merged(ab.merge(*speculative).node).chosen == "r3"


def test_explain_says_why_a_stronger_case_was_not_chosen(tmp_path: Path) -> None:
    engine = ab.Engine()
    path = rows(tmp_path / "rows.jsonl")
    a = engine.stream(path, name="a", start="at", ordered=True, keyed=True)
    b = engine.stream(path, name="b", start="at", ordered=True)
    assert "not r3: 'b' may have two events of one payload and start" in ab.merge(a, b).explain()
    assert "not r1: 'a' may have ties in any order and 1 more" in ab.merge(a, b).explain()
    e, f = (engine.stream(path, name=name, start="at", ordered="ties") for name in ("e", "f"))
    tied = ab.merge(e, f.where("k > 0"))
    assert merged(tied.node).chosen == "r1"
    assert "not r2: 'e' may have two events of one payload and start" in tied.explain()
    mixed = ab.merge(e, f.cleanse(cut=False))
    assert merged(mixed.node).chosen == "r4"
    assert "not r1: some inputs have ties as they were written, others put them" in mixed.explain()
    assert "Merge 2 copies by r1" in ab.merge(b.cleanse(cut=False), e.cleanse(cut=False)).explain()
    c = engine.stream(path, name="c", start="at", keyed=True)
    assert "not r2: 'c' is not in order of start" in ab.merge(a, c).explain()
    d = a.window(2).agg(n="COUNT(*)")
    assert "not r2: 'input 1' may adjust events and 1 more" in ab.merge(d, d).explain()
    asked = ab.merge(a, a.where("k > 0"), inserts="leading").explain()
    assert "not r2: inserts are to leave by 'leading'" in asked
    assert "not r" not in ab.merge(a, c, case="r4").explain()
    assert (
        "not r0: 'a' may have two events of one start and 1 more"
        in ab.merge(a, a.where("k>0")).explain()
    )


def test_ties_are_counted_as_they_were_written(tmp_path: Path) -> None:
    engine = ab.Engine()
    lines = [(1, 1), (2, 1), (1, 1), (3, 4), (3, 4), (1, 9)]
    for name, many in (("one", 4), ("two", 6), ("three", 5)):
        text = (json.dumps({"k": k, "at": at}) + "\n" for k, at in lines[:many])
        (tmp_path / f"{name}.jsonl").write_text("".join(text))
    streams = [
        engine.stream(
            str(tmp_path / f"{name}.jsonl"), name=name, start="at", ordered="ties", hide_times=True
        )
        for name in ("one", "two", "three")
    ]
    both = ab.merge(*streams)
    assert merged(both.node).chosen == "r1"
    both.run_local(to=tmp_path / "out.jsonl")
    found = LogicalStream.of_batches(list(read_batches(tmp_path / "out.jsonl")))
    assert found == LogicalStream.of([((k,), at, at + 1) for k, at in lines])


def test_logs_carry_that_ties_can_be_put_in_order(tmp_path: Path) -> None:
    engine = ab.Engine()
    path = rows(tmp_path / "rows.jsonl")
    one = engine.stream(path, name="one", start="at").where("k > 0").cleanse(cut=False)
    known = LogProperties.of(one.canonical().node, "speculative")
    assert known == LogProperties(insert_only=True, only_points=True, order="start", ties=True)
    for name in ("a", "b"):
        log(tmp_path / "copies" / name, known)
    copies = engine.stream(str(tmp_path / "copies"), name="c", copies=True)
    assert merged(copies.merge().node).chosen == "r1"
    # Logs of an earlier version do not say so.
    log(tmp_path / "copies" / "d", LogProperties(insert_only=True, order="start"))
    copies = engine.stream(str(tmp_path / "copies"), name="e", copies=True)
    assert merged(copies.merge().node).chosen == "r4"


def test_elements_in_order_have_no_adjusts(tmp_path: Path) -> None:
    engine = ab.Engine()
    lines = ['{"insert": {"k": 1}, "start": 1, "end": 5}', '{"stable": 2}']
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(lines) + "\n")
    stream = engine.stream(str(file), name="a", ordered=True, keyed=True)
    assert stream.node.properties.insert_only
    assert stream.node.properties.order == "start"
    stream.run_local(to=tmp_path / "out.jsonl")
    lines.append('{"adjust": {"k": 1}, "start": 1, "end": 5, "new_end": 4}')
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(StreamError, match="an adjust in a stream that is declared ORDERED"):
        stream.run_local(to=tmp_path / "out2.jsonl")


def log(path: Path, known: LogProperties | None) -> str:
    import pyarrow as pa

    folder = LogFolder(str(path))
    schema = pa.schema([("k", pa.int64())])
    folder.create(schema, query=path.name, clock=INTEGERS, properties=known)
    folder.commit(0, 5, [])
    return str(path)


def test_logs_say_what_their_plan_knows(tmp_path: Path) -> None:
    engine = ab.Engine()
    known = LogProperties(insert_only=True, keyed=True, order="start")
    for name in ("a", "b"):
        log(tmp_path / "copies" / name, known)
    copies = engine.stream(str(tmp_path / "copies"), name="c", copies=True)
    assert merged(copies.merge().node).chosen == "r2"
    # What begins with less is weaker.
    log(tmp_path / "copies" / "d", LogProperties(keyed=True))
    copies = engine.stream(str(tmp_path / "copies"), name="e", copies=True)
    assert merged(copies.merge().node).chosen == "r3"
    log(tmp_path / "copies" / "f", None)
    copies = engine.stream(str(tmp_path / "copies"), name="g", copies=True)
    assert merged(copies.merge().node).chosen == "r4"


def test_lifetimes_that_are_cut_are_not_merged_by_order(tmp_path: Path) -> None:
    engine = ab.Engine()
    known = LogProperties(insert_only=True, no_duplicates=True, keyed=True, order="start", cut=True)
    log(tmp_path / "copies" / "a", known)
    copies = engine.stream(str(tmp_path / "copies"), name="c", copies=True)
    node = merged(copies.merge().node)
    assert node.chosen == "r3"
    assert "not r2: 'c' has lifetimes that are cut at stable points" in node.label


def test_a_changed_query_weakens_what_its_log_says(tmp_path: Path) -> None:
    path = log(tmp_path / "a", LogProperties(insert_only=True, keyed=True, order="start"))
    folder = LogFolder(path)
    about = folder.record()
    assert about is not None
    folder.create(
        about.payload, query="a", clock=INTEGERS, properties=LogProperties(insert_only=True)
    )
    assert folder.properties() == LogProperties(insert_only=True)
    engine = ab.Engine()
    stream = engine.stream(path, name="a")
    stream.run_local(to=tmp_path / "out.jsonl")
    folder.create(about.payload, query="a", clock=INTEGERS, properties=LogProperties())
    with pytest.raises(StreamError, match="the stream may adjust events, and the query relies"):
        stream.run_local(to=tmp_path / "out2.jsonl")


def test_order_is_declared_of_rows_and_elements_only(tmp_path: Path) -> None:
    path = log(tmp_path / "a", None)
    with pytest.raises(PlanError, match="ORDERED"):
        ab.Engine().stream(path, name="a", ordered=True)


def test_what_holds_of_two_streams_is_what_holds_of_both() -> None:
    weaker = Properties(insert_only=True, order="start")
    assert STRICT.meet(weaker) == weaker == weaker.meet(STRICT)
    assert STRICT.meet(STRICT) == STRICT
    assert STRICT.meet(Properties()) == Properties()
