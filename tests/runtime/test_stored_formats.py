"""Files of a checkpoint and of a log keep their format: these are texts as 0.1 wrote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.heads import COMMANDS, COUNTS, NAMES, STAGE_COUNTERS, TIMES

from anabranch.errors import EngineError
from anabranch.kernels.contract.command import Command
from anabranch.model.clock import MICROSECONDS
from anabranch.model.record import plain, record
from anabranch.runtime.query.quarantine import FailedWindow
from anabranch.runtime.sinks.line_sinks import OutputFile, OutputSize
from anabranch.runtime.sources.files.copy_book import PlannedCopy
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.files.log_records import LogAbout, LogEntry
from anabranch.runtime.sources.files.lost_copies import LostCopy
from anabranch.runtime.sources.files.planned_batch import (
    PlannedBase,
    PlannedBatch,
    read_base,
    read_entry,
)
from anabranch.runtime.sources.files.reader import FileSplit
from anabranch.runtime.sources.files.units import Position
from anabranch.runtime.store.control import SettledCommand
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.query_record import QueryRecord, read_query_record
from anabranch.runtime.store.state_store import (
    CopyState,
    Manifest,
    RunFile,
    ShardStore,
    StoredTrace,
)

MANIFEST = (
    '{"format":1,"batch":2,"kernels":[{"stable":-9223372036854775808,"runs":{"events":'
    '[["2-0.arrow",3,1626,3526432]]}}],"sources":{"s":5},"silent":{"s":7},"copies":{"s":'
    '{"0":["a",5,""],"1":["b.jsonl",-9223372036854775808,"it is gone"]}},'
    '"interest":-9223372036854775808,"counters":{"stage":"0-merge","shard":0,"rows_in":4,'
    '"rows_out":4,"state_rows":3,"state_runs":1,"stable":5,"sources":{"s":{"rows":4,"late":1,'
    '"adjusted":0,"reached":5,"order":"none","skipped":2,"copies":{"a":{"rows":4,"late":1,'
    '"adjusted":0,"reached":5},"b.jsonl":{"rows":0,"late":0,"adjusted":0,'
    '"reached":-9223372036854775808,"problem":"it is gone"}}}},"control":[{"verb":"attach",'
    '"source":"s","value":null,"copy":"a"},{"verb":"advance","source":"t","value":9}],'
    '"report":{"inputs":2}}}'
)
ENTRY = (
    '{"parts":{"s":[[["/in/a/part-000000-000.parquet",0,-1,1,null,null,0],["",0,0,1,2,null,0]],'
    '[["/in/t",0,1,1,null,17,null,[["day","1"],["hour",null]],"feed",99]]]},"after":{"s":'
    '{"a":[1,1],"b":[3,1]}},"ended":["s"],"control":{"0-f":{"verb":"detach","source":"s",'
    '"value":null,"copy":"a"}},"stamp":17,"inputs":{"s":{"a":[0,"log q","",false],'
    '"b":[1,null,"it is gone",true]}},"restarts":{"s":[0]},"announced":[{"verb":"attach",'
    '"source":"s","value":2,"copy":"b"}],"passed":{"s":1000}}'
)
PLAIN_ENTRY = (
    '{"parts":{"s":[[["/in/0.json",0,27,1,null,null,null]]]},"after":{"s":{"/in/0.json":[27,4]}},'
    '"ended":[]}'
)
BASE = (
    '{"after":{"s":{"/in/0.json":[27,4]}},"inputs":{"t":{"a":[0,"log q","",false]}},"ended":["u"],'
    '"stamp":17,"commanded":["0-f"],"paused":["s"],"most":{"s":3}}'
)
LOG_ENTRY = (
    '{"format":1,"batch":3,"stable":5,"files":[{"name":"part-000003-000.parquet","rows":1,'
    '"bytes":1626}]}'
)
LOG_ABOUT = '{"format":1,"query":"q","timestamps":false,"schema":"/////w=="}'
LATER_LOG_ABOUT = (
    '{"format":1,"query":"q","timestamps":true,"chronon":1000,"schema":"/////w==",'
    '"home":"/out/_checkpoint","since":7}'
)
REVISED_LOG_ENTRY = (
    '{"format":2,"batch":3,"stable":35,"files":[],"revisions":[{"number":7,"first":20,"last":30,'
    '"file":{"name":"revision-000007.parquet","rows":2,"bytes":1626}}]}'
)
CUT_LOG_ABOUT = (
    '{"format":2,"query":"q","timestamps":false,"schema":"/////w==","since":20,"revised":1,'
    '"base":{"batch":1,"stable":20,"files":[{"name":"base-000001.parquet","rows":1,"bytes":1626}]}}'
)
LOST = (
    '{"split":["/in/a/part-000001-000.parquet",0,-1,1,null,null,0],'
    '"problem":"cannot read the file"}'
)
COMMAND = '{"verb":"resume","source":"s","value":null}'
TAKEN = '{"content":{"verb":"resume","source":"s","value":null},"entry":7}'
QUARANTINED = (
    '{"batch":4,"stage":"1-apply","shard":1,"module":"m","reason":"no","window":["0","10"],'
    '"group":null,"event":"","events":[{"values":"(1)","start":"1","end":"2"}],"count":1}'
)

QUERY = (
    '{"format":5,"plan":"e5cebf47d398d8fb","timestamps":false,"clocks":{"S":{"timestamps":false},'
    '"T":{"timestamps":false}},"operators":{"0-distinct":["Distinct"],"1-distinct":["Distinct"]},'
    '"tables":[],"sources":{"S":true,"T":false},"copies":[],'
    '"query":"00000000000000000000000000000000","shards":3,'
    '"layout":{"stages":{"0-distinct":{"folder":"0-distinct","fingerprint":"fd9c7a109d3b2ff4",'
    '"since":0,"identity":"","forms":[{"operator":"MultiplicityKernel","version":1,'
    '"layout":"4b9f6dfdc528d504"}]},"1-distinct":{"folder":"1-distinct",'
    '"fingerprint":"30e14e6bf81353e6","since":0,"identity":"",'
    '"forms":[{"operator":"MultiplicityKernel","version":1,"layout":"4b9f6dfdc528d504"}]}},'
    '"outputs":[{"folder":"out","fingerprint":"30e14e6bf81353e6","since":0,'
    '"identity":"00000000000000000000000000000000","forms":[]}]},"routed":true,"epoch":0}'
)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Manifest, MANIFEST),
        (PlannedBatch, ENTRY),
        (PlannedBatch, PLAIN_ENTRY),
        (PlannedBase, BASE),
        (LogEntry, LOG_ENTRY),
        (LogAbout, LOG_ABOUT),
        (LogAbout, LATER_LOG_ABOUT),
        (LogEntry, REVISED_LOG_ENTRY),
        (LogAbout, CUT_LOG_ABOUT),
        (LostCopy, LOST),
        (Command, COMMAND),
        (FailedWindow, QUARANTINED),
        (QueryRecord, QUERY),
        (OutputFile, '{"path":"/out.jsonl"}'),
        (OutputSize, '{"size":70,"stable":5}'),
        (OutputSize, '{"size":70,"stable":5,"revision":2}'),
        (SettledCommand, TAKEN),
        (SettledCommand, '{"content":"{","why":"not a command"}'),
    ],
)
def test_what_was_written_is_read_and_written_as_it_was(kind: type[Any], text: str) -> None:
    found = record(kind, json.loads(text), where="a file")
    assert json.dumps(plain(found), separators=(",", ":")) == text


_SPLITS = st.builds(
    FileSplit,
    NAMES,
    COUNTS,
    COUNTS,
    COUNTS,
    st.none() | TIMES,
    st.none() | TIMES,
    st.none() | COUNTS,
    st.lists(st.tuples(NAMES, st.none() | NAMES), max_size=2).map(tuple),
    st.sampled_from(["", "delete", "feed", "revision"]),
    st.none() | TIMES,
)
_POSITIONS = st.dictionaries(NAMES, st.builds(Position, COUNTS, COUNTS), max_size=2)
_PLANNED = st.builds(PlannedCopy, COUNTS, st.none() | NAMES, NAMES, st.booleans())
_INPUTS = st.dictionaries(NAMES, st.dictionaries(NAMES, _PLANNED, max_size=2), max_size=2)
_ENTRIES = st.builds(
    PlannedBatch,
    parts=st.dictionaries(
        NAMES, st.lists(st.lists(_SPLITS, max_size=2).map(tuple), max_size=2).map(tuple), max_size=2
    ),
    after=st.dictionaries(NAMES, _POSITIONS, max_size=2),
    ended=st.lists(NAMES, max_size=2).map(tuple),
    control=st.dictionaries(NAMES, COMMANDS, max_size=2),
    stamp=COUNTS,
    inputs=_INPUTS,
    restarts=st.dictionaries(NAMES, st.lists(COUNTS, max_size=2).map(tuple), max_size=2),
    announced=st.lists(COMMANDS, max_size=2).map(tuple),
    passed=st.dictionaries(NAMES, COUNTS, max_size=2),
)
_RUNS = st.lists(st.builds(RunFile, NAMES, COUNTS, COUNTS, COUNTS), max_size=2).map(tuple)
_MANIFESTS = st.builds(
    Manifest,
    batch=COUNTS,
    kernels=st.lists(
        st.builds(StoredTrace, TIMES, st.dictionaries(NAMES, _RUNS, max_size=2)), max_size=2
    ).map(tuple),
    sources=st.dictionaries(NAMES, TIMES, max_size=2),
    silent=st.dictionaries(NAMES, COUNTS, max_size=2),
    copies=st.dictionaries(
        NAMES, st.dictionaries(COUNTS, st.builds(CopyState, NAMES, TIMES, NAMES), max_size=2)
    ),
    interest=TIMES,
    counters=st.none() | STAGE_COUNTERS,
)


@given(st.one_of(_ENTRIES, _MANIFESTS))
def test_what_is_written_is_read_again(written: PlannedBatch | Manifest) -> None:
    assert record(type(written), json.loads(json.dumps(plain(written))), where="here") == written


def test_a_manifest_of_0_1_says_what_it_said(tmp_path: Path) -> None:
    folder = Folder.at(str(tmp_path))
    folder.write_json("2.json", json.loads(MANIFEST))
    found = ShardStore(folder=folder).newest_before(3)
    assert found is not None
    assert [*found.files()] == [RunFile("2-0.arrow", 3, 1626, 3526432)]
    assert found.copies["s"][0] == CopyState("a", 5)
    assert (found.stable, found.silent) == (5, {"s": 7})


def test_a_plan_of_0_1_says_what_it_said(tmp_path: Path) -> None:
    folder = Folder.at(str(tmp_path))
    folder.write_json("1.json", json.loads(ENTRY))
    folder.write_json("base-1.json", json.loads(BASE))
    entry, base = read_entry(folder, 1), read_base(folder, 1)
    assert entry is not None
    assert base is not None
    last = FileSplit(
        "/in/t", 0, 1, stamp=17, values=(("day", "1"), ("hour", None)), change="feed", latest=99
    )
    assert entry.parts["s"][1] == (last,)
    assert entry.inputs["s"]["b"] == PlannedCopy(1, None, "it is gone", away=True)
    assert base.after["s"] == {"/in/0.json": Position(27, 4)}


def test_an_entry_of_a_version_that_knew_less_is_read(tmp_path: Path) -> None:
    content = {"parts": {"s": [[["/in/0.json", 0, 27]]]}, "after": {"s": {}}, "ended": []}
    Folder.at(str(tmp_path)).write_json("1.json", content)
    entry = read_entry(Folder.at(str(tmp_path)), 1)
    assert entry is not None
    assert entry.parts["s"] == ((FileSplit("/in/0.json", 0, 27),),)


def test_a_damaged_entry_of_a_log_is_refused_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "_log").mkdir()
    (tmp_path / "_log" / "0.json").write_text('{"format":1,"batch":0,"files":[]}')
    with pytest.raises(EngineError, match="a LogEntry cannot be read: 'stable' is missing") as no:
        LogFolder(str(tmp_path)).entries()
    assert no.value.where == f"{tmp_path}/_log/0.json"


def test_a_manifest_with_a_key_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    folder = Folder.at(str(tmp_path))
    folder.write_json("0.json", {**json.loads(MANIFEST), "colour": "red"})
    with pytest.raises(EngineError, match="'colour' is a key that this version does not know"):
        ShardStore(folder=folder).newest_before(1)


def test_a_checkpoint_of_an_earlier_format_says_less(tmp_path: Path) -> None:
    content = {"format": 1, "plan": "p", "query": "q", "shards": 2, "timestamps": True}
    Folder.at(str(tmp_path)).write_json("query.json", {**content, "operators": {"0-join": []}})
    found = read_query_record(str(tmp_path))
    assert found is not None
    assert (found.layout, found.routed, found.epoch) == (None, False, 0)
    assert found.folders() == {"0-join": "0-join"}
    assert found.source_clocks() == {"": MICROSECONDS}


def test_a_checkpoint_without_its_shards_is_refused(tmp_path: Path) -> None:
    Folder.at(str(tmp_path)).write_json("query.json", {"format": 5, "query": "q"})
    with pytest.raises(EngineError, match="a QueryRecord cannot be read: 'shards' is missing"):
        read_query_record(str(tmp_path))
