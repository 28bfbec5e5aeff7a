"""What options of other systems are called here, and what to do where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def plain(name: str) -> str:
    """A name without case and underscores: `maxFilesPerTrigger` and `max_files_per_trigger`."""
    return name.replace("_", "").lower()


CALLED_HERE: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("timestamp", "time", "ts", "timecolumn", "timestampcolumn", "eventtime", "orderedby"),
        ("start", "at"),
    ),
    **dict.fromkeys(("validfrom", "from", "begin", "startcolumn"), ("start", "first")),
    **dict.fromkeys(("validto", "until", "to", "endcolumn"), ("end", "last", "to")),
    **dict.fromkeys(("instant", "when", "asof", "timestampasof", "versionasof"), ("at", "known")),
    **dict.fromkeys(
        ("watermark", "withwatermark", "delaythreshold", "lateness", "allowedlateness"), ("delay",)
    ),
    **dict.fromkeys(("latepolicy", "onlate", "laterows"), ("late",)),
    **dict.fromkeys(("retention", "ttl", "retain"), ("keep",)),
    **dict.fromkeys(("idle", "idletimeout", "idleness"), ("heartbeat",)),
    **dict.fromkeys(("columns", "types", "dtypes", "schemaddl"), ("schema", "columns")),
    **dict.fromkeys(("primarykey", "key", "keys", "pk"), ("unique", "by", "on")),
    **dict.fromkeys(("overwrite", "orreplace", "replaceexisting"), ("replace",)),
    **dict.fromkeys(("tablename", "viewname", "streamname", "alias"), ("name",)),
    **dict.fromkeys(("bounded", "finite", "isbounded", "complete"), ("ends",)),
    "maxfilespertrigger": ("max_files_per_batch",),
    **dict.fromkeys(
        ("maxrowspertrigger", "maxoffsetspertrigger", "rowspersecond", "batchsize", "chunksize"),
        ("max_rows_per_batch",),
    ),
    **dict.fromkeys(("outputmode", "mode", "emitmode"), ("emit",)),
    **dict.fromkeys(
        ("checkpointlocation", "checkpointdir", "checkpointpath", "statedir"), ("checkpoint",)
    ),
    **dict.fromkeys(
        ("processingtime", "interval", "triggerinterval", "every"), ("trigger", "slide", "hop")
    ),
    **dict.fromkeys(("once", "availablenow", "runonce", "batch"), ("available_now",)),
    **dict.fromkeys(("foreachbatch", "callback", "function", "func"), ("foreach",)),
    **dict.fromkeys(
        ("path", "output", "sink", "target", "table", "outputpath", "location"), ("to", "source")
    ),
    **dict.fromkeys(("session", "sparksession"), ("spark",)),
    **dict.fromkeys(("config", "conf", "options", "master", "appname"), ("settings",)),
    **dict.fromkeys(
        ("partitions", "parallelism", "numpartitions", "shufflepartitions"), ("shards",)
    ),
    **dict.fromkeys(("windowduration", "duration", "length", "width"), ("size", "gap")),
    **dict.fromkeys(("slideduration", "hopsize", "step", "period"), ("slide", "hop")),
    **dict.fromkeys(("gapduration", "sessiongap"), ("gap",)),
    "starttime": ("offset",),
    **dict.fromkeys(("groupby", "partitionby", "partition", "per"), ("by",)),
    **dict.fromkeys(("sort", "sortby", "order"), ("order_by",)),
    **dict.fromkeys(("limit", "number", "rows"), ("k", "n")),
    **dict.fromkeys(("jointype", "type"), ("how",)),
    **dict.fromkeys(("condition", "predicate", "where"), ("condition", "on")),
    **dict.fromkeys(("suffixes", "rsuffix"), ("suffix",)),
    **dict.fromkeys(("seconds", "timeoutms", "timeoutseconds"), ("timeout",)),
}
"""Names in small letters, without underscores; of ours the first that the method has."""

EXPLAINED: Final[Mapping[str, str]] = {
    "emit": "'speculative' writes answers and later their corrections (as update and complete do), "
    "'final' only what can no longer change (as append does)",
    "trigger": "a duration, such as '10 seconds'",
    "available_now": "True processes the present input, then ends",
    "delay": "how far rows may be behind the largest start seen, such as '10 minutes'",
    "start": "the column with the time of each row",
    "at": "the instant of the answer",
    "settings": "a dictionary of Spark's settings; or pass a session of your own: Engine(spark)",
    "schema": "a pyarrow.Schema",
    "to": "a folder, 'answer.jsonl', 'delta:path', 'postgresql://...', 'memory' or 'console'",
    "heartbeat": "after so long without a row time goes on",
    "on": "the columns that are equal, or a condition",
}
"""What an option takes, where its name does not say it."""

_TEXT_FILES: Final = (
    "CSV files have a header and commas here, and JSON is one object per line; read others with "
    "pandas or Spark and pass the frame: engine.stream(pandas.read_csv(path, sep=';'), start='at')"
)
_OF_READERS: Final = """
    allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZero
    allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames attributePrefix
    charToEscapeQuoteEscaping columnNameOfCorruptRecord comment dateFormat datetimeRebaseMode
    decimal delimiter dropFieldIfAllNull emptyValue encoding enforceSchema escape excludeAttribute
    header ignoreLeadingWhiteSpace ignoreNamespace ignoreSurroundingSpaces ignoreTrailingWhiteSpace
    inferSchema int96RebaseMode lineSep locale maxCharsPerColumn maxColumns
    maxMalformedLogPerPartition multiLine nanValue negativeInf nullValue positiveInf prefersDecimal
    primitivesAsString quote rowTag rowValidationXSDPath samplingRatio sep timestampFormat
    unescapedQuoteHandling useUnsafeRow valueTag wholetext wildcardColName
"""
"""The options by which Spark reads texts."""
_ZONE: Final = (
    "times without a zone are UTC; make instants of local times before they become a stream "
    "(frame['at'].dt.tz_localize('Europe/Berlin') in pandas, to_utc_timestamp(at, 'Europe/Berlin') "
    "in Spark), and write from_utc_timestamp(at, 'Europe/Berlin') in a query for the local time"
)
_KAFKA: Final = (
    "pass a DataFrame that Spark reads: engine.stream(spark.readStream.format('kafka')...load(), "
    "start='timestamp', delay='10 seconds')"
)
_NO_ORDER: Final = "files are read in the order of their names"

NOT_HERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("timezone", "tz", "sessiontimezone", "zone"), _ZONE),
    **dict.fromkeys(map(plain, _OF_READERS.split()), _TEXT_FILES),
    **dict.fromkeys(
        ("startingoffsets", "subscribe", "bootstrapservers", "topic", "endingoffsets"), _KAFKA
    ),
    **dict.fromkeys(("latestfirst", "sortfiles"), _NO_ORDER),
    "format": "the path says it: a suffix (.parquet, .csv, .jsonl), a folder, or 'delta:path'",
    "queryname": "a query has the name of its stream: engine.sql('CREATE STREAM n AS SELECT ...')",
    "starttime": "windows of the time axis begin elsewhere by tumbling('1 hour', offset='15 min')",
    "mode": "a query resumes or begins anew; CREATE OR REPLACE and replace=True replace a stream",
    "options": "there are no other options",
    "compression": "log folders and Delta tables are compressed already",
    "realtime": "write trigger='100 milliseconds'; latency is tenths of a second",
    "tablename": "name the table in `to`: 'delta:path' or 'postgresql://host/base?table=name'",
    "pathglobfilter": "write the pattern in the path: engine.stream('folder/*.parquet')",
    "recursivefilelookup": "a folder is read with all its sub-folders",
    "mergeschema": "declare the columns: schema=pyarrow.schema([...])",
    "partitionby": "Delta tables and log folders are not partitioned by columns; write several "
    "queries, or partition a Delta table of their answers",
    "continuous": "write trigger='100 milliseconds'",
    "withcolumns": "stream.withColumn('name', 'expression')",
    "vertical": "rows are shown one per line; look at run.to_pandas().T",
    "startat": "a new query begins with all rows; stream.between(first, last) takes a part",
}
"""The same for options that have no like here."""
