"""What `SHOW` and `DESCRIBE` answer about the names of a catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from anabranch.language.names.catalog import CatalogEntry
from anabranch.language.text.types import type_name

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "STREAMS": ("stream", "derived"),
    "TABLES": ("table",),
    "VIEWS": ("view",),
}


def show_entries(entries: Iterable[CatalogEntry], what: str) -> pa.Table:
    """`SHOW STREAMS`, `SHOW TABLES`, `SHOW VIEWS`: names, kinds and columns."""
    found = [entry for entry in entries if entry.kind in _KINDS[what]]
    return pa.table(
        {
            "name": pa.array([entry.name for entry in found], pa.string()),
            "kind": pa.array([entry.kind for entry in found], pa.string()),
            "columns": pa.array([_columns(entry.node.schema) for entry in found], pa.string()),
        }
    )


def describe_entry(entry: CatalogEntry) -> pa.Table:
    """`DESCRIBE name`: its columns, and those of its times that are not among them."""
    rows = [(field.name, type_name(field.type), "") for field in entry.node.schema]
    rows += [(name, "", "orders the stream, not visible") for name in entry.hidden]
    return pa.table(
        {
            "column": pa.array([name for name, _, _ in rows], pa.string()),
            "type": pa.array([kind for _, kind, _ in rows], pa.string()),
            "remark": pa.array([remark for _, _, remark in rows], pa.string()),
        }
    )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {type_name(field.type)}" for field in schema)
