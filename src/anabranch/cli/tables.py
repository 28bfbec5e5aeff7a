"""Rows for people: a table on a terminal, aligned text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def cells(rows: pa.RecordBatch) -> list[list[str]]:
    """Every value as a short text, column by column; texts stand without quotes."""
    import pyarrow as pa

    from anabranch.model.files.json_encode import json_text

    def texts(column: pa.Array) -> list[str]:
        if pa.types.is_string(column.type):
            return ["null" if text is None else text for text in column.to_pylist()]
        return [str(text) for text in json_text(column).to_pylist()]

    return [texts(column) for column in rows.columns]


def show_table(names: Sequence[str], columns: Sequence[Sequence[str]], numeric: set[int]) -> None:
    """Print columns of texts; those in `numeric` are set to the right."""
    if sys.stdout.isatty():
        _rich(names, columns, numeric)
    else:
        sys.stdout.write(aligned(names, columns, numeric))


def aligned(names: Sequence[str], columns: Sequence[Sequence[str]], numeric: set[int]) -> str:
    """The table as plain text.

    >>> print(aligned(["item", "price"], [["a", "bb"], ["80.0", "9.5"]], {1}), end="")
    item  price
    a      80.0
    bb      9.5
    """
    if not columns:
        return ""
    widths = [max(map(len, (name, *column))) for name, column in zip(names, columns)]
    lines = []
    for row in (names, *zip(*columns)):
        padded = [
            text.rjust(width) if index in numeric else text.ljust(width)
            for index, (text, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(padded).rstrip() + "\n")
    return "".join(lines)


def _rich(names: Sequence[str], columns: Sequence[Sequence[str]], numeric: set[int]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(names):
        table.add_column(Text(name), justify="right" if index in numeric else "left")
    for row in zip(*columns):
        table.add_row(*(Text(text) for text in row))
    Console().print(table)
