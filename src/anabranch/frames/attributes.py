"""Attributes that a DataFrame has and a stream does not: what to write in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from anabranch.display.attribute_hints import attribute_error

_SNAPSHOT: Final = "stream.snapshot(at) for one instant, or stream.run_local().to_pandas() for all"
_NO_PARTITIONS: Final = "nothing: Engine(shards=...) sets how many tasks share the work"
_NO_CACHE: Final = "nothing: a run keeps its state, and start(to='folder') keeps its answers"
_SQL_NAME: Final = (
    "engine.stream(..., name='Bid') for a source, or engine.sql('CREATE VIEW name AS SELECT ...')"
)
_BY_SNAPSHOT: Final = "the pandas DataFrame of a run: stream.run_local().to_pandas()"
_MODULE: Final = (
    "stream.tumbling('10 minutes').apply(module) with a module made by @ab.udo or @ab.uda"
)

INSTEAD: Final[Mapping[str, str]] = {
    "approxQuantile": "stream.agg(q='PERCENTILE(price, 0.9)')",
    "asTable": "the stream itself: joins and unions take streams",
    "cache": _NO_CACHE,
    "checkpoint": "stream.start(to=..., checkpoint='folder'): a run stores its state there",
    "colRegex": "stream.select(*[name for name in stream.columns if ...])",
    "collect": _SNAPSHOT,
    "corr": _BY_SNAPSHOT,
    "count": "stream.agg(n='COUNT(*)'): a stream has a number of rows at every instant",
    "cov": _BY_SNAPSHOT,
    "createGlobalTempView": _SQL_NAME,
    "createOrReplaceGlobalTempView": _SQL_NAME,
    "createOrReplaceTempView": _SQL_NAME,
    "createTempView": _SQL_NAME,
    "crosstab": _BY_SNAPSHOT,
    "cube": "one group_by(...).agg(...) for each set of columns",
    "describe": "stream.agg(n='COUNT(*)', low='MIN(price)', high='MAX(price)', mean='AVG(price)')",
    "dropDuplicatesWithinWatermark": "stream.window('10 minutes').distinct(), which removes rows "
    "that were already there within ten minutes",
    "executionInfo": "run.metrics()",
    "exists": "stream.join(other, on, 'semi')",
    "first": _SNAPSHOT,
    "foreach": "stream.start(foreach=function), called with the elements of each batch",
    "foreachPartition": "stream.start(foreach=function), called with the elements of each batch",
    "freqItems": "stream.group_by('item').agg(n='COUNT(*)').top(10, 'n DESC')",
    "groupingSets": "one group_by(...).agg(...) for each set of columns",
    "head": "stream.show(n=5), stream.show(at=...), or stream.top(k, 'price DESC')",
    "hint": "stream.join(other, on, broadcast='right')",
    "inputFiles": "stream.explain(), which names the sources",
    "isEmpty": "stream.agg(n='COUNT(*)'): a stream is empty at some instants only",
    "isLocal": "stream.run_local(): every query over files also runs in this process",
    "lateralJoin": "stream.join(other, on)",
    "localCheckpoint": _NO_CACHE,
    "mapInArrow": _MODULE,
    "mapInPandas": _MODULE,
    "melt": "stream.select(...) once per column, and union",
    "mergeInto": "stream.start(to='delta:path')",
    "metadataColumn": "nothing: files have no hidden columns here",
    "na": "stream.dropna() or stream.fillna(value)",
    "nearestByJoin": "stream.asof_join(other, on), for the latest row up to each instant",
    "observe": "run.metrics(), or a query of its own over the same source",
    "offset": "stream.top(k, 'price DESC')",
    "orderBy": "stream.top(k, 'price DESC'): a stream has no order, its snapshots have first rows",
    "pandas_api": _BY_SNAPSHOT,
    "persist": _NO_CACHE,
    "plot": "stream.run_local().plot()",
    "randomSplit": "stream.where('hash(item) % 10 < 8'), which is the same at every run",
    "rdd": "stream.to_df(), a streaming DataFrame of elements",
    "registerTempTable": _SQL_NAME,
    "repartition": _NO_PARTITIONS,
    "repartitionById": _NO_PARTITIONS,
    "repartitionByRange": _NO_PARTITIONS,
    "replace": "stream.withColumn('item', 'CASE WHEN item = 1 THEN 2 ELSE item END')",
    "rollup": "one group_by(...).agg(...) for each set of columns",
    "sameSemantics": "stream.explain(), and anabranch diff for two answers",
    "sample": "stream.where('hash(item) % 10 = 0'), which is the same at every run",
    "sampleBy": "stream.where('hash(item) % 10 = 0'), which is the same at every run",
    "scalar": "stream.join(other), where other has one row",
    "semanticHash": "stream.explain()",
    "sort": "stream.top(k, 'price DESC'): a stream has no order, its snapshots have first rows",
    "sortWithinPartitions": "stream.top(k, 'price DESC')",
    "sql_ctx": "engine.sql(...)",
    "stat": _BY_SNAPSHOT,
    "storageLevel": _NO_CACHE,
    "summary": "stream.agg(n='COUNT(*)', low='MIN(price)', high='MAX(price)', mean='AVG(price)')",
    "tail": "stream.rows_window(5), which holds the last five rows",
    "take": "stream.show(n=5), stream.show(at=...), or stream.top(k, 'price DESC')",
    "to": "stream.select('CAST(price AS DOUBLE) AS price')",
    "toArrow": "stream.snapshot(at).to_arrow(), or stream.run_local().events().to_arrow()",
    "toJSON": "stream.select('to_json(struct(...)) AS value'), or start(to='answer.jsonl')",
    "toLocalIterator": _SNAPSHOT,
    "toPandas": "stream.snapshot(at).to_pandas(), or stream.run_local().to_pandas()",
    "transpose": _BY_SNAPSHOT,
    "unpersist": _NO_CACHE,
    "unpivot": "stream.select(...) once per column, and union",
    "withMetadata": "nothing: columns have no metadata here",
    "withWatermark": "engine.stream(source, start='at', delay='10 minutes')",
    "write": "stream.start(to='folder'), 'answer.jsonl', 'delta:path' or 'postgresql://...'",
    "writeStream": "stream.start(to='folder'), 'answer.jsonl', 'delta:path' or 'postgresql://...'",
    "writeTo": "stream.start(to='delta:path')",
    "zip": "stream.join(other, on)",
    "zipWithIndex": "a column of your own that tells rows apart",
}
"""Attributes of `pyspark.sql.DataFrame` that streams do not have, and what serves their purpose."""

_ROW_BY_ROW: Final = (
    "stream.withColumn('double', 'price * 2'), or select; a Python function is registered with "
    "engine.register(ab.udf(function)) and called by name"
)
_AS_OF: Final = INSTEAD["nearestByJoin"]

OTHER_WORDS: Final[Mapping[str, str]] = {
    "aggregate": "stream.agg(n='COUNT(*)', highest='MAX(price)')",
    "apply": _MODULE,
    "as_of": _AS_OF,
    "as_of_join": _AS_OF,
    "asof": _AS_OF,
    "assign": "stream.withColumn('double', 'price * 2')",
    "filter_by": "stream.filter(condition)",
    "flatMap": "stream.explode('items')",
    "flat_map": "stream.explode('items')",
    "hop": "stream.hopping(size, hop, by=...)",
    "iloc": _SNAPSHOT,
    "join_asof": _AS_OF,
    "key_by": "stream.group_by('item')",
    "lag": "stream.rank('at', by='item', before='LAG(price)')",
    "lead": "stream.rank('at', by='item', after='LEAD(price)')",
    "loc": _SNAPSHOT,
    "map": _ROW_BY_ROW,
    "map_rows": _ROW_BY_ROW,
    "merge_asof": _AS_OF,
    "nlargest": "stream.top(k, 'price DESC')",
    "nunique": "stream.agg(n='COUNT(DISTINCT item)')",
    "order_by": INSTEAD["orderBy"],
    "pipe": "function(stream)",
    "print": "stream.show()",
    "process": _MODULE,
    "query": "stream.filter('price > 80')",
    "reduce": "stream.agg(total='SUM(price)'), or an aggregate of your own made by @ab.uda",
    "resample": "stream.tumbling('10 minutes').agg(n='COUNT(*)')",
    "rolling": "stream.window('10 minutes')",
    "run": "stream.run_local(), or stream.start(to='folder')",
    "session": "stream.sessions('10 minutes', by=...)",
    "sink_to": INSTEAD["writeStream"],
    "sort_values": INSTEAD["orderBy"],
    "to_arrow": INSTEAD["toArrow"],
    "to_dict": _SNAPSHOT,
    "to_pandas": INSTEAD["toPandas"],
    "to_polars": "stream.snapshot(at).to_polars(), or stream.run_local().events().to_polars()",
    "to_sql": "stream.start(to='postgresql://...')",
    "tumble": "stream.tumbling(size, by=...)",
    "value_counts": "stream.group_by('item').agg(n='COUNT(*)')",
    "watermark": INSTEAD["withWatermark"],
    "with_columns": "stream.withColumns({'double': 'price * 2'})",
    "write_parquet": INSTEAD["write"],
    "write_stream": INSTEAD["writeStream"],
}
"""Words of pandas, Polars, Flink and other systems that streams do not have."""

GROUPED_INSTEAD: Final[Mapping[str, str]] = {
    "apply": _MODULE,
    "applyInArrow": _MODULE,
    "applyInPandas": _MODULE,
    "applyInPandasWithState": "a module with state: ab.IncrementalOperator",
    "cogroup": "stream.join(other, on)",
    "pivot": "agg(a=\"SUM(price) FILTER (WHERE kind = 'a')\", b=...)",
    "transformWithState": "a module with state: ab.IncrementalOperator",
    "transformWithStateInPandas": "a module with state: ab.IncrementalOperator",
}
"""The same for `pyspark.sql.GroupedData`."""


def missing_attribute(
    owner: str, name: str, instead: Mapping[str, str], there: Iterable[str], obj: object
) -> AttributeError:
    """The error for an attribute that does not exist, with what to write, or with a near one."""
    words = instead.get(name) or (OTHER_WORDS.get(name) if instead is INSTEAD else None)
    return attribute_error(owner, name, words, there, obj)
