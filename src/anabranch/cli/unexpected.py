"""What nobody has foreseen, told in three parts."""

from __future__ import annotations

from anabranch.errors import AnabranchError, EngineError, PlanError, StreamError

_LONGEST = 300


def told(problem: Exception) -> AnabranchError:
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
            hint="check the path, and that you may read or write it; anabranch --debug shows "
            "who asked for it",
        )
    if isinstance(problem, ImportError):
        return PlanError(
            f"a package is missing: {problem.name or first}",
            where=first,
            hint="install it beside anabranch; anabranch --debug shows who needs it",
        )
    if type(problem).__module__.startswith(("pyspark", "py4j")):
        return StreamError(
            "Spark refuses it",
            where=f"{name}: {first}",
            hint="correct what is asked of Spark; anabranch --debug shows where",
        )
    return EngineError(
        f"something went wrong that nobody has foreseen: {name}",
        where=first or name,
        hint="anabranch --debug (or ANABRANCH_DEBUG=1) shows where; please report it with that",
    )
