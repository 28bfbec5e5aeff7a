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
    """`SHOW STREAMS`, `SHOW TABLES`, `SHOW VIEWS`: names, kinds, columns, archives if any."""
    found = [entry for entry in entries if entry.kind in _KINDS[what]]
    shown = {
        "name": [entry.name for entry in found],
        "kind": [entry.kind for entry in found],
        "columns": [_columns(entry.node.schema) for entry in found],
    }
    archives = [entry.archive for entry in found]
    if any(archive is not None for archive in archives):
        shown["archive"] = ["" if archive is None else archive.label for archive in archives]
    return pa.table({name: pa.array(values, pa.string()) for name, values in shown.items()})


def describe_entry(entry: CatalogEntry) -> pa.Table:
    """`DESCRIBE name`: its columns, those of its times that are not among them, its archive."""
    rows = [(field.name, type_name(field.type), "") for field in entry.node.schema]
    rows += [(name, "", "orders the stream, not visible") for name in entry.hidden]
    rows += [("(archive)", "", entry.archive.label)] if entry.archive is not None else []
    return pa.table(
        {
            "column": pa.array([name for name, _, _ in rows], pa.string()),
            "type": pa.array([kind for _, kind, _ in rows], pa.string()),
            "remark": pa.array([remark for _, _, remark in rows], pa.string()),
        }
    )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {type_name(field.type)}" for field in schema)
