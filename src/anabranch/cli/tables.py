"""Rows for people: a table on a terminal, aligned text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from anabranch.display.aligned import aligned


def show_table(names: Sequence[str], columns: Sequence[Sequence[str]], numeric: set[int]) -> None:
    """Print columns of texts; those in `numeric` are set to the right."""
    if sys.stdout.isatty():
        _rich(names, columns, numeric)
    else:
        sys.stdout.write(aligned(names, columns, numeric))


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
