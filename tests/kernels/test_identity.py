"""What a plan is called in a checkpoint: the same for equal plans, whatever its classes are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, make_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.errors import EngineError
from anabranch.expressions.expression import Expression
from anabranch.kernels.contract.kernel import Stateful
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.identity import plan_fingerprint, stage_fingerprints, state_forms
from anabranch.model.identity import Identity, KnownHashes, fingerprint, identity_of, signature
from anabranch.model.time import Duration
from tests.kernels.identities import DECLARED, OPERATOR_CLASSES
from tests.kernels.operators import OPERATORS
from tests.kernels.plans import SOURCE
from tests.optimizer.plans import plans


@pytest.mark.parametrize("kind", OPERATOR_CLASSES, ids=lambda kind: kind.__name__)
def test_every_operator_says_what_it_is(kind: type) -> None:
    declared = vars(kind).get("identity")
    assert isinstance(declared, Identity)
    assert declared.by_hash == issubclass(kind, Node)
    assert bool(declared.form) == issubclass(kind, Stateful)


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.__name__)
def test_every_field_has_a_part_in_it_or_a_reason_for_none(kind: Any) -> None:
    declared = kind.identity
    paths = [each.partition("=")[2] or each for each in (*declared.parameters, *declared.form)]
    for path in paths:
        assert hasattr(kind, path.split(".")[0]) or path in _names(kind), path
    used = {path.split(".")[0] for path in paths}
    assert not used & declared.ignored.keys()
    assert _names(kind) <= used | declared.ignored.keys()
    assert declared.ignored.keys() <= _names(kind)
    assert all(declared.ignored.values())


def _names(kind: Any) -> set[str]:
    return {each.name for each in fields(kind)}


def test_no_name_stands_for_two_things() -> None:
    assert len(OPERATOR_CLASSES) >= 45
    names = Counter(kind.identity.name for kind in DECLARED)  # type: ignore[attr-defined]
    assert not [name for name, count in names.items() if count > 1]
    assert not [name for name in names if name.startswith("@")]


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_equal_operators_and_only_those_have_one_signature(name: str, data: st.DataObject) -> None:
    one, other = data.draw(OPERATORS[name]), data.draw(OPERATORS[name])
    assert (one == other) == (signature(one) == signature(other))


@given(plans(), plans())
def test_equal_plans_and_only_those_have_one_signature(one: Node, other: Node) -> None:
    assert (one == other) == (signature(one) == signature(other))
    nodes = {*one.walk(), *other.walk()}
    assert len({fingerprint(node) for node in nodes}) == len(nodes)


@given(plans(), plans())
def test_stages_of_different_state_have_different_fingerprints(one: Node, other: Node) -> None:
    first, second = compile_plan(one), compile_plan(other)
    marks, others = stage_fingerprints(first), stage_fingerprints(second)
    for stage in first.stages:
        for each in second.stages:
            if marks[stage.name] == others[each.name]:
                assert stage.kernels == each.kernels
                assert state_forms(stage) == state_forms(each)
    if one == other:
        assert plan_fingerprint(first) == plan_fingerprint(second)
    if plan_fingerprint(first) == plan_fingerprint(second):
        assert [stage.kernels for stage in first.stages] == [
            stage.kernels for stage in second.stages
        ]


def test_an_operator_differs_in_each_of_its_parameters() -> None:
    text = signature(Distinct(input=SOURCE))
    assert text.startswith('{"Distinct":{"input":{"@node":"')
    both = [TimeWindow(input=SOURCE, size=Duration(size)) for size in (1, 2)]
    assert signature(both[0]) != signature(both[1])
    sources = [
        Source(name="s", schema=SOURCE.schema),
        Source(name="t", schema=SOURCE.schema),
        Source(name="s", schema=SOURCE.schema, insert_only=True),
        Source(name="s", schema=SOURCE.schema, timestamps=True),
        Source(name="s", schema=SOURCE.schema, timestamps=True, chronon=1000),
        Source(name="s", schema=SOURCE.schema.append(pa.field("more", pa.int64()))),
        Source(name="s", schema=SOURCE.schema, copies=True),
    ]
    assert len({signature(each) for each in sources}) == len(sources)


def test_the_usual_chronon_may_be_said_or_not() -> None:
    said, unsaid = (
        Source(name="s", schema=SOURCE.schema, timestamps=True, chronon=chronon)
        for chronon in (1, None)
    )
    assert signature(said) == signature(unsaid)


def test_neither_a_new_name_of_a_class_nor_a_new_field_with_a_default_counts() -> None:
    declared = Identity("Window", ("size", "slide"))
    old = make_dataclass("Old", [("size", int), ("slide", int, 1)])
    new = make_dataclass("New", [("more", int, 7), ("length", int, 3), ("slide", int, 1)])
    old.identity = declared  # type: ignore[attr-defined]
    new.identity = Identity("Window", ("size=length", "slide", "more"))  # type: ignore[attr-defined]
    assert signature(old(3)) == '{"Window":{"size":3}}'
    assert signature(new(length=4)) == '{"Window":{"size":4}}'
    assert signature(new(length=4, more=8)) == '{"Window":{"more":8,"size":4}}'


def test_no_plan_changes_when_classes_are_renamed_and_moved() -> None:
    plan = compile_plan(Distinct(input=TimeWindow(input=SOURCE, size=Duration(3))), emit="final")
    before = plan_fingerprint(plan), [state_forms(stage) for stage in plan.stages]
    kinds = list(dict.fromkeys([*DECLARED, *OPERATOR_CLASSES]))
    names = [(kind.__name__, kind.__qualname__, kind.__module__) for kind in kinds]
    try:
        _rename(kinds, [(f"Renamed{at}", f"Renamed{at}", "elsewhere") for at in range(len(kinds))])
        assert "Renamed" in repr(plan)
        assert (plan_fingerprint(plan), [state_forms(stage) for stage in plan.stages]) == before
    finally:
        _rename(kinds, names)


def _rename(kinds: list[type], names: list[tuple[str, str, str]]) -> None:
    for kind, new in zip(kinds, names, strict=True):
        kind.__name__, kind.__qualname__, kind.__module__ = new


def test_values_of_different_types_are_told_apart() -> None:
    some: list[object] = [
        *(None, True, False, 0, 1, 1.0, -0.0, float("nan"), "1", b"1", Decimal(1), [1], {1}),
        *({1: 1}, {"1": 1}, date(2026, 1, 1), datetime(2026, 1, 1), "@float", {"@float": "1.0"}),
        *(pa.int64(), pa.int32(), "int64", pa.list_(pa.int64()), pa.timestamp("us")),
        *(pa.timestamp("us", "UTC"), pa.decimal128(5, 2), pa.decimal128(5, 1), pa.schema([])),
        *(pa.schema([("a", pa.int64())]), pa.schema([pa.field("a", pa.int64(), nullable=False)])),
        *(
            pa.struct([("a", pa.int64())]),
            pa.struct([("b", pa.int64())]),
            pa.date32(),
            pa.time64("us"),
        ),
    ]
    assert len({signature(each) for each in some}) == len(some)


def test_a_shared_input_is_written_once() -> None:
    node: Node = Filter(input=SOURCE, predicate=Expression.parse("v > 1", SOURCE.schema))
    for _ in range(30):
        node = Union(inputs=(node, node))
    assert len(fingerprint(node)) == 16


def test_what_says_nothing_of_itself_has_no_signature() -> None:
    @dataclass(frozen=True)
    class Stranger:
        kind: ClassVar[str] = "stranger"

    with pytest.raises(EngineError, match="a Stranger has no identity"):
        identity_of(Stranger())


def test_hashes_that_are_known_are_those_that_would_be_computed() -> None:
    """With one dictionary for a whole plan, in any order of its parts."""
    source = Source(name="S", schema=pa.schema([("v", pa.int64())]))
    plan = Union(inputs=(Distinct(input=source), source, Distinct(input=Distinct(input=source))))
    for nodes in (list(plan.walk()), list(plan.walk())[::-1]):
        known: KnownHashes = {}
        assert [fingerprint(node, known) for node in nodes] == [fingerprint(node) for node in nodes]
