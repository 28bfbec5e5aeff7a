"""Calls that do not fit are refused with the signature; what fits can be sent anywhere."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pytest
from tests.userops.asking import bound, value

import anabranch as ab
from anabranch.model.time import Duration
from anabranch.userops.definition import Definition
from anabranch.userops.shipped.mean import Mean, mean_plain
from anabranch.userops.shipped.quantile import Quantile

T = TypeVar("T")


@ab.uda
def weighted(
    prices: list[float],
    sizes: list[int],
    *,
    q: float,
    mode: Literal["low", "high"] = "low",
    within: Duration | None = None,
) -> float:
    return q


DOUBLE, BIGINT, STRING = pa.float64(), pa.int64(), pa.string()


@pytest.mark.parametrize(
    ("types", "given", "named", "what"),
    [
        ([DOUBLE], [0.5], {}, "weighted takes 2 columns, not 1"),
        ([STRING, BIGINT], [0.5], {}, "weighted takes DOUBLE for 'prices', not STRING"),
        ([DOUBLE, DOUBLE], [0.5], {}, "weighted takes BIGINT for 'sizes', not DOUBLE"),
        ([DOUBLE, BIGINT], [], {}, "weighted needs the parameter 'q'"),
        ([DOUBLE, BIGINT], ["x"], {}, "'q' of weighted is 'x', but must be a DOUBLE"),
        ([DOUBLE, BIGINT], [True], {}, "'q' of weighted is True, but must be a DOUBLE"),
        ([DOUBLE, BIGINT], [0.5], {"within": float("inf")}, "must be a duration"),
        ([DOUBLE, BIGINT], [None], {}, "'q' of weighted is None, but must be a DOUBLE"),
        ([DOUBLE, BIGINT], [0.5], {"Q": 0.5}, "the parameter 'Q' of weighted is set twice"),
        ([DOUBLE, BIGINT], [0.5], {"modus": 1}, "no parameter 'modus'; did you mean 'mode'?"),
        ([DOUBLE, BIGINT], [0.5, "mid"], {}, "must be one of 'low', 'high'"),
        ([DOUBLE, BIGINT], [0.5, "low", "soon"], {}, "must be a duration"),
        ([DOUBLE, BIGINT], [1, "low", 1, 1], {}, "weighted has 3 parameters, not 4"),
    ],
)
def test_a_call_that_does_not_fit_shows_the_signature(
    types: Sequence[pa.DataType], given: Sequence[Any], named: dict[str, Any], what: str
) -> None:
    with pytest.raises(ab.QueryError) as refusal:
        weighted.bind(types, given, named)
    assert what in refusal.value.what
    assert refusal.value.hint == (
        "its signature is weighted(prices DOUBLE, sizes BIGINT, q DOUBLE, mode STRING => 'low', "
        "within DURATION => NULL) -> DOUBLE"
    )


def test_a_class_may_refuse_its_parameters() -> None:
    with pytest.raises(ab.QueryError, match="quantile rejects its parameters: q is 2"):
        bound(Quantile, float, q=2)


def test_parameters_of_an_open_type_have_the_type_of_the_column() -> None:
    @ab.uda
    def count_of(values: list[T], *, wanted: T) -> int:
        return values.count(wanted)

    assert value(bound(count_of, str, wanted="a"), ["a", "b", "a"]) == 2
    with pytest.raises(ab.QueryError, match="'wanted' of count_of is 1, but must be a STRING"):
        bound(count_of, str, wanted=1)


@pytest.mark.parametrize("module", [Mean, mean_plain, Quantile, weighted])
def test_what_can_be_imported_is_sent_by_its_name(module: Any) -> None:
    assert pickle.loads(pickle.dumps(module)) is module
    definition = module.declaration.definition
    sent = pickle.dumps(definition)
    assert pickle.loads(sent) == definition
    assert module.__wrapped__.__qualname__.encode() in sent
    assert len(sent) < 200


def test_a_bound_module_survives_being_sent() -> None:
    module = bound(Quantile, "INT", q=0.25)
    sent = pickle.loads(pickle.dumps(module))
    assert sent == module
    assert value(sent, [4, 1, 2]) == value(module, [4, 1, 2]) == 1.5


def test_a_plan_says_the_same_of_a_module_in_every_process() -> None:
    code = (
        "import pyarrow as pa; from anabranch.userops.shipped.mean import Mean; "
        "print(repr(Mean.bind([pa.float64()])))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_the_code_of_a_script_goes_with_the_module() -> None:
    pytest.importorskip("pyspark")
    script = """
import math, sys
import pyarrow as pa
import anabranch as ab
from anabranch.runtime.spark.shipping import packed

@ab.uda
def circle(radii: list[float], *, times: int = 1) -> float:
    return times * math.pi * len(radii) + (circle([], times=0) if radii else 0.0)

@ab.uda
class Last:
    def compute(self, values: list[float]) -> float:
        return values[-1]

sys.stdout.buffer.write(packed((circle.bind([pa.float64()]), Last.bind([pa.float64()]))))
"""
    command, path = [sys.executable, "-c", script], ":".join(sys.path)
    done = subprocess.run(command, capture_output=True, check=True, env={"PYTHONPATH": path})
    from anabranch.runtime.spark.shipping import unpacked

    circle, last = unpacked(done.stdout)
    assert value(circle, [1.0]) == pytest.approx(3.14159, abs=1e-5)
    assert value(last, [1.0, 2.0]) == 2.0


def test_the_location_of_a_definition_is_its_file_and_line() -> None:
    assert weighted.declaration.definition.location.startswith("test_decorated_operator.py:")
    assert Definition(Mean.__wrapped__).location.startswith("mean.py:")  # type: ignore[attr-defined]
