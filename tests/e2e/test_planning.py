"""On Spark the plan that runs is the one that was explained, over files, tables and DataFrames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.engine import Engine, Stream
from anabranch.kernels.plan.explain import explain_stages
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.runtime.query import start as start_module
from anabranch.runtime.query.checkpoint import Checkpoint
from anabranch.runtime.query.options import PlanChoice

pytestmark = pytest.mark.spark

PLANS: Final[tuple[PlanChoice, ...]] = ("optimized", "as-written")
ROWS: Final[Mapping[str, list[Any]]] = {
    "k": [n % 3 for n in range(40)],
    "s": ["Robert" if n % 2 else "Rupert" for n in range(40)],
    "t": list(range(40)),
}
QUERIES: Final = {
    "files": "SELECT k, COUNT(*) AS n FROM F WINDOW(RANGE 5) WHERE k > 0 GROUP BY k",
    "a table": "SELECT name, s FROM F JOIN T ON k = id WHERE k > 0 AND name <> 'a'",
    "a frame": "SELECT k, COUNT(*) AS n FROM D WINDOW(RANGE 5) WHERE k > 0 GROUP BY k",
    "a frame and a table": "SELECT name, COUNT(*) AS n FROM D WINDOW(RANGE 5) JOIN T ON k = id "
    "WHERE s = 'Robert' AND name <> 'a' GROUP BY name",
    "what only Spark evaluates": "SELECT code, COUNT(*) AS n FROM "
    "(SELECT SOUNDEX(s) AS code FROM D WHERE k > 0) GROUP BY code",
}


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[PhysicalPlan]:
    """The plans that are handed to a job, before lookups are told where their tables are."""
    found: list[PhysicalPlan] = []

    def noted(path: Any, plan: PhysicalPlan, *given: Any, **options: Any) -> Any:
        made = Checkpoint(path, plan, *given, **options)
        found.append(made.plan)
        return made

    monkeypatch.setattr(start_module, "Checkpoint", noted)
    return found


@pytest.fixture
def engine(
    first_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    monkeypatch.chdir(tmp_path)
    rows = [",".join(map(str, row)) for row in zip(*ROWS.values())]
    Path("rows.csv").write_text("\n".join(["k,s,t", *rows]) + "\n")
    Path("names.csv").write_text("id,name\n0,a\n1,b\n2,c\n")
    made = Engine(first_engine.spark, shards=2)
    made.sql(
        "CREATE STREAM F (k BIGINT, s STRING, t BIGINT) SOURCE 'rows.csv' ORDERED BY t "
        "WITH (ends = TRUE); CREATE TABLE T (id BIGINT, name STRING) SOURCE 'names.csv'"
    )
    frame = made.spark.createDataFrame(pa.table(ROWS))
    made.stream(frame, name="D", start="t", ends=True)
    yield made
    made.stop()


@pytest.mark.parametrize("name", QUERIES)
def test_the_plan_that_runs_is_the_one_that_was_explained(
    engine: Engine, plans: list[PhysicalPlan], name: str
) -> None:
    query: Stream = engine.sql(QUERIES[name])
    for plan in PLANS:
        plans.clear()
        said = query.explain(plan=plan)
        query.to_df(plan=plan)
        if plan == "optimized":
            query.start("memory", available_now=True).stop()
        assert len({plan_fingerprint(each) for each in plans}) == 1
        assert all(explain_stages(each) in said for each in plans)


def test_queries_together_run_by_the_plan_that_was_explained_and_both_plans_give_one_answer(
    engine: Engine, plans: list[PhysicalPlan]
) -> None:
    queries = [engine.sql(text) for text in QUERIES.values()]
    answers: dict[str, list[LogicalStream]] = {}
    for plan in PLANS:
        plans.clear()
        said = engine.explain_all(queries, plan=plan)
        files = [f"{plan}-{number}.jsonl" for number in range(len(queries))]
        runs = engine.start_all(queries, files, available_now=True, plan=plan)
        assert all(run.await_end(120) for run in runs)
        assert said == explain_stages(plans[0], [str(query.name) for query in queries])
        found = [LogicalStream.of_batches(read_batches(Path(file))) for file in files]
        assert all(each.steps for each in found)
        answers[plan] = found
    differences = [one.difference(other) for one, other in zip(*answers.values(), strict=True)]
    assert differences == [""] * len(queries)


def test_a_table_is_looked_up_in_by_a_frame_of_elements_as_well(engine: Engine) -> None:
    query = engine.sql(QUERIES["a table"])
    assert "[looked up in T]" in query.explain()
    frame = query.to_df(checkpoint="state")
    stream = frame.writeStream.format("memory").queryName("looked_up")
    stream = stream.option("checkpointLocation", str(Path("sink").absolute())).trigger(
        availableNow=True
    )
    started = stream.start()
    assert started.awaitTermination(120)
    rows = engine.spark.table("looked_up").where("kind = 'insert'")
    found = Counter((row["name"], row["s"]) for row in rows.collect())
    names = {1: "b", 2: "c"}
    want = Counter((names[k], s) for k, s in zip(ROWS["k"], ROWS["s"]) if k)
    assert found == want


def test_what_only_spark_evaluates_may_need_the_optimizer(engine: Engine) -> None:
    query = engine.sql("SELECT name FROM D JOIN T ON k = id WHERE SOUNDEX(s) <> name")
    for plan in PLANS:
        with pytest.raises(ab.PlanError, match="evaluated by Spark only") as raised:
            query.start("memory", plan=plan)
        assert ("plan='optimized'" in raised.value.hint) == (plan == "as-written")
