"""The options of runs and engines: one table for Python and the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, get_args

from anabranch.errors import PlanError
from anabranch.kernels.plan.compile import Emission
from anabranch.runtime.option import (
    DURATION,
    FLAG,
    FUNCTION,
    LAST_PORT,
    MODULES,
    MOST_CORES,
    MOST_SHARDS,
    NAME,
    PATH,
    SETTINGS,
    Option,
    UnfitError,
    ValueKind,
    check_all,
    count,
    table_of,
    word,
)
from anabranch.runtime.sinks.message_sink import Messages
from anabranch.runtime.sources.spec import Promise

PlanChoice = Literal["optimized", "as-written"]
"""Whether the optimiser chooses the plan, or operators run in the order they were written in."""

RevisionResponse = Literal["ignore", "archive", "emit"]
"""What a revision of a source leads to: it is counted; it corrects the archive; or results, too."""

ReplayChoice = Literal["auto", "RA", "RM", "RW"]
"""What is read again to correct settled results.

RA: everything in the archive. RM: what the lineage of the results names. RW: what windows and
lifetimes of the plan reach. `auto` chooses by cost.
"""

_STARTS: Final = frozenset({"start", "start_all", "run_local", "to_df"})
_ON_SPARK: Final = _STARTS - {"run_local"}


def _target(value: Any) -> Any:
    return value if isinstance(value, Messages) else PATH.check(value)


def _session(value: Any) -> Any:
    if not hasattr(value, "readStream"):
        raise UnfitError
    return value


def _reoptimize(value: Any) -> Any:
    # What it looks like: the settings are those of a layer above.
    if value in ("off", "auto") or all(hasattr(value, name) for name in ("factor", "batches")):
        return value
    raise UnfitError


TARGET: Final = ValueKind(
    "a path, an address such as 'delta:path', or Messages", "'folder'", _target
)
SESSION: Final = ValueKind("a Spark session", "spark", _session)
REOPTIMIZE: Final = ValueKind("'off', 'auto', or Reoptimize", "'auto'", _reoptimize)

REOPTIMIZE_FLAG: Final = Option(
    name="reoptimize", kind=word("off", "auto"), default="off", nullable=False, flag="--reoptimize"
)
"""Of the command line, and of processes that are started by it."""

RUN_OPTIONS: Final = table_of(
    Option(name="to", kind=TARGET, applies_to=_STARTS - {"to_df"}, flag="--to"),
    Option(name="foreach", kind=FUNCTION, applies_to=frozenset({"start", "run_local"})),
    Option(
        name="emit",
        kind=word(*get_args(Emission)),
        default="speculative",
        nullable=False,
        applies_to=_STARTS | {"explain"},
        flag="--emit",
    ),
    Option(name="checkpoint", kind=PATH, applies_to=_ON_SPARK, flag="--checkpoint", local=False),
    Option(
        name="trigger",
        kind=DURATION,
        applies_to=_ON_SPARK - {"to_df"},
        flag="--trigger",
        local=False,
    ),
    Option(
        name="available_now",
        kind=FLAG,
        default=False,
        nullable=False,
        applies_to=_ON_SPARK - {"to_df"},
        flag="--follow",
        local=False,
    ),
    Option(
        name="allow_unbounded",
        kind=FLAG,
        default=False,
        nullable=False,
        applies_to=_STARTS,
        flag="--allow-unbounded",
    ),
    Option(
        name="share",
        kind=FLAG,
        default=True,
        nullable=False,
        applies_to=frozenset({"start", "explain"}),
        local=False,
    ),
    Option(
        name="plan",
        kind=word(*get_args(PlanChoice)),
        default="optimized",
        nullable=False,
        applies_to=_STARTS | {"explain"},
        flag="--plan",
    ),
    Option(
        name="revisions",
        kind=word(*get_args(RevisionResponse)),
        default="emit",
        nullable=False,
        applies_to=_STARTS - {"to_df"},
        flag="--revisions",
    ),
    Option(
        name="replay",
        kind=word(*get_args(ReplayChoice)),
        default="auto",
        nullable=False,
        applies_to=_STARTS - {"to_df"},
        flag="--replay",
    ),
    Option(
        name="estimate",
        kind=DURATION,
        applies_to=frozenset({"start"}),
        flag="--estimate",
        local=False,
    ),
    Option(
        name="changed",
        kind=FLAG,
        default=False,
        nullable=False,
        applies_to=frozenset({"start_all"}),
        flag="--changed",
        local=False,
    ),
    Option(
        name="rejoin",
        kind=FLAG,
        default=False,
        nullable=False,
        applies_to=frozenset({"start_all"}),
        local=False,
    ),
    Option(name="spark", kind=SESSION, applies_to=frozenset({"Engine"}), local=False),
    Option(
        name="shards",
        kind=count(1, MOST_SHARDS),
        applies_to=frozenset({"Engine"}),
        flag="--shards",
        local=False,
    ),
    Option(name="cores", kind=count(1, MOST_CORES), applies_to=frozenset({"Engine"}), local=False),
    Option(name="settings", kind=SETTINGS, applies_to=frozenset({"Engine"}), local=False),
    Option(
        name="versions",
        kind=count(2, 1_000_000),
        default=None,
        nullable=False,
        applies_to=frozenset({"Engine"}),
        local=False,
    ),
    Option(name="modules", kind=MODULES, applies_to=frozenset({"Engine"})),
    Option(
        name="reoptimize",
        kind=REOPTIMIZE,
        default="off",
        nullable=False,
        applies_to=frozenset({"Engine"}),
        flag="--reoptimize",
        local=False,
    ),
    Option(
        name="port",
        kind=count(0, LAST_PORT),
        default=0,
        nullable=False,
        applies_to=frozenset({"serve_metrics"}),
        flag="--metrics-port",
        local=False,
    ),
    Option(
        name="host", kind=NAME, nullable=False, applies_to=frozenset({"serve_metrics"}), local=False
    ),
)
"""All options of `Engine`, `start`, `start_all`, `run_local`, `to_df` and `explain`."""


def check_run(caller: str, **given: Any) -> None:
    """Check the options of one of the functions that start something.

    Raises:
        PlanError: A value is not what its option takes, or two of them contradict each other.
    """
    where = f"{caller}(...)"
    check_all(RUN_OPTIONS, given, where=where)
    if given.get("available_now") and given.get("trigger") is not None:
        raise PlanError(
            "trigger has no meaning with available_now",
            where=where,
            hint="available_now reads the present input at once; leave out one of the two",
        )


def refuse_without_revisions(
    caller: str,
    promises: Iterable[Promise],
    *,
    revisions: str,
    replay: str,
    estimate: Any = None,
) -> None:
    """Refuse options about revisions that mean nothing for the sources of a query.

    Raises:
        PlanError: No source of the query has revisions, or they replay nothing.
    """
    given = {"revisions": revisions, "replay": replay, "estimate": estimate}
    odd = [name for name, value in given.items() if value != RUN_OPTIONS[name].default]
    where = f"{caller}(...)"
    if odd and all(promise.late != "revise" for promise in promises):
        raise PlanError(
            f"{odd[0]} has no meaning for sources without revisions",
            where=f"{where}: no source of the query is declared LATE REVISE",
            hint=f"leave {odd[0]} out, or declare a source with LATE REVISE (late='revise')",
        )
    idle = [name for name in odd if name != "revisions"]
    if idle and revisions != "emit":
        raise PlanError(
            f"{idle[0]} has no meaning with revisions='{revisions}'",
            where=where,
            hint=f"leave {idle[0]} out, or set revisions='emit': only then results are corrected",
        )


def check_flags(given: Mapping[str, Any]) -> None:
    """Check what the command line says; None is not said.

    Raises:
        PlanError: A value is not what its option takes.
    """
    by_flag = {option.flag: option for option in RUN_OPTIONS.values() if option.flag is not None}
    # Its settings are for Python.
    by_flag["--reoptimize"] = REOPTIMIZE_FLAG
    for flag, value in given.items():
        if value is None:
            continue
        option = by_flag[flag]
        try:
            option.checked(value, where=f"option {flag}")
        except PlanError as problem:
            problem.what = problem.what.replace(option.name, flag, 1)
            problem.hint = problem.hint.replace(f"{option.name}=", f"{flag} ")
            raise


def check_engine(**given: Any) -> None:
    """Check the options of an engine.

    Raises:
        PlanError: A value is not what its option takes, or is for a session of our own only.
    """
    check_run("Engine", **given)
    if given["spark"] is None:
        return
    own: Mapping[str, Any] = {name: given[name] for name in ("cores", "settings")}
    for name, value in own.items():
        if value is not None:
            raise PlanError(
                f"{name} has no meaning for an existing Spark session",
                where="Engine(...)",
                hint=f"leave {name} out, and set it where the session is created",
            )
