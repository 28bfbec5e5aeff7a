"""The four ways to count time, as files with a declaration in both languages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from anabranch import Engine, Stream

ORIGIN: Final = "2026-11-15T10:00:00"


@dataclass(frozen=True)
class Kind:
    """Whole numbers or timestamps, with a chronon or without."""

    name: str
    column: str
    chronon: str | None

    @property
    def timestamps(self) -> bool:
        return self.column == "TIMESTAMP"

    def rows(self) -> list[dict[str, Any]]:
        return [{"k": number % 2, "at": self.at(number)} for number in range(4)]

    def at(self, number: int) -> int | str:
        return f"2026-11-15T10:00:0{number}" if self.timestamps else number

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.name}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in self.rows()))
        return path

    def create(self, path: Path, name: str = "S", more: str = "") -> str:
        """The statement that declares it."""
        said = f" CHRONON {self.chronon}" if self.chronon else ""
        return (
            f"CREATE STREAM {name} (k INT, at {self.column}) SOURCE '{path}' "
            f"ORDERED BY at{said} {more} WITH (ends = TRUE);"
        )

    def stream(self, path: Path, engine: Engine | None = None, **options: Any) -> Stream:
        """The same in Python."""
        kind = pa.timestamp("us", tz="UTC") if self.timestamps else pa.int32()
        schema = pa.schema([("k", pa.int32()), ("at", kind)])
        chronon = self.chronon.lower() if self.chronon else None
        return (engine or Engine()).stream(
            str(path), start="at", schema=schema, chronon=chronon, ends=True, **options
        )


INTEGERS: Final = Kind("integers", "INT", None)
SECONDS: Final = Kind("seconds", "INT", "1 SECOND")
TIMESTAMPS: Final = Kind("timestamps", "TIMESTAMP", None)
COARSE: Final = Kind("coarse", "TIMESTAMP", "1 SECOND")
KINDS: Final = (INTEGERS, SECONDS, TIMESTAMPS, COARSE)
