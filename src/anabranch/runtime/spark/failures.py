"""The error that a worker raised, out of the text of Spark's exception."""

from __future__ import annotations

import re
from typing import Final

from anabranch import errors
from anabranch.errors import AnabranchError, EngineError

_RAISED: Final = re.compile(r"^(?:[\w.]*\.)?(\w+Error): (.*(?:\n {2}(?! ).*)*)", re.MULTILINE)
_OWN: Final = re.compile(r"anabranch\.errors\.(\w+): (.*(?:\n {2}\S.*)*)")
_KINDS: Final = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, AnabranchError)
}
_SPARK_ENDED: Final = (
    "Spark ended while the query was running",
    "its process was stopped, or ran out of memory: give it more (spark.driver.memory), and start "
    "the query again",
)
_DISK: Final = (
    "free space or grant permission to write, then start the query again: the batch is repeated"
)
_EXPLANATIONS: Final = {
    "dagScheduler() is null": _SPARK_ENDED,
    "SparkContext has been shutdown": _SPARK_ENDED,
    "java.lang.OutOfMemoryError": _SPARK_ENDED,
    "No space left on device": ("the disk is full", _DISK),
    "Read-only file system": ("the disk cannot be written to", _DISK),
    "Permission denied": ("permission to read or write a file is missing", _DISK),
    "Operation not permitted": ("permission to read or write a file is missing", _DISK),
}
"""What Spark's text says where something outside has failed: what that means, what to do."""


def original_error(text: str) -> AnabranchError:
    """The error that a worker raised, out of the text of Spark's exception.

    >>> spark = '''Job aborted due to stage failure: ... Traceback (most recent call last):
    ...   File "reader.py", line 1, in read
    ... anabranch.errors.StreamError: no column 'prize'
    ...   bids.parquet
    ...   hint: columns are: item, price
    ...
    ... at org.apache.spark.api.python.BasePythonRunner'''
    >>> print(repr(original_error(spark)), original_error(spark), sep=chr(10))
    StreamError("no column 'prize'")
    no column 'prize'
      bids.parquet
      hint: columns are: item, price
    """
    own = list(_OWN.finditer(text))
    if own:
        return _rebuilt(own[-1].group(1), own[-1].group(2))
    for sign, (what, hint) in _EXPLANATIONS.items():
        if sign in text:
            line = next(each for each in text.splitlines() if sign in each)
            return EngineError(what, where=line.strip()[:500], hint=hint)
    raised = list(_RAISED.finditer(text))
    line = raised[-1].group(0).split("\n", 1)[0] if raised else text.strip().split("\n", 1)[0]
    return EngineError(
        "the query failed",
        where=line[:500],
        hint="if this looks like a bug of Anabranch, please report it with the text of "
        "`error.__cause__`",
    )


def _rebuilt(kind: str, message: str) -> AnabranchError:
    what, *rest = message.rstrip().split("\n")
    lines = [line.strip() for line in rest]
    # A traceback in Spark's text may run on; the hint is the last part.
    hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")), "")
    ends = next((i for i, line in enumerate(lines) if line.startswith("hint: ")), len(lines))
    return _KINDS.get(kind, EngineError)(what, where="\n".join(lines[:ends]), hint=hint)
