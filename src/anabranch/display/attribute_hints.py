"""Attributes that runs and answers do not have: what to write in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

_WRITTEN: Final = "stream.start(to='folder'), 'answer.jsonl', 'delta:path' or 'postgresql://...'"

RUN_INSTEAD: Final[Mapping[str, str]] = {
    "awaitTermination": "run.await_end(), or run.await_end(timeout=60)",
    "await_termination": "run.await_end(), or run.await_end(timeout=60)",
    "collect": "run.events().to_pylist(), or run.snapshot(at).to_pylist()",
    "columns": "run.schema.names",
    "count": "run.events().num_rows",
    "df": "run.events().to_pandas(), to_spark(), to_polars() or to_arrow()",
    "exception": "run.failures(); run.await_end() raises what a query has failed with",
    "head": "run.show(5), or run.events().slice(0, 5)",
    "id": "run.name; the checkpoint tells queries apart",
    "isActive": "run.status == 'running'",
    "is_active": "run.status == 'running'",
    "lastProgress": "run.metrics()[-1]",
    "name": "run.status: only runs on Spark have names",
    "processAllAvailable": "run.drain()",
    "process_all_available": "run.drain()",
    "recentProgress": "run.metrics()",
    "runId": "run.name; the checkpoint tells queries apart",
    "toArrow": "run.events().to_arrow()",
    "toDF": "run.events().to_spark()",
    "toPandas": "run.to_pandas(), or run.snapshot(at).to_pandas()",
    "to_arrow": "run.events().to_arrow()",
    "to_df": "run.events().to_spark()",
    "to_polars": "run.events().to_polars()",
    "to_spark": "run.events().to_spark()",
    "wait": "run.await_end()",
    "write": _WRITTEN,
}
"""Attributes of Spark's StreamingQuery and DataFrame that a run does not have."""

TABLE_INSTEAD: Final[Mapping[str, str]] = {
    "collect": "answer.to_pylist()",
    "count": "answer.num_rows, or len(answer)",
    "describe": "answer.to_pandas().describe()",
    "head": "answer.show(5), answer.slice(0, 5), or answer.to_pandas().head()",
    "orderBy": "answer.sort_by('column')",
    "plot": "run.plot(), or answer.to_pandas().plot()",
    "sort": "answer.sort_by('column')",
    "sort_values": "answer.sort_by('column'), or answer.to_pandas().sort_values('column')",
    "tail": "answer.to_pandas().tail()",
    "toArrow": "answer.to_arrow()",
    "toPandas": "answer.to_pandas()",
    "to_csv": "answer.to_pandas().to_csv(path)",
    "to_dicts": "answer.to_pylist()",
    "to_parquet": "answer.to_pandas().to_parquet(path)",
    "where": "answer.to_pandas().query('price > 80'); or stream.where('price > 80') before",
    "write": _WRITTEN,
}
"""Attributes of DataFrames that an answer, which is an Arrow table, does not have."""


def attribute_error(
    owner: str, name: str, words: str | None, there: Iterable[str], obj: object
) -> AttributeError:
    """The error for an attribute that does not exist: what to write, or the nearest name."""
    if words:
        return AttributeError(f"{owner} has no '{name}'; write {words}", name=name, obj=obj)
    near = get_close_matches(name, list(there), 1)
    guess = f"; did you mean '{near[0]}'?" if near else ""
    return AttributeError(f"{owner} has no '{name}'{guess}", name=name, obj=obj)
