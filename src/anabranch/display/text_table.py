"""Rows as text: aligned columns for a terminal, a table for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import pyarrow as pa

from anabranch.model.files.json_encode import json_text


def cells(rows: pa.RecordBatch | pa.Table) -> list[list[str]]:
    """Every value as a short text, column by column; texts and times stand without quotes."""
    return [_texts(_whole(column)) for column in rows.columns]


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _texts(column: pa.Array) -> list[str]:
    if pa.types.is_string(column.type):
        return ["null" if text is None else text for text in column.to_pylist()]
    found = [str(text) for text in json_text(column).to_pylist()]
    return _short([text.strip('"') for text in found]) if _is_moment(column.type) else found


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind))


def _short(times: list[str]) -> list[str]:
    """Times without a fraction of a second that none of them has."""
    whole = all(text.endswith(".000000") or "." not in text for text in times)
    return [text.removesuffix(".000000") for text in times] if whole else times


def numeric(schema: pa.Schema) -> set[int]:
    """The indexes of the columns with numbers."""

    def is_number(kind: pa.DataType) -> bool:
        return bool(
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        )

    return {index for index, field in enumerate(schema) if is_number(field.type)}


def html_table(names: Sequence[str], columns: Sequence[Sequence[str]], numeric: set[int]) -> str:
    """The table as HTML, without styles of its own: a notebook has some.

    >>> html_table(["a<b"], [["1"]], {0})
    '<table><thead><tr><th style="text-align:right">a&lt;b</th></tr></thead><tbody><tr>\
<td style="text-align:right">1</td></tr></tbody></table>'
    """

    def cell(index: int, text: str, tag: str = "td") -> str:
        side = ' style="text-align:right"' if index in numeric else ' style="text-align:left"'
        return f"<{tag}{side}>{escape(text)}</{tag}>"

    head = "".join(cell(index, name, "th") for index, name in enumerate(names))
    body = "".join(
        f"<tr>{''.join(cell(index, text) for index, text in enumerate(row))}</tr>"
        for row in zip(*columns)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_facts(title: str, facts: Sequence[tuple[str, str]]) -> str:
    """A heading with facts below it, one per line."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in facts
    )
    return f"<div><strong>{escape(title)}</strong><table><tbody>{rows}</tbody></table></div>"


def html_text(text: str) -> str:
    """Text whose line breaks and indents count, such as a plan."""
    return f"<pre>{escape(text)}</pre>"
