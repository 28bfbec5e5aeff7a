"""A stream in one line, and with its lifetimes, properties and plan for a notebook."""

from __future__ import annotations

from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.source import Source
from anabranch.display.schema_text import columns_text, type_text
from anabranch.display.text_table import html_facts, html_table, html_text


def stream_line(name: str | None, node: Node) -> str:
    """`Stream Bid[item: bigint, price: double]; rows hold for one instant; ...`."""
    called = name or (node.name if isinstance(node, Source) else "")
    head = f"Stream {called}".rstrip()
    return f"{head}[{columns_text(node.schema)}]; {_lifetimes(node)}, {_times(node)}"


def stream_html(name: str | None, node: Node) -> str:
    """The columns, then what is known of lifetimes and rows, then the plan as a tree."""
    called = name or (node.name if isinstance(node, Source) else "")
    facts = [
        ("lifetimes", _lifetimes(node)),
        ("times", _times(node)),
        ("properties", node.properties.label),
    ]
    columns = [list(node.schema.names), [type_text(each.type) for each in node.schema]]
    return (
        f"{html_facts(f'Stream {called}'.rstrip(), facts)}"
        f"{html_table(['column', 'type'], columns, set())}{html_text(tree_text(node))}"
    )


def tree_text(node: Node, depth: int = 0) -> str:
    """A plan as a tree: an operator per line, its inputs below it."""
    lines = ["  " * depth + node.label]
    lines += [tree_text(each, depth + 1) for each in node.inputs]
    return "\n".join(lines)


def _lifetimes(node: Node) -> str:
    if isinstance(node, Source) and node.relation:
        return "a table that does not change"
    return "rows hold for one instant" if node.properties.only_points else "rows have lifetimes"


def _times(node: Node) -> str:
    clock = clock_of(node)
    if clock.timestamps:
        return "times are timestamps"
    return f"times are whole numbers{f' of {clock.label}' if clock.label else ''}"
