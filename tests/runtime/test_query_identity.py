"""Which changes of a query and its sources keep the plan that a checkpoint belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.planning import plan_queries

QUERY = "SELECT item, MAX(price) AS most FROM Bid WINDOW(RANGE 10) WHERE price > 5 GROUP BY item"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("bids", "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jsonl").write_text('{"item": 1, "price": 2.5, "at": 3}\n')
    return tmp_path


def identity(folder: Path, text: str = QUERY, emit: Any = "speculative", **options: Any) -> str:
    engine = ab.Engine()
    given = {"name": "Bid", "start": "at", "delay": 2, **options}
    engine.stream(folder / given.pop("path", "bids"), **given)
    return plan_fingerprint(plan_queries([engine.sql(text)], emit=emit).physical)


@pytest.mark.parametrize(
    "same",
    [
        {"text": QUERY.lower().replace("from bid", "FROM Bid")},
        {"text": QUERY.replace(" GROUP", "\n  -- by item\n  GROUP")},
        {"delay": 7},
        {"late": "fail"},
        {"ends": True},
        {"max_files_per_batch": 1, "max_rows_per_batch": 10},
        {"path": "others"},
    ],
    ids=str,
)
def test_this_keeps_the_plan(folder: Path, same: dict[str, Any]) -> None:
    assert identity(folder, **same) == identity(folder)


@pytest.mark.parametrize(
    "other",
    [
        {"text": QUERY.replace("RANGE 10", "RANGE 11")},
        {"text": QUERY.replace("> 5", "> 6")},
        {"text": QUERY.replace("MAX", "MIN")},
        {"text": QUERY.replace("AS most", "AS best")},
        {"emit": "final"},
        {"delay": None, "ordered": True},
        {"keyed": True},
        {"unique": "price"},
        {"chronon": "1 second"},
        {"hide_times": True},
    ],
    ids=str,
)
def test_this_is_another_plan(folder: Path, other: dict[str, Any]) -> None:
    assert identity(folder, **other) != identity(folder)


def test_explain_shows_the_names_that_plans_have(folder: Path) -> None:
    engine = ab.Engine()
    engine.stream(folder / "bids", name="Bid", start="at", delay=2)
    explained = engine.sql(QUERY).explain_json()
    node, names = explained["query"], []
    while node["inputs"]:
        names.append(node["operator"])
        (node,) = node["inputs"]
    assert "Aggregate" in names
    assert {"Filter", "TimeWindow"} < set(names)
    assert node["operator"] == "Source"
    (stage,) = explained["stages"]
    assert stage["kernels"][0]["kernel"] == "AggregateKernel"
