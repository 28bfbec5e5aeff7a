"""Every rule keeps the meaning, wherever it applies."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import optimizer
from anabranch.algebra.node import Node
from anabranch.algebra.union import columns_of
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.rules import ALTERNATIVES, ROOTS, RULES, Rule, rules_at
from tests.optimizer.patterns import PATTERNS, patterns
from tests.optimizer.plans import FEW, assert_same, inputs, plans

EVERY = {rule.__name__: rule for rule in (*RULES, *ALTERNATIVES)}


def test_every_rule_has_a_pattern_and_a_file() -> None:
    assert PATTERNS.keys() == EVERY.keys()
    folder = Path(optimizer.__file__).parent / "rules"
    assert {path.stem for path in folder.glob("[!_]*.py")} == EVERY.keys()


@pytest.mark.parametrize("name", sorted(EVERY))
@FEW
@given(data=st.data())
def test_a_rule_applies_and_keeps_the_meaning(name: str, data: st.DataObject) -> None:
    rule = EVERY[name]
    before = data.draw(patterns(name))
    streams = data.draw(inputs(before))
    after = rule(before)
    assert after is not None, f"{name} does not apply"
    assert rule in rules_at(type(before), (*RULES, *ALTERNATIVES))
    assert columns_of(after.schema) == columns_of(before.schema)
    assert_same(before, after, streams)
    assert_ends(rule, after)


@given(plans())
def test_a_rule_gives_nothing_where_it_is_not_tried(plan: Node) -> None:
    for node in plan.walk():
        elsewhere = [rule for rule in EVERY.values() if not isinstance(node, ROOTS[rule])]
        assert [rule.__name__ for rule in elsewhere if rule(node) is not None] == []


def assert_ends(rule: Rule, node: Node) -> None:
    """It does not apply for ever to what it makes itself."""
    found: Node | None = node
    for _ in range(20):
        found = None if found is None else rule(found)
    assert found is None


@given(st.data())
def test_a_rule_alone_keeps_the_meaning_of_any_plan(data: st.DataObject) -> None:
    plan = data.draw(plans())
    rules = data.draw(st.lists(st.sampled_from(RULES), min_size=1, max_size=5))
    found = optimize(plan, rules=rules, alternatives=())
    assert_same(plan, found.node, data.draw(inputs(plan)))


def test_every_rule_is_on_the_page_about_the_optimizer() -> None:
    page = (Path(__file__).parents[2] / "docs" / "optimizer.md").read_text(encoding="utf-8")
    assert not [name for name in EVERY if f"| `{name}` |" not in page]


def test_every_rule_says_its_equation() -> None:
    for rule in EVERY.values():
        assert "->" in str(rule.__doc__).split("\n\n")[0], rule.__name__
