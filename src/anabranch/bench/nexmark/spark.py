"""Spark Structured Streaming beside us: the Nexmark queries that it can run, in its own SQL.

The same files, session and batches as ours, and a sink that throws rows away. Windows that ours
have for the sake of bounded state are conditions on time here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, final

from anabranch.bench.spark_times import batch_times, with_setting
from anabranch.workloads.nexmark_events import SCHEMAS

_NOT_DISTINCT: Final = (
    "it refuses COUNT(DISTINCT) over a stream; a chain of windowed aggregates, which counts what "
    "was grouped, answers in append mode alone: once a day is over, and not while it lasts"
)
CANNOT: Final[Mapping[str, str]] = {
    "q4": "an aggregate over an aggregate needs windows of event time, and there are none",
    "q6": "there is neither a window of rows nor a rank over a stream",
    "q9": "there is no rank over a stream, and no aggregate after a join without a window",
    "q15": _NOT_DISTINCT,
    "q16": _NOT_DISTINCT,
    "q19": "there is no rank over a stream",
}
"""The queries that Spark cannot run as a stream, and why."""

_TYPES: Final = {"int64": "BIGINT", "string": "STRING"}
_BID: Final = "auction, bidder, price, channel, url, dateTime, extra"
_CHANNEL: Final = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_HOT: Final = """
    SELECT window, auction, COUNT(*) AS num FROM bid
    GROUP BY window(dateTime, '10 seconds', '2 seconds'), auction"""


@final
@dataclass(frozen=True, slots=True)
class SparkQuery:
    """The text, and whether changed rows leave at once or rows leave when they are final."""

    text: str
    mode: Literal["append", "update"] = "append"


QUERIES: Final[Mapping[str, SparkQuery]] = {
    "q0": SparkQuery("SELECT auction, bidder, price, dateTime, extra FROM bid"),
    "q1": SparkQuery("SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid"),
    "q2": SparkQuery("SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"),
    "q3": SparkQuery(
        """
        SELECT P.name, P.city, P.state, A.id
        FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
          AND P.dateTime BETWEEN A.dateTime - INTERVAL 1 DAY AND A.expires
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')"""
    ),
    "q5": SparkQuery(
        f"""
        SELECT A.auction, A.num FROM ({_HOT}) AS A JOIN (
          SELECT window, MAX(num) AS maxn FROM ({_HOT}) GROUP BY window) AS M
        ON A.window = M.window AND A.num >= M.maxn"""
    ),
    "q7": SparkQuery(
        """
        SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra FROM bid AS B JOIN (
          SELECT window, MAX(price) AS maxprice FROM bid
          GROUP BY window(dateTime, '10 seconds')) AS B1
        ON B.price = B1.maxprice
          AND B.dateTime >= B1.window.start AND B.dateTime < B1.window.end"""
    ),
    "q8": SparkQuery(
        """
        SELECT P.id, P.name, P.window.start FROM (
          SELECT window, id, name FROM person
          GROUP BY window(dateTime, '10 seconds'), id, name) AS P
        JOIN (
          SELECT window, seller FROM auction
          GROUP BY window(dateTime, '10 seconds'), seller) AS A
        ON P.id = A.seller AND P.window = A.window"""
    ),
    "q10": SparkQuery(
        """
        SELECT auction, bidder, price, dateTime, extra,
          DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS dt, DATE_FORMAT(dateTime, 'HH:mm') AS hm
        FROM bid"""
    ),
    "q11": SparkQuery(
        """
        SELECT bidder, COUNT(*) AS bid_count, session_window.start, session_window.end FROM bid
        GROUP BY session_window(dateTime, '10 seconds'), bidder"""
    ),
    "q12": SparkQuery(
        """
        SELECT bidder, COUNT(*) AS bid_count, window.start, window.end FROM bid
        GROUP BY window(dateTime, '10 seconds'), bidder""",
        "update",
    ),
    "q13": SparkQuery(
        """
        SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
        FROM bid AS B JOIN side_input AS S ON MOD(B.auction, 10000) = S.key"""
    ),
    "q14": SparkQuery(
        """
        SELECT auction, bidder, 0.908 * price AS price,
          CASE WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN 'dayTime'
               WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime'
               ELSE 'otherTime' END AS bidTimeType,
          dateTime, extra, LENGTH(extra) - LENGTH(REPLACE(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000"""
    ),
    "q17": SparkQuery(
        """
        SELECT auction, DATE_FORMAT(window.start, 'yyyy-MM-dd') AS day, COUNT(*) AS total_bids,
          COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
          COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
          COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
          MIN(price), MAX(price), AVG(price), SUM(price)
        FROM bid GROUP BY auction, window(dateTime, '1 day')""",
        "update",
    ),
    "q18": SparkQuery(
        f"SELECT MAX_BY(STRUCT({_BID}), dateTime) AS last FROM bid GROUP BY bidder, auction",
        "update",
    ),
    "q20": SparkQuery(
        """
        SELECT auction, bidder, price, channel, url, B.dateTime AS bid_dateTime,
          B.extra AS bid_extra, itemName, description, initialBid, reserve,
          A.dateTime AS auction_dateTime, expires, seller, category, A.extra AS auction_extra
        FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id
          AND B.dateTime BETWEEN A.dateTime AND A.dateTime + INTERVAL 10 MINUTES
        WHERE A.category = 10"""
    ),
    "q21": SparkQuery(
        f"""
        SELECT auction, bidder, price, channel,
          CASE WHEN LOWER(channel) = 'apple' THEN '0' WHEN LOWER(channel) = 'google' THEN '1'
               WHEN LOWER(channel) = 'facebook' THEN '2' WHEN LOWER(channel) = 'baidu' THEN '3'
               ELSE {_CHANNEL} END AS channel_id
        FROM bid
        WHERE {_CHANNEL} <> '' OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')"""
    ),
    "q22": SparkQuery(
        """
        SELECT auction, bidder, price, channel, SPLIT_PART(url, '/', 4) AS dir1,
          SPLIT_PART(url, '/', 5) AS dir2, SPLIT_PART(url, '/', 6) AS dir3 FROM bid"""
    ),
}


OTHER_FORMS: Final[Mapping[str, SparkQuery]] = {
    # Ours joins within windows, too. A stream may have one time: that of a bid becomes a value.
    "q7": SparkQuery(
        """
        SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra FROM (
          SELECT auction, price, bidder, dateTime + INTERVAL '0' SECOND AS dateTime, extra,
            window(dateTime, '10 seconds') AS window FROM bid) AS B
        JOIN (
          SELECT window, MAX(price) AS maxprice FROM bid
          GROUP BY window(dateTime, '10 seconds')) AS B1
        ON B.window = B1.window AND B.price = B1.maxprice"""
    ),
}
"""Queries that mean the same and may be faster."""

STATELESS: Final = ("q0", "q1", "q2", "q10", "q13", "q14", "q21", "q22")

_STORE: Final = "spark.sql.streaming.stateStore"
_ROCKSDB: Final[Mapping[str, str]] = {
    f"{_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}


@final
@dataclass(frozen=True, slots=True)
class SparkForm:
    """A way to run a query, and settings for its start."""

    query: SparkQuery
    settings: Mapping[str, str] = field(default_factory=dict)


def forms_of(name: str) -> dict[str, SparkForm]:
    """All forms of a query: as published or in other words, with state in memory or in RocksDB.

    >>> list(forms_of("q0")), list(forms_of("q7"))
    (['published'], ['published', 'published, RocksDB', 'other', 'other, RocksDB'])
    """
    texts = {"published": QUERIES[name]}
    if name in OTHER_FORMS:
        texts["other"] = OTHER_FORMS[name]
    forms = {}
    for said, query in texts.items():
        forms[said] = SparkForm(query)
        if name not in STATELESS:
            forms[f"{said}, RocksDB"] = SparkForm(query, _ROCKSDB)
    return forms


def faster_form(
    name: str, run: Callable[[SparkForm], float], say: Callable[..., None], repeats: int
) -> SparkForm:
    """The form of a query that takes Spark least time, by the best of some runs in turns."""
    forms = forms_of(name)
    if len(forms) == 1:
        return forms["published"]
    seconds: dict[str, list[float]] = {form: [] for form in forms}
    for _ in range(repeats):
        for form, way in forms.items():
            seconds[form].append(round(run(way), 3))
    chosen = min(forms, key=lambda form: min(seconds[form]))
    say("form", query=name, peer="spark", seconds=seconds, chosen=chosen)
    return forms[chosen]


def run_spark(
    spark: Any, folder: Path, form: SparkForm, checkpoint: Path, files_per_batch: int
) -> float:
    """Run a query over all files of a folder; the seconds of all its batches."""
    for stream, schema in SCHEMAS.items():
        columns = ", ".join(f"{f.name} {_TYPES.get(str(f.type), 'TIMESTAMP')}" for f in schema)
        rows = (
            spark.readStream.schema(columns)
            .option("maxFilesPerTrigger", files_per_batch)
            .parquet(str(folder / stream))
        )
        rows.withWatermark("dateTime", "4 seconds").createOrReplaceTempView(stream)
    side = spark.read.schema("key BIGINT, value STRING").option("header", "true")
    side.csv(str(folder / "side_input.csv")).createOrReplaceTempView("side_input")
    with ExitStack() as settings:
        for setting, value in form.settings.items():
            settings.enter_context(with_setting(spark, setting, value))
        started = (
            spark.sql(form.query.text)
            .writeStream.format("noop")
            .outputMode(form.query.mode)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
    seconds = sum(batch["seconds"] for batch in batch_times(started))
    # Spark keeps the state of a query that has ended for a minute, where it would fill the memory
    # of the next ones.
    spark.sparkContext._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    return seconds
