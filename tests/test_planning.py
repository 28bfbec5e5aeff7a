"""What is explained is what is started, by every way to start a query, optimised or as written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.engine import Engine, Stream
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.plan.explain import explain_stages
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.logical import LogicalStream
from anabranch.planning import plan_queries
from anabranch.runtime.query.options import PlanChoice
from anabranch.runtime.query.start import Work
from anabranch.runtime.sources.declare.shared_results import publish
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.query_record import QueryRecord, write_query_record
from anabranch.testing.sql.cases import SOURCES, SqlCase, cases

EMISSIONS: Final[tuple[Emission, ...]] = ("speculative", "final", "watermark")
PLANS: Final[tuple[PlanChoice, ...]] = ("optimized", "as-written")

SCRIPT: Final = """
CREATE STREAM Bid (itemID INT, price DOUBLE, at BIGINT) SOURCE 'bids.csv'
  ORDERED BY at WITH (ends = TRUE);
CREATE TABLE Item (id INT, name STRING) SOURCE 'items.csv';
"""
QUERIES: Final[Mapping[str, str]] = {
    "a filter": "SELECT itemID FROM Bid WHERE price > 10",
    "a window": "SELECT itemID, MAX(price) AS m FROM Bid WINDOW(RANGE 10) GROUP BY itemID",
    "a table": "SELECT name, price FROM Bid JOIN Item ON itemID = id",
    "a filter above a table": "SELECT name, COUNT(*) AS n FROM Bid WINDOW(RANGE 5) JOIN Item "
    "ON itemID = id WHERE price > 10 AND name <> 'x' GROUP BY name",
    "windows of the axis": "SELECT COUNT(*) AS n FROM Bid GROUP BY TUMBLING(5)",
}
CASES: Final = [
    (name, emit)
    for name in QUERIES
    for emit in EMISSIONS
    if emit != "watermark" or name == "windows of the axis"
]


class Started:
    """Stands in for Spark: notes the plans that are started, and starts nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plans: list[PhysicalPlan] = []
        monkeypatch.setattr("anabranch.runtime.query.start.start_query", self._start)
        monkeypatch.setattr("anabranch.runtime.query.start.stream_rows", self._frame)
        monkeypatch.setattr("anabranch.changing.let_change", lambda *_, **__: None)
        monkeypatch.setattr("anabranch.stream.run_locally", self._locally)
        for name in ("parallelism", "rows_per_task"):
            monkeypatch.setattr(f"anabranch.runtime.spark.session.{name}", lambda _: 2)

    def _start(self, spark: Any, work: Work, sinks: list[Any], **options: Any) -> list[Any]:
        del spark, options
        self.plans.append(work.plan)
        return [
            SimpleNamespace(
                log_folder=None,
                name="",
                has_left=False,
                status="finished",
                stop=lambda force=False: None,
            )
            for _ in sinks
        ]

    def _frame(self, spark: Any, work: Work, **options: Any) -> tuple[Any, Any]:
        del spark, options
        self.plans.append(work.plan)
        return None, SimpleNamespace(close=lambda: None)

    def _locally(self, plan: PhysicalPlan, *given: Any, **options: Any) -> None:
        del given, options
        self.plans.append(plan)

    def all_of(self, engine: Engine, query: Stream, **options: Any) -> list[PhysicalPlan]:
        """The plans of a query, started in every way."""
        self.plans.clear()
        query.start("memory", allow_unbounded=True, **options)
        query.run_local(allow_unbounded=True, **options)
        query.to_df(allow_unbounded=True, **options)
        engine.start_all([query], ["memory"], allow_unbounded=True, **options)
        return list(self.plans)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


def spark_that_starts_nothing() -> SimpleNamespace:
    """A session with the settings that a start asks for, all of them as usual."""
    conf = SimpleNamespace(get=lambda _, usual: usual)
    return SimpleNamespace(readStream=None, conf=conf, stop=lambda force=False: None)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.chdir(tmp_path)
    rows = [f"{n % 3},{n * 7 % 40},{n}" for n in range(30)]
    Path("bids.csv").write_text("\n".join(["itemID,price,at", *rows]) + "\n")
    Path("items.csv").write_text("id,name\n0,a\n1,b\n2,x\n")
    with Engine(spark_that_starts_nothing()) as made:
        made.sql(SCRIPT)
        yield made


def assert_explained(query: Stream, plans: list[PhysicalPlan], **options: Any) -> None:
    """What `explain` says are the stages of the plans, and these are the same one."""
    said = query.explain(**options)
    told = query.explain_json(**options)["stages"]
    for plan in plans:
        assert explain_stages(plan) in said
        assert [stage["name"] for stage in told] == [stage.name for stage in plan.stages]
        kernels = [[kernel.label for kernel in stage.kernels] for stage in plan.stages]
        assert [[each["label"] for each in stage["kernels"]] for stage in told] == kernels
    assert len({plan_fingerprint(plan) for plan in plans}) == 1


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("name", "emit"), CASES)
def test_every_way_to_start_a_query_starts_the_plan_that_is_explained(
    engine: Engine, started: Started, name: str, plan: PlanChoice, emit: Emission
) -> None:
    query = engine.sql(QUERIES[name])
    plans = started.all_of(engine, query, plan=plan, emit=emit)
    assert len(plans) == 4
    assert_explained(query, plans, plan=plan, emit=emit)
    assert plan_fingerprint(plan_queries([query], plan=plan, emit=emit).physical) == (
        plan_fingerprint(plans[0])
    )


@pytest.fixture(scope="module")
def drawn_sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FileSource]:
    """A file for each source of drawn queries; nobody reads it."""
    folder, found = tmp_path_factory.mktemp("drawn"), dict[str, FileSource]()
    for source in SOURCES.values():
        path = folder / f"{source.name}.jsonl"
        path.write_text('{"stable": 0}\n')
        stream = Engine().stream(path, name=source.name, schema=source.schema)
        found[source.name] = stream.sources[source.name]
    return found


def drawn_query(case: SqlCase, sources: Mapping[str, FileSource]) -> tuple[Engine, Stream]:
    engine = Engine(spark_that_starts_nothing())
    for source in SOURCES.values():
        engine._registry.add_leaf(source, sources[source.name], hidden=("at",))
    return engine, engine.sql(case.script.text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases(), plan=st.sampled_from(PLANS), emit=st.sampled_from(EMISSIONS))
def test_so_it_is_for_drawn_queries(
    started: Started,
    drawn_sources: Mapping[str, FileSource],
    case: SqlCase,
    plan: PlanChoice,
    emit: Emission,
) -> None:
    engine, query = drawn_query(case, drawn_sources)
    try:
        query.explain(plan=plan, emit=emit)
    except ab.PlanError as problem:
        # What cannot be explained cannot be started, for the same reason.
        with pytest.raises(ab.PlanError, match=re.escape(problem.what)):
            started.all_of(engine, query, plan=plan, emit=emit)
        return
    plans = started.all_of(engine, query, plan=plan, emit=emit)
    assert_explained(query, plans, plan=plan, emit=emit)


@given(case=cases(), emit=st.sampled_from(["speculative", "final"]))
def test_both_plans_of_a_drawn_query_give_one_answer(
    drawn_sources: Mapping[str, FileSource], case: SqlCase, emit: Emission
) -> None:
    _, query = drawn_query(case, drawn_sources)
    answers = []
    for plan in PLANS:
        runner = LocalRunner(plan_queries([query], plan=plan, emit=emit).physical)
        answers.append(LogicalStream.of_batches([runner.step(step) for step in case.steps]))
    assert answers[0].difference(answers[1]) == ""


@pytest.mark.parametrize(("name", "emit"), CASES)
def test_both_plans_give_one_answer(engine: Engine, name: str, emit: Emission) -> None:
    query = engine.sql(QUERIES[name])
    runs = [query.run_local(plan=plan, emit=emit) for plan in PLANS]
    one, other = (
        LogicalStream.of_batches(run._sink.batches())  # the elements, as the sink has them
        for run in runs
    )
    assert one.difference(other) == ""
    assert runs[0].stable == runs[1].stable


def test_a_plan_as_written_shows_the_text_and_no_rules(engine: Engine) -> None:
    query = engine.sql(QUERIES["a filter above a table"])
    written, best = query.explain_json(plan="as-written"), query.explain_json()
    assert written["rules"] == []
    assert written["plan"] == written["query"] == best["query"]
    assert best["rules"]
    assert best["plan"] != written["plan"]
    text = query.explain(plan="as-written")
    assert text.startswith("Plan\n")
    assert "Rules" not in text


def test_all_queries_together_start_the_plan_that_is_explained(
    engine: Engine, started: Started
) -> None:
    queries = [engine.sql(text) for text in QUERIES.values()]
    for plan in PLANS:
        started.plans.clear()
        engine.start_all(queries, ["memory"] * len(queries), plan=plan)
        names = [str(query.name) for query in queries]
        assert engine.explain_all(queries, plan=plan) == explain_stages(started.plans[0], names)


def test_results_that_others_publish_are_read_and_explained(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.sql(QUERIES["a window"]).run_local("out")
    started = Started(monkeypatch)
    below = engine.sql(QUERIES["a window"])
    published = [publish(below.node, "other", "out")]
    query = below.where("m > 3")
    monkeypatch.setattr("anabranch.runs.Runs.published", lambda _: published)
    query.start("memory")
    assert_explained(query, started.plans)
    assert list(started.plans[0].sources) == ["results of other"]
    told = query.explain_json()
    assert told["rules"][0]["rule"] == "read_published_results"
    started.plans.clear()
    query.start("memory", share=False)
    query.run_local()
    assert_explained(query, started.plans, share=False)
    assert list(started.plans[0].sources) == ["Bid"]


def resumed_plan(query: Stream, plan: PhysicalPlan) -> PhysicalPlan:
    """The plan of a query whose checkpoint was written by another plan, while others publish."""
    Path("home").mkdir(exist_ok=True)
    about = QueryRecord(plan=plan_fingerprint(plan), query="q", shards=1, routed=True)
    write_query_record(Folder.at("home"), about)
    others = [publish(query.node, "other", "out")]
    return plan_queries([query], checkpoint="home", published=others).physical


def test_a_copy_does_not_read_what_another_copy_publishes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = engine.sql(QUERIES["a window"]).canonical()
    released = engine.sql(QUERIES["a window"]).canonical().cleanse(cut=False)
    plain = engine.sql(QUERIES["a filter"]).canonical()
    for number, query in enumerate((copy, released, plain)):
        query.run_local(f"out{number}")
    started = Started(monkeypatch)
    for number, query in enumerate((copy, released, plain)):
        published = [publish(query.node, "other", f"out{number}")]
        monkeypatch.setattr("anabranch.runs.Runs.published", lambda _, found=published: found)
        query.start("memory")
        assert_explained(query, started.plans)
        assert list(started.plans.pop().sources) == ["Bid"]
    # Other queries go on sharing, also what a copy writes.
    published = [publish(copy.node, "other", "out0")]
    above = engine.sql(QUERIES["a window"]).coalesce().where("m > 3")
    assert list(plan_queries([above], published=published).physical.sources) == ["results of other"]


def test_a_query_resumes_with_the_plan_of_its_checkpoint_whether_that_shared_or_not(
    engine: Engine,
) -> None:
    query = engine.sql(QUERIES["a window"])
    query.run_local("out")
    alone = plan_queries([query]).physical
    shared = plan_queries([query], published=[publish(query.node, "other", "out")]).physical
    assert list(shared.sources) == ["results of other"]
    assert plan_fingerprint(resumed_plan(query, alone)) == plan_fingerprint(alone)
    assert plan_fingerprint(resumed_plan(query, shared)) == plan_fingerprint(shared)
    written = plan_queries([query], plan="as-written")
    both = [publish(query.node, "other", "out")]
    resumed_plan(query, written.physical)
    again = plan_queries([query], plan="as-written", checkpoint="home", published=both)
    assert plan_fingerprint(again.physical) == plan_fingerprint(written.physical)


def test_results_over_a_source_with_an_archive_are_computed_anew(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quotes.jsonl").write_text('{"price": 5, "at": 1}\n')
    stream = engine.stream(tmp_path / "quotes.jsonl", name="Quote", start="at", late="revise")
    stream.run_local(tmp_path / "published")
    published = [publish(stream.node, "other", str(tmp_path / "published"))]
    monkeypatch.setattr("anabranch.runs.Runs.published", lambda _: published)
    told = stream.where("price > 3").explain_json()
    assert [rule["rule"] for rule in told["rules"]] == []
    plain = engine.stream(tmp_path / "quotes.jsonl", name="Quote2", start="at")
    published[:] = [publish(plain.node, "other", str(tmp_path / "published"))]
    told = plain.where("price > 3").explain_json()
    assert told["rules"][0]["rule"] == "read_published_results"


def test_a_query_that_cannot_be_started_can_be_explained(engine: Engine, started: Started) -> None:
    query = engine.sql("SELECT COUNT(*) AS n FROM Bid WINDOW(RANGE UNBOUNDED)")
    planned = plan_queries([query])
    [refusal] = planned.refusals()
    assert planned.refusals(allow_unbounded=True) == ()
    assert "Stage 0" in query.explain()
    for start in (query.start, query.run_local, query.to_df):
        with pytest.raises(ab.PlanError, match="unbounded window") as raised:
            start()
        assert (raised.value.where, raised.value.hint) == (refusal.where, refusal.hint)
    assert started.plans == []


def test_a_query_that_resumes_keeps_its_lookup_tables(engine: Engine) -> None:
    query = engine.sql(QUERIES["a table"])
    assert list(plan_queries([query]).tables) == ["Item"]
    Path("home").mkdir()
    Path("home/query.json").write_text('{"format": 4, "query": "q", "shards": 1}')
    resumed = plan_queries([query], checkpoint="home")
    assert dict(resumed.tables) == {}
    assert list(resumed.physical.sources) == ["Bid", "Item"]
