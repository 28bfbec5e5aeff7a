from __future__ import annotations

import pickle
import shutil
import sys
import threading
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.source import Source
from anabranch.errors import OperatorError, PlanError
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.compile import compile_plan
from anabranch.runtime.sources.spec import Promise
from anabranch.runtime.workers.job import Job, seal, unseal


def test_code_is_sent_along_with_a_job() -> None:
    more = 3
    sent = pickle.loads(seal(lambda x: x + more))  # type: ignore[arg-type]
    assert sent(4) == 7


def test_what_cannot_be_sent_is_named() -> None:
    lock = threading.Lock()
    with pytest.raises(PlanError, match="cannot be sent to workers") as caught:
        seal(lambda: lock)  # type: ignore[arg-type]
    assert "lock" in caught.value.where


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ValueError('no data', 3)", "ValueError: ('no data', 3)"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'"),
    ],
)
def test_a_worker_that_cannot_load_code_says_how_it_could(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "moody.py").write_text("def f():\n    pass\n")
    sealed = seal(import_module("moody").f)
    monkeypatch.delitem(sys.modules, "moody")
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    (tmp_path / "moody.py").write_text(f"{text}\n\ndef f():\n    pass\n")
    with pytest.raises(OperatorError, match="a worker cannot load the code") as caught:
        unseal(sealed, "")
    assert caught.value.where == said
    assert "spark.addArtifact" in caught.value.hint


def test_what_was_found_from_a_job_is_not_sent() -> None:
    source = Source(name="s", schema=pa.schema({"x": pa.int64()}))
    job = Job(
        plan=compile_plan(Distinct(input=source)),
        shards=2,
        state="",
        promises={"s": Promise(source="s")},
        deliveries=("nothing",),
        outs=("",),
    )
    before = seal(job)
    assert job.levels() == [(0,)]
    routes = job.routes(Address.source("s"))
    assert seal(job) == before
    assert unseal(before, "").routes(Address.source("s")) == routes
