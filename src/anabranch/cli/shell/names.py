"""What there is to complete in the shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from anabranch.engine import Engine

KEYWORDS: Final = tuple(
    """
    ALL AND ARCHIVE AS ASC BETWEEN BY CASE CAST CHRONON COUNTING CREATE CROSS DAYS DELAY DESC
    DESCRIBE DESCRIPTOR DISTINCT DROP DSTREAM ELSE END EXCEPT EXISTS EXPLAIN FALSE FROM FULL
    FUNCTION GRANULARITY GROUP HAVING HOP HOPPING HOURS IF IN INCLUDE INNER INTERSECT INTERVAL
    IS ISTREAM JOIN KEEP KEY KNOWN LATE LEFT LIKE LIMIT MINUTES NOT NULL OFFSET ON OR ORDER
    ORDERED OUTER PARTITION PRIMARY QUERIES RANGE REPLACE RETURN RETURNS REVISE RIGHT ROWS
    RSTREAM SECONDS SELECT SESSION SHOW SLIDE SNAPSHOT SOURCE STOP STREAM STREAMS TABLE TABLES
    THEN TRUE TUMBLE TUMBLING UNBOUNDED UNION UNIQUE UNTIL VIEW VIEWS WHEN WHERE WINDOW WITH
    """.split()  # noqa: SIM905
)


@final
@dataclass(slots=True)
class Names:
    """What may be typed by now; the shell brings it up to date after each statement.

    Attributes:
        columns: The columns of each stream, table and view.
        functions: Functions that there are, and those that were created.
        queries: Queries that were started.
    """

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()

    def refresh(self, engine: Engine) -> None:
        """Ask the engine."""
        from anabranch.aggregates.table import SQL_NAMES
        from anabranch.expressions.functions.names import SCALARS

        found: dict[str, tuple[str, ...]] = {}
        for kind in ("STREAMS", "TABLES", "VIEWS"):
            for name in engine.sql(f"SHOW {kind}")["name"].to_pylist():
                described = engine.sql(f"DESCRIBE {quoted(name)}")
                found[name] = tuple(described["column"].to_pylist())
        created = engine.sql("SHOW FUNCTIONS")["name"].to_pylist()
        self.columns = found
        self.functions = (*created, *sorted(SCALARS | SQL_NAMES.keys() | {"count_if"}))
        self.queries = tuple(engine.sql("SHOW QUERIES")["name"].to_pylist())


def quoted(name: str) -> str:
    """A name as it may be written in any statement."""
    return "`" + name.replace("`", "``") + "`"
