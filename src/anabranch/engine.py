"""The facade: streams, queries over them, and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from anabranch.adapt.decision import Reoptimize
from anabranch.algebra.modules.user_operator import Template
from anabranch.as_of import OtherTime
from anabranch.declaring import Declares
from anabranch.display.option_hints import explains_options
from anabranch.errors import PlanError
from anabranch.expressions.scalar_function import ScalarFunction
from anabranch.grouped import GroupedStream
from anabranch.host import Host
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.plan.explain import explain_stages
from anabranch.language.text.statements import (
    AddQuery,
    AlterQuery,
    CreateDerived,
    CreateFunction,
    CreateSource,
    Describe,
    Drop,
    DropQuery,
    Explain,
    Select,
    Show,
    Statement,
)
from anabranch.launch import QueryOutput, start_planned
from anabranch.migrate.operators import same_function
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.planning import plan_queries
from anabranch.reading import read_statements
from anabranch.rebinding import BoundQuery
from anabranch.registry import Registry
from anabranch.rejoining import GroupMember, members_now
from anabranch.runtime.option import FUNCTION, NAME, Option, shown
from anabranch.runtime.query.local import LocalRun
from anabranch.runtime.query.options import (
    PlanChoice,
    ReplayChoice,
    RevisionResponse,
    check_engine,
    check_run,
)
from anabranch.runtime.sinks.choice import choose_sink
from anabranch.runtime.spark.source_functions import Connect, connect, describe_source
from anabranch.runtime.store.state_store import KEEP
from anabranch.stream import Query, Stream
from anabranch.targets import PathText, Target, targets_of, unlike
from anabranch.travel import knowledge_point
from anabranch.userops.operator_files import operators_in
from anabranch.windowed import Span

if TYPE_CHECKING:
    from anabranch.migrate.migration import Migration
    from anabranch.runtime.query.run import Run
    from anabranch.runtime.store.migrations import How

__all__ = ["Engine", "GroupedStream", "LocalRun", "Query", "Stream"]

NAME_OF_FUNCTION: Final = Option(name="name", kind=NAME, nullable=False)
FUNCTION_OF_USER: Final = Option(name="function", kind=FUNCTION, nullable=False)


@explains_options
class Engine(Declares):
    """Makes streams from files and DataFrames, and runs queries over them on Spark.

    Spark starts when it is first needed. As a context manager the engine stops, at the end of the
    block, the runs and the Spark that it has started.
    """

    def __init__(
        self,
        spark: Any = None,
        *,
        shards: int | None = None,
        cores: int | None = None,
        settings: Mapping[str, str] | None = None,
        versions: int = KEEP,
        modules: Mapping[str, Template] | None = None,
        reoptimize: Literal["off", "auto"] | Reoptimize = "off",
    ) -> None:
        """Prepare an engine.

        Args:
            spark: A session to use; None starts one in this process when it is needed.
            shards: Into how many shards keyed state is cut; as many tasks can work on it. A query
                that began with another number gets this one when it is started. None: one per
                core, and a query that has begun keeps the number that it has.
            cores: How many cores a session of our own uses; None: all, at most 8.
            settings: More settings for a session of our own.
            versions: How many versions of its state a query keeps: after so many batches what is
                not needed any more is removed.
            modules: The modules that queries can call by name; None: those that are installed.
            reoptimize: `auto`: queries change their plans by themselves while they run, when what
                they measure says that another plan has been much cheaper for a while; a
                `Reoptimize` says how much and how long. `off`: a plan stays as it is.
        """
        check_engine(
            spark=spark,
            shards=shards,
            cores=cores,
            settings=settings,
            versions=versions,
            modules=modules,
            reoptimize=reoptimize,
        )
        self._cores = cores
        self._settings = dict(settings or {})
        self._registry = Registry(modules)
        self._handed_in: dict[str, ScalarFunction] = {}
        self._host = Host(
            start_spark=self._start_spark,
            sql=self.sql,
            read_apart=self._read_apart,
            modules=self._registry.modules,
            session=spark,
            shards=shards,
            versions=versions,
            reoptimize=Reoptimize.of(reoptimize),
        )
        # One object for all expressions: they are cached by it.
        self._types = self._spark_type

    def __repr__(self) -> str:
        names = ", ".join(entry.name for entry in self._registry.catalog.entries.values())
        spark = "not started" if self._host.session is None else "running"
        return f"<Engine; {names or 'no streams'}; {len(self._host.runs.each)} runs; Spark {spark}>"

    @property
    def spark(self) -> Any:
        """The Spark session."""
        return self._host.spark

    def _start_spark(self) -> Any:
        """A session of our own, or the one that this process has."""
        from anabranch.runtime.spark.session import local_session

        return local_session(self._cores, self._settings)

    def sql(self, text: str, *, name: str | None = None) -> Any:
        """Run the statements of a script, and return the result of the last one.

        Args:
            text: Statements, separated by semicolons.
            name: The path of the script, for messages and for paths in it.

        Returns:
            For a query or a derived stream a `Stream`; for SHOW, DESCRIBE and EXPLAIN a table; for
            all others None.

        Raises:
            QueryError: A statement is wrong; the message shows its position.
        """
        result = None
        for statement in read_statements(text, name):
            result = self._execute(statement)
        return result

    def script(self, text: str, *, name: str | None = None) -> list[Stream]:
        """Run the statements of a script and return all its queries, in order."""
        queries = []
        for statement in read_statements(text, name):
            result = self._execute(statement)
            if isinstance(statement, Select):
                queries.append(result)
        return queries

    def as_of(self, *, known: Any = None, at: Any = None) -> OtherTime:
        """Ask as of another time: `engine.as_of(known=3).sql("SELECT ... FROM Quote")`.

        Args:
            known: What of the archives counts: the number of a correction, as `anabranch revisions`
                lists them (0: before any), or a time of day, an ISO timestamp (UTC) or a datetime:
                what had come by then. Streams need an archive in a folder (`ARCHIVE 'path'`);
                relations are read as they are. None: what is known now.
            at: An instant of the answer. Queries then return the snapshot at this instant as an
                Arrow table, computed in this process. None: they return a `Stream`.

        Raises:
            PlanError: `known` is neither.
        """
        point = None if known is None else knowledge_point(known)
        return OtherTime(plan=self.sql, known=point, at=at)

    def register_source(self, name: str, function: Connect) -> None:
        """Let `SOURCE name(...)` call a function that returns a path or a DataFrame."""
        NAME_OF_FUNCTION.checked(name, where="register_source(...)")
        FUNCTION_OF_USER.checked(function, where=f"register_source('{name}', ...)")
        self._registry.connectors[name.lower()] = function

    def register(
        self,
        module: Template | ScalarFunction | Any,
        name: str | None = None,
        *,
        replace: bool = False,
    ) -> None:
        """Let queries of this engine call a module or a function by its name.

        Existing streams can call it, too. Running queries keep the module that they began with.

        Args:
            module: The result of `@uda`, `@udo` or `@udf`, or a class derived from `Aggregate`,
                `Operator` and so on.
            name: Its name in queries; case does not matter. None: its own name.
            replace: Replace an existing one of this name.

        Raises:
            PlanError: It is not a module, or the name is taken or not valid.
        """
        self._registry.register(module, name, replace=replace)

    def register_file(self, path: str | Path, *, replace: bool = False) -> None:
        """Let queries of this engine call all modules and functions of a Python file.

        Args:
            path: The file, with results of `@uda`, `@udo` and `@udf` and classes derived from
                `Aggregate`, `Operator` and so on.
            replace: Replace existing ones of the same names.

        Raises:
            OperatorError: The file cannot be read or run, or has no modules.
            PlanError: A name is taken.
        """
        for each in operators_in(path):
            self._registry.register(each, replace=replace)

    @property
    def modules(self) -> Mapping[str, Template]:
        """The modules that queries can call, by name in small letters."""
        return self._registry.modules

    def _read_apart(self, text: str, name: str | None, modules: Sequence[str] = ()) -> list[Stream]:
        """The queries of a script, with streams of its own, which this engine does not get.

        What the Python files of `modules` have counts before what has the same name here.
        """
        apart = Engine(self.spark, modules=self._registry.modules)
        apart._registry.connectors.update(self._registry.connectors)
        for function in self._registry.scalars.values():
            apart.register(function, replace=True)
        for each in chain.from_iterable(map(operators_in, modules)):
            # Read again, it is still the function that others call, and shares what they compute.
            known = {**self._handed_in, **self._registry.scalars}
            now = same_function(each, known) if isinstance(each, ScalarFunction) else each
            if isinstance(now, ScalarFunction):
                self._handed_in[now.name] = now
            apart.register(now, replace=True)
        return apart.script(text, name=name)

    def _execute(self, statement: Statement) -> Any:
        names = self._registry
        match statement:
            case CreateSource():
                source = connect(statement, names.connectors, lambda: self.spark)
                names.declare(statement, lambda declared: describe_source(source, declared))
                return None
            case CreateDerived():
                planned = self._plan(statement)
                names.derive(statement, planned, lambda: self._plan(statement))
                return self._planned(planned, statement.name)
            case CreateFunction():
                return names.define(statement)
            case Drop():
                return names.drop(statement, self._host.runs.uses())
            case AlterQuery():
                run = self._host.runs.named(statement.name, statement.script, statement.span)
                changed = self._planned(self._plan(statement), statement.name)
                return run.migrate(changed).await_switched().table()
            case AddQuery():
                beside = self._host.runs.only_group(statement.script, statement.span)
                joins = self._planned(self._plan(statement), statement.name)
                added = beside.add(joins, statement.to, name=statement.name)
                return added.joined.table()
            case DropQuery():
                return self._host.runs.named(
                    statement.name, statement.script, statement.span
                ).leave()
            case Show(what="QUERIES"):
                return self._host.runs.shown()
            case Show():
                return names.show(statement)
            case Describe():
                return names.describe(statement)
            case Explain():
                query = self._planned(self._plan(statement), None)
                return pa.table({"plan": [query.explain()]})
            case Select():
                return self._planned(self._plan(statement), self._host.runs.next_name())

    def _plan(
        self, statement: CreateDerived | Explain | Select | AlterQuery | AddQuery
    ) -> BoundQuery:
        start, end = statement.span
        text = statement.script.text[start:end]
        return self._registry.plan(statement.query, statement.script, text, self._types)

    def _spark_type(self, text: str, schema: pa.Schema) -> pa.DataType:
        """The type that Spark gives an expression which workers cannot evaluate."""
        from anabranch.runtime.spark.spark_types import spark_type

        return spark_type(self.spark)(text, schema)

    def _planned(self, planned: BoundQuery, name: str | None) -> Stream:
        return Stream(
            host=self._host,
            node=planned.node,
            sources=self._registry.sources_of(planned.node),
            name=name,
            remarks=planned.notes,
            uses=planned.uses,
            functions=self._registry.scalars,
        )

    def start_all(
        self,
        queries: Sequence[Stream],
        to: PathText | Sequence[Target],
        *,
        emit: Emission = "speculative",
        checkpoint: PathText | None = None,
        trigger: Span | None = None,
        available_now: bool = False,
        allow_unbounded: bool = False,
        changed: bool = False,
        rejoin: bool = False,
        plan: PlanChoice = "optimized",
        revisions: RevisionResponse = "emit",
        replay: ReplayChoice = "auto",
    ) -> list[Run]:
        """Run several queries as one query of Spark; what they have in common runs once.

        They share every batch and one checkpoint, and so they stop and resume together.

        Args:
            queries: The queries, as `script` returns them.
            to: A folder, where every query writes a log folder under its own name; or a list with
                an output for each, as for `Stream.start`.
            emit: As for `Stream.start`, like all that follow.
            checkpoint: The folder for their state; None: `_checkpoint` in the folder, or beside
                the first of several outputs.
            trigger: The time between two batches.
            available_now: Process the present input, then end.
            allow_unbounded: Accept unbounded windows.
            changed: The queries may differ from those of the checkpoint. Queries that are the same
                resume; new ones begin with the next batch, and must be over sources that are
                never corrected, or that are also new.
            rejoin: Start the queries that the group has now: also those that have joined it by
                `anabranch add`, and not those that have left. There is a run for each of them.
            plan: As for `Stream.start`.
            revisions: As for `Stream.start`.
            replay: As for `Stream.start`.

        Raises:
            PlanError: There are no queries, or not as many outputs; or a new query would need
                earlier rows.
        """
        check_run(
            "start_all",
            emit=emit,
            checkpoint=checkpoint,
            trigger=trigger,
            available_now=available_now,
            allow_unbounded=allow_unbounded,
            changed=changed,
            rejoin=rejoin,
            plan=plan,
            revisions=revisions,
            replay=replay,
        )
        _refuse_other_than_queries(queries)
        names = unlike([query.name for query in queries])
        targets, folder = targets_of(names, to)
        besides = [choose_sink(target, None)[1] for target in targets]
        folder = folder or next((beside for beside in besides if beside is not None), None)
        home = folder if checkpoint is None else str(checkpoint)
        plan_all = partial(plan_queries, emit=emit, plan=plan, checkpoint=home)
        members = [
            GroupMember(name=name, query=query, to=target)
            for name, query, target in zip(names, queries, targets, strict=True)
        ]
        if rejoin:
            members = members_now(members, home, self._read_apart, plan_all)
        queries = [member.query for member in members]
        return start_planned(
            self._host,
            plan_all(queries, nearby=self._measured(queries)),
            [
                QueryOutput(
                    name=each.name, uses=each.query.uses, make_sink=choose_sink(each.to, None)[0]
                )
                for each in members
            ],
            checkpoint=home,
            trigger=trigger,
            available_now=available_now,
            allow_unbounded=allow_unbounded,
            changed=changed,
            revisions=revisions,
            replay=replay,
            caller="start_all",
            asked=queries,
            plan_all=plan_all,
        )

    def migrate_all(
        self,
        runs: Sequence[Run],
        queries: Sequence[Stream | str] | None = None,
        *,
        how: How = "auto",
        at: Any = None,
    ) -> Migration:
        """Change several queries that run together, all from the same instant T on.

        As `Run.migrate` does for one; what the new queries have in common runs once.

        Args:
            runs: The runs, of one `start_all`.
            queries: What each of them becomes. None: the same, by the plans that the optimizer
                chooses now.
            how: As for `Run.migrate`.
            at: As for `Run.migrate`.

        Raises:
            PlanError: They do not run together, or cannot change to these.
        """
        from anabranch.changing import migrate_all

        return migrate_all(runs, queries, how=how, at=at)

    def explain_all(
        self,
        queries: Sequence[Stream],
        *,
        emit: Emission = "speculative",
        plan: PlanChoice = "optimized",
    ) -> str:
        """The stages in which queries run when they are started together."""
        check_run("explain_all", emit=emit, plan=plan)
        _refuse_other_than_queries(queries)
        nearby = self._measured(queries)
        planned = plan_queries(queries, emit=emit, plan=plan, nearby=nearby)
        return explain_stages(planned.physical, unlike([query.name for query in queries]))

    def _measured(self, queries: Sequence[Stream]) -> PlanStatistics | None:
        """What queries that run have measured of the sources of others."""
        sources = {name: each for query in queries for name, each in query.sources.items()}
        return self._host.runs.measured(sources)

    def serve_metrics(self, port: int = 0, *, host: str = "127.0.0.1") -> int:
        """Serve the metrics of all runs for Prometheus, at `/metrics`, until the engine stops.

        Returns the port; port 0 chooses a free one.
        """
        check_run("serve_metrics", port=port, host=host)
        from anabranch.runtime.query.prometheus import serve_metrics

        port, close = serve_metrics(lambda: self._host.runs.each, port, host)
        self._host.closing.append(close)
        return port

    def stop(self) -> None:
        """Stop the runs and the Spark that this engine has started."""
        self._host.stop()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _refuse_other_than_queries(queries: Any) -> None:
    """Several queries are started, or explained, together: a list of them."""
    if isinstance(queries, Sequence) and all(isinstance(each, Stream) for each in queries):
        return
    raise PlanError(
        f"queries must be a list of queries, not {shown(queries)}",
        where="start_all(...)",
        hint="pass the results of engine.sql or engine.script: [first, second]",
    )
