"""What a session is asked before anything runs on it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.runtime.spark.job_in_force import can_tell, tellable
from anabranch.runtime.spark.session import DRIVER_ROWS, driver_limits, is_local, plain_jobs

ONE_PROCESS = ("local", "local[1]", "local[*]", "local[2,4]")
EXECUTORS = ("local-cluster[2,1,1024]", "spark://other:7077", "yarn", "k8s://https://other", "")


class SparkWithMaster:
    """As much of a session as has settings."""

    def __init__(self, master: str, **more: str) -> None:
        self.conf = {"spark.master": master, **more}


def on(master: str, **more: str) -> Any:
    return cast("Any", SparkWithMaster(master, **more))


@pytest.mark.parametrize("master", ONE_PROCESS)
def test_spark_in_one_process_has_plain_jobs_and_a_driver_that_computes(master: str) -> None:
    assert is_local(on(master))
    assert plain_jobs(on(master))
    assert driver_limits(on(master)) == {
        "rows": 2_000_000,
        "bytes": 512 << 20,
        "milliseconds": 1_000,
    }


@pytest.mark.parametrize("master", EXECUTORS)
def test_executors_are_a_cluster_even_on_this_machine(master: str) -> None:
    assert not is_local(on(master))
    assert not plain_jobs(on(master))
    assert driver_limits(on(master)) == {"rows": 50_000, "bytes": 64 << 20, "milliseconds": 100}


def test_a_setting_holds_on_every_master() -> None:
    for master in (*ONE_PROCESS, *EXECUTORS):
        assert driver_limits(on(master, **{DRIVER_ROWS: "7"}))["rows"] == 7


ADAPTIVE = "spark.sql.adaptive.enabled"


class Settings(dict[str, str]):
    """As much of the settings of a session as is needed."""

    set = dict.__setitem__


def test_a_session_plans_adaptively_again_behind_a_start_also_if_that_fails() -> None:
    for usual in ({}, {ADAPTIVE: "true"}, {ADAPTIVE: "false"}):
        session: Any = SimpleNamespace(sparkContext=object(), conf=Settings(usual))
        with tellable(session):
            assert session.conf[ADAPTIVE] == "false"
        with pytest.raises(RuntimeError, match="no start"), tellable(session):
            raise RuntimeError("no start")
        assert session.conf[ADAPTIVE] == usual.get(ADAPTIVE, "true")


def test_a_session_in_another_process_is_left_alone() -> None:
    session: Any = SimpleNamespace(conf=Settings())
    assert not can_tell(session)
    with tellable(session):
        assert session.conf == {}
