"""Options that a method does not have are refused with the name that they have here."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

import anabranch as ab
from anabranch.display.foreign_options import CALLED_HERE, EXPLAINED, NOT_HERE, plain
from anabranch.errors import OptionError

ROWS = [{"item": 1, "at": "2026-11-01T10:00:01"}]
PUBLIC = (
    ab.Engine,
    ab.Stream,
    ab.WindowedStream,
    ab.GroupedStream,
    ab.Run,
    ab.LocalRun,
    ab.ResultTable,
)


def methods() -> Iterator[Any]:
    for kind in PUBLIC:
        for name in [*dir(kind), "__init__"]:
            found = inspect.getattr_static(kind, name)
            if name.startswith("_") and (name, kind) != ("__init__", ab.Engine):
                continue
            if inspect.isfunction(found) and not takes_any(found):
                yield pytest.param(found, id=f"{kind.__name__}.{name}")
    for function in (ab.replicate, ab.jumpstart, ab.cutover, ab.merge_logs):
        yield pytest.param(function, id=function.__name__)


def takes_any(function: Any) -> bool:
    kinds = [each.kind for each in inspect.signature(function).parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds


@pytest.mark.parametrize("method", list(methods()))
def test_every_public_method_explains_options_that_it_lacks(method: Any) -> None:
    with pytest.raises(OptionError, match="no_such_option") as caught:
        method(None, no_such_option=1)
    assert caught.value.where
    assert caught.value.hint


def of_spark(*methods: Any) -> list[str]:
    found = {name for each in methods for name in inspect.signature(each).parameters}
    return sorted(found - {"self"})


@pytest.mark.parametrize(
    "name",
    [
        *of_spark(DataStreamReader.csv, DataStreamReader.json, DataStreamReader.parquet),
        *("maxFilesPerTrigger", "latestFirst", "startingOffsets", "withWatermark", "timezone"),
    ],
)
def test_an_option_of_sparks_readers_has_a_translation(name: str) -> None:
    if name == "schema":  # It is called so here, too.
        return
    method: Any = ab.Engine().stream
    with pytest.raises(OptionError) as caught:
        method(ROWS, start="at", **{name: "x"})
    assert "options are" not in caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        *of_spark(DataStreamWriter.start, DataStreamWriter.trigger, DataStreamWriter.foreachBatch),
        "checkpointLocation",
    ],
)
def test_an_option_of_sparks_writers_has_a_translation(name: str) -> None:
    method: Any = ab.Engine().stream(ROWS, start="at").start
    with pytest.raises(OptionError) as caught:
        method(**{name: "x"})
    assert "options are" not in caught.value.hint


@pytest.mark.parametrize(
    ("method", "options", "hint"),
    [
        ("start", {"outputMode": "append"}, "it is called emit here"),
        ("start", {"checkpointLocation": "c"}, "write checkpoint='c'"),
        ("start", {"checkpiont": "c"}, "did you mean 'checkpoint'? options are: to, "),
        ("window", {"windowDuration": "1 hour"}, "write size='1 hour'"),
        ("snapshot", {"timestamp": "2026"}, "it is called at here: the instant"),
        ("tumbling", {"size": "1 hour", "startTime": "15 minutes"}, "offset="),
    ],
)
def test_the_hint_names_the_option(method: str, options: dict[str, Any], hint: str) -> None:
    stream = ab.Engine().stream(ROWS, start="at")
    with pytest.raises(OptionError) as caught:
        getattr(stream, method)(**options)
    assert hint in caught.value.hint


def test_options_without_a_name_are_explained() -> None:
    with pytest.raises(OptionError, match=r"engine.stream takes 1 argument without") as caught:
        ab.Engine().stream(ROWS, "at")  # type: ignore[call-arg]
    assert "name the options: name=..." in caught.value.hint


def test_errors_inside_a_method_stay_what_they_are() -> None:
    def wrong(batch: Any, number: Any) -> None:
        raise TypeError("mine")

    with pytest.raises(ab.OperatorError, match="TypeError: mine"):
        ab.Engine().stream(ROWS, start="at").run_local(foreach=wrong)


def test_the_tables_are_plain_and_name_options_that_exist() -> None:
    assert all(name == plain(name) for name in (*CALLED_HERE, *NOT_HERE))
    ours = {name for each in methods() for name in of_spark(each.values[0])}
    with_more = {
        name for each in (ab.Stream.hopping, ab.Stream.sessions) for name in of_spark(each)
    }
    assert {each for options in CALLED_HERE.values() for each in options} <= ours | with_more
    assert EXPLAINED.keys() <= ours
