from __future__ import annotations

from anabranch.errors import EngineError, OperatorError, StreamError
from anabranch.runtime.spark.failures import original_error

SPARK = """Job aborted: Task 0 in stage 3.0 failed 4 times: Traceback (most recent call last):
  File "worker.py", line 99, in main
    process()
{error}
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:
"""


def test_the_error_of_a_worker_comes_out_as_it_was() -> None:
    raised = StreamError("no column 'k'", where="a.parquet\nrow 3", hint="columns are: a, b")
    found = original_error(SPARK.format(error=f"anabranch.errors.StreamError: {raised}\n"))
    assert (type(found), str(found)) == (StreamError, str(raised))


def test_an_error_without_where_and_hint_is_kept_too() -> None:
    found = original_error(SPARK.format(error="anabranch.errors.OperatorError: it failed\n"))
    assert (type(found), str(found)) == (OperatorError, "it failed")


def test_spark_may_go_on_right_behind_the_hint() -> None:
    text = "anabranch.errors.StreamError: gone\n  here\n  hint: look\n SQLSTATE: 38000"
    assert str(original_error(text)) == "gone\n  here\n  hint: look"


def test_what_fails_outside_says_what_to_do() -> None:
    full = "OSError: [Errno 28] No space left on device: '/data/checkpoint/state/1.json'"
    found = original_error(SPARK.format(error=full + "\n"))
    assert (found.what, found.where) == ("the disk is full", full)
    assert "start the query again" in found.hint
    closed = "/data/checkpoint/spark/offsets/.3.tmp (Operation not permitted) SQLSTATE: XXKST"
    found = original_error(f"[STREAM_FAILED] terminated with exception: {closed}")
    assert found.what == "permission to read or write a file is missing"
    assert "grant permission to write" in found.hint
    found = original_error("Cannot invoke ... because SparkContext.dagScheduler() is null")
    assert found.what == "Spark ended while the query was running"


def test_anything_else_is_a_bug_and_says_what_was_raised() -> None:
    found = original_error(SPARK.format(error="ZeroDivisionError: division by zero\n"))
    assert isinstance(found, EngineError)
    assert found.where == "ZeroDivisionError: division by zero"
    assert "report" in found.hint
