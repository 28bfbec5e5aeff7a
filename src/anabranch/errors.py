"""What went wrong, where, and what to do next."""

from __future__ import annotations


class AnabranchError(Exception):
    """Base of all errors a user may see: three parts, and a class that says who has to act.

    >>> print(StreamError("no such file", where="source 'bids.jsonl'", hint="check the path"))
    no such file
      source 'bids.jsonl'
      hint: check the path
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.what]
        lines += [f"  {line}" for line in self.where.splitlines()]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark workers to the driver), so keep the parts apart.
        return (_rebuild, (type(self), self.what, self.where, self.hint))


def _rebuild(kind: type[AnabranchError], what: str, where: str, hint: str) -> AnabranchError:
    return kind(what, where=where, hint=hint)


class QueryError(AnabranchError):
    """The author of the query has to act."""


class PlanError(AnabranchError):
    """The builder of the plan has to act."""


class OptionError(PlanError, TypeError):
    """A call has an option that its method does not have; it is a `TypeError`, as in Python."""


class StreamError(AnabranchError):
    """The owner of the source has to act."""


class OperatorError(AnabranchError):
    """The author of a user-defined operator has to act."""


class EngineError(AnabranchError):
    """A bug of ours; the message says how to report it."""
