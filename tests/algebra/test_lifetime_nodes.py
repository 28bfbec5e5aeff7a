"""Operators on lifetimes: what they show, promise, claim and refuse."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.clip import Clip
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.to_stream import ToStream
from anabranch.errors import PlanError
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.explain import explain_stages
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time

BIDS = pa.schema([("itemID", pa.int64()), ("price", pa.float64())])
BID = Source(name="Bid", schema=BIDS, insert_only=True, only_points=True, timestamps=True)
ANY = Source(name="Any", schema=BIDS)
MINUTE = Duration(60_000_000)

LABELS: list[tuple[Node, str]] = [
    (Granularity(input=BID, granule=MINUTE), "Granularity 1m"),
    (Granularity(input=ANY, granule=MINUTE), "Granularity 60000000"),
    (Split(input=BID, length=MINUTE), "Split 1m"),
    (ToStream(input=BID, kind="insertions"), "Istream"),
    (ToStream(input=BID, kind="deletions"), "Dstream"),
    (ToStream(input=BID, kind="deletions", anchor="first_invalid"), "Dstream first_invalid"),
    (ToStream(input=BID, kind="snapshots"), "Rstream"),
    (ToSigned(input=BID), "ToSigned"),
    (FromSigned(input=ToSigned(input=BID, column="edge"), column="edge"), "FromSigned edge"),
    (Cleanse(input=BID), "Cleanse"),
    (Cleanse(input=BID, cut=False), "Cleanse whole events"),
    (Shift(input=BID, by=-MINUTE), "Shift -1m"),
    (Clip(input=ANY, start=Time(5)), "Clip [5, forever)"),
    (Clip(input=BID, end=Time(0)), "Clip [-forever, 1970-01-01T00:00:00)"),
    (AlterLifetime(input=BID, duration=MINUTE), "AlterLifetime duration 1m"),
    (AlterLifetime(input=BID, extend=MINUTE), "AlterLifetime extend 1m"),
    (AlterLifetime(input=BID, at_most=MINUTE), "AlterLifetime at most 1m"),
]


@pytest.mark.parametrize(("node", "label"), LABELS, ids=[label for _, label in LABELS])
def test_labels_show_the_arguments(node: Node, label: str) -> None:
    assert node.label == label
    assert pickle.loads(pickle.dumps(node)) == node
    assert node.with_inputs(*node.inputs) == node
    assert hash(node) == hash(node.with_inputs(*node.inputs))


def test_signs_are_one_more_column() -> None:
    signed = ToSigned(input=ANY)
    assert signed.schema == pa.schema([*BIDS, ("sign", pa.int8())])
    assert FromSigned(input=signed).schema == BIDS


POINTS = Properties(insert_only=True, only_points=True)
CLAIMS: list[tuple[Node, Properties]] = [
    (Granularity(input=BID, granule=MINUTE), Properties(insert_only=True)),
    (Granularity(input=BID, granule=Duration(1)), POINTS),
    (Split(input=BID, length=MINUTE), POINTS),
    (Split(input=ANY, length=MINUTE), Properties()),
    (ToStream(input=BID, kind="insertions"), Properties(only_points=True)),
    (ToStream(input=ANY, kind="deletions"), Properties(only_points=True)),
    (ToStream(input=ANY, kind="snapshots"), Properties()),
    (ToSigned(input=ANY), Properties(only_points=True)),
    (FromSigned(input=ToSigned(input=BID)), Properties()),
    (Cleanse(input=ANY), Properties(insert_only=True)),
    (Cleanse(input=BID), POINTS),
    (Shift(input=BID, by=5), POINTS),
    (Shift(input=BID, by=-5), Properties(insert_only=True)),
    (Clip(input=BID, start=Time(5)), POINTS),
    (AlterLifetime(input=BID, duration=MINUTE), Properties()),
    (AlterLifetime(input=ANY, at_most=Duration(1)), Properties(only_points=True)),
]


@pytest.mark.parametrize(("node", "known"), CLAIMS, ids=[node.label for node, _ in CLAIMS])
def test_what_is_known_of_the_output(node: Node, known: Properties) -> None:
    found = node.properties
    told = Properties(
        insert_only=found.insert_only,
        only_points=found.only_points,
        no_duplicates=found.no_duplicates,
    )
    assert told == known


@pytest.mark.parametrize(
    ("node", "stable", "promised"),
    [
        (Granularity(input=ANY, granule=Duration(5)), 10, 10),
        (Granularity(input=ANY, granule=Duration(5)), 11, 15),
        (Granularity(input=ANY, granule=Duration(5)), -11, -10),
        (Granularity(input=ANY, granule=Duration(5)), BEGINNING, BEGINNING),
        (Granularity(input=ANY, granule=Duration(5)), FOREVER - 1, FOREVER),
        (Shift(input=ANY, by=5), 10, 15),
        (Shift(input=ANY, by=5), FOREVER - 3, FOREVER),
        (Shift(input=ANY, by=5), BEGINNING, BEGINNING),
        (Shift(input=ANY, by=-5), BEGINNING + 3, BEGINNING),
        (Shift(input=ANY, by=-5), FOREVER, FOREVER),
        (Clip(input=ANY, start=Time(5), end=Time(9)), BEGINNING, 5),
        (Clip(input=ANY, start=Time(5), end=Time(9)), 8, 8),
        (Clip(input=ANY, start=Time(5), end=Time(9)), 9, FOREVER),
        (ToStream(input=ANY, kind="deletions"), 8, 7),
        (ToStream(input=ANY, kind="insertions"), 8, 8),
        (AlterLifetime(input=ANY, extend=Duration(5)), 8, 8),
        (Cleanse(input=ANY), 8, 8),
    ],
)
def test_how_far_the_output_is_settled(node: Node, stable: int, promised: int) -> None:
    assert node.promise(Time(stable)) == promised


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Granularity(input=ANY, granule=Duration(0)), "a granule cannot have size 0"),
        (lambda: Split(input=ANY, length=Duration(FOREVER)), "cannot be cut into pieces"),
        (lambda: ToStream(input=ANY, kind=any_of("all")), "cannot be made of all"),
        (
            lambda: ToStream(input=ANY, kind="deletions", anchor=any_of("now")),
            "cannot be placed at 'now'",
        ),
        (lambda: ToSigned(input=ANY, column="price"), "there are 2 columns 'price'"),
        (lambda: FromSigned(input=ANY), "there is no column 'sign' with signs"),
        (lambda: FromSigned(input=ANY, column="price"), "of type double cannot hold signs"),
        (lambda: Shift(input=ANY, by=FOREVER), "cannot be moved by"),
        (lambda: Clip(input=ANY), "needs a start or an end"),
        (lambda: Clip(input=ANY, start=Time(5), end=Time(5)), "no instant between 5 and 5"),
        (lambda: AlterLifetime(input=ANY), "one of three arguments, not 0"),
        (
            lambda: AlterLifetime(input=ANY, extend=Duration(1), at_most=Duration(2)),
            "one of three arguments, not 2",
        ),
        (lambda: AlterLifetime(input=ANY, duration=Duration(0)), "cannot change by 0"),
    ],
)
def test_nonsense_is_refused(build: Callable[[], Node], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        build()


def any_of(value: str) -> Any:
    return value


def test_signs_stay_in_the_stage_of_their_lifetimes() -> None:
    there_and_back = FromSigned(input=ToSigned(input=ToStream(input=ANY, kind="insertions")))
    assert explain_stages(compile_plan(there_and_back)) == (
        "Stage 0-istream (by payload)\n  reads source:Any\n  Istream\n  ToSigned\n  FromSigned"
    )


def test_points_are_not_cut() -> None:
    assert explain_stages(compile_plan(ToStream(input=BID, kind="snapshots"))) == (
        "Stage 0-collect (by sender)\n  reads source:Bid -> Rstream [points]"
    )
