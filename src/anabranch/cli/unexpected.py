"""Unforeseen exceptions as errors in three parts."""

from __future__ import annotations

from anabranch.errors import AnabranchError, EngineError, PlanError, StreamError

_LONGEST = 300


def as_anabranch_error(problem: Exception) -> AnabranchError:
    """An exception as an error for people: what happened, where, and how to see more.

    Files that cannot be opened, packages that are missing and what Spark refuses are no bugs.
    """
    if isinstance(problem, AnabranchError):
        return problem
    name = type(problem).__name__
    first = (str(problem).strip().splitlines() or [""])[0][:_LONGEST]
    if isinstance(problem, OSError) and problem.filename is not None:
        return StreamError(
            f"cannot open it: {problem.strerror or name}",
            where=str(problem.filename),
            hint="check the path and its permissions; anabranch --debug shows the traceback",
        )
    if isinstance(problem, ImportError):
        return PlanError(
            f"a package is missing: {problem.name or first}",
            where=first,
            hint="install it beside anabranch; anabranch --debug shows the traceback",
        )
    if type(problem).__module__.startswith(("pyspark", "py4j")):
        return StreamError(
            "Spark rejects the request",
            where=f"{name}: {first}",
            hint="correct the query or its settings; anabranch --debug shows the traceback",
        )
    return EngineError(
        f"an unexpected error occurred: {name}",
        where=first or name,
        hint="anabranch --debug (or ANABRANCH_DEBUG=1) shows the traceback; please report the "
        "error with it",
    )
