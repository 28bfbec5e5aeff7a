"""The replicas of the demo: one query by different plans, each a script, and their commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

COPIES: Final = "copies"
FEEDS: Final = "feeds"
MERGED: Final = "merged"
SCRIPTS: Final = "scripts"
WORK: Final = "work"
METRICS: Final = "merge.metrics.jsonl"

_BIDS: Final = """\
CREATE STREAM Bid (itemID BIGINT, bidderID BIGINT, price DOUBLE)
  SOURCE '{feed}/*.jsonl' WITH (max_files_per_batch = 4);
"""

_AS_WRITTEN: Final = """\
SELECT itemID, MAX(price) AS highest, COUNT(*) AS bids
FROM Bid WINDOW(RANGE 1 MINUTE SLIDE 10 SECONDS) GROUP BY itemID;
"""

_IN_HALVES: Final = """\
SELECT itemID, MAX(price) AS highest, COUNT(*) AS bids
FROM Bid WINDOW(RANGE 1 MINUTE SLIDE 10 SECONDS) WHERE itemID % 2 = 0 GROUP BY itemID
UNION ALL
SELECT itemID, MAX(price) AS highest, COUNT(*) AS bids
FROM Bid WINDOW(RANGE 1 MINUTE SLIDE 10 SECONDS) WHERE itemID % 2 = 1 GROUP BY itemID;
"""

_BY_BIDDER: Final = """\
CREATE VIEW ByBidder AS
SELECT itemID, bidderID, MAX(price) AS highest, COUNT(*) AS bids
FROM Bid WINDOW(RANGE 1 MINUTE SLIDE 10 SECONDS) GROUP BY itemID, bidderID;
SELECT itemID, MAX(highest) AS highest, CAST(SUM(bids) AS BIGINT) AS bids
FROM ByBidder GROUP BY itemID;
"""

_JOINED: Final = """\
CREATE VIEW Highest AS
SELECT itemID, MAX(price) AS highest
FROM Bid WINDOW(RANGE 1 MINUTE SLIDE 10 SECONDS) GROUP BY itemID;
CREATE VIEW Counted AS
SELECT itemID, COUNT(*) AS bids
FROM Bid WINDOW(RANGE 1 MINUTE SLIDE 10 SECONDS) GROUP BY itemID;
SELECT Highest.itemID, highest, bids FROM Highest JOIN Counted ON Highest.itemID = Counted.itemID;
"""

PLANS: Final[Mapping[int, tuple[str, str]]] = {
    1: ("as written", _AS_WRITTEN),
    2: ("items in two halves", _IN_HALVES),
    3: ("by bidder, then by item", _BY_BIDDER),
    4: ("two aggregates, joined", _JOINED),
}
"""By replica: its plan, in words and as a query. All of them mean the same."""


def replica_name(number: int) -> str:
    """What a replica is called, and so its script, its feed and its log."""
    return f"replica-{number}"


def script_of(number: int, folder: Path) -> str:
    """The script of a replica that works in a folder."""
    return _BIDS.format(feed=folder / FEEDS / replica_name(number)) + PLANS[number][1]


def replica_command(number: int, folder: Path) -> list[str]:
    """The command that runs a replica; its script is written."""
    name = replica_name(number)
    script = folder / SCRIPTS / f"{name}.sql"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(script_of(number, folder), encoding="utf-8")
    words = ["run", str(script), "--canonical", "--follow", "--to", str(folder / COPIES / name)]
    return [*words, "--checkpoint", str(folder / WORK / name)]


def merge_command(folder: Path) -> list[str]:
    """The command that merges what the replicas write, and notes who leads and who is wrong."""
    words = ["merge", str(folder / COPIES / "*"), "--follow", "--to", str(folder / MERGED)]
    words += ["--divergence", "quarantine", "--checkpoint", str(folder / WORK / MERGED)]
    return [*words, "--metrics", str(folder / METRICS)]
