"""A node says whether it remembers, and its kernel does as it says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch
from anabranch.algebra.merge import Merge
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.kernels.contract.kernel import Stateless
from anabranch.kernels.plan.catalog import kernel_of
from anabranch.model.time import Duration
from tests.kernels.operators import OPERATORS, OTHER
from tests.kernels.plans import SOURCE
from tests.optimizer.plans import plans


def assert_kernels_remember_as_nodes_say(plan: Node) -> None:
    for node in plan.walk():
        if isinstance(node, Source | Union):
            assert not node.remembers
        else:
            assert node.remembers != isinstance(kernel_of(node), Stateless), node.label


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_a_kernel_has_state_where_its_node_remembers(name: str, data: st.DataObject) -> None:
    assert_kernels_remember_as_nodes_say(data.draw(OPERATORS[name]))


@given(plans())
def test_so_it_is_in_drawn_plans(plan: Node) -> None:
    assert_kernels_remember_as_nodes_say(plan)


def test_so_it_is_with_what_no_draw_has() -> None:
    window = WeightedWindow(
        input=SOURCE, size=Duration(4), slide=Duration(2), granule=Duration(2), weight="w"
    )
    assert_kernels_remember_as_nodes_say(window)
    assert_kernels_remember_as_nodes_say(Merge(inputs=(SOURCE, OTHER)))


def test_only_the_compiler_makes_kernels() -> None:
    """Nobody makes a kernel to find something out about a plan."""
    source = Path(anabranch.__file__).parent
    users = [
        path
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and "kernel_of" in [each.name for each in node.names]
    ]
    assert {str(path.relative_to(source)) for path in users} == {"kernels/plan/compile.py"}
