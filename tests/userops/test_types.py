"""Types as authors of modules write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Optional, TypeVar, get_type_hints

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.userops.types import (
    ListOf,
    Open,
    UnknownTypeError,
    conversion,
    form_of,
    resolved,
    show_form,
    taken,
    widens,
)

T = TypeVar("T")
Number = TypeVar("Number", int, float)

NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, pa.int64()),
        (float, pa.float64()),
        (str, pa.string()),
        (bool, pa.bool_()),
        (bytes, pa.binary()),
        (datetime, pa.timestamp("us", tz="UTC")),
        (date, pa.date32()),
        (list[int], pa.list_(pa.int64())),
        (Sequence[list[str]], pa.list_(pa.list_(pa.string()))),
        ("BIGINT", pa.int64()),
        ("DECIMAL(10,2)", pa.decimal128(10, 2)),
        (Annotated[Decimal, "DECIMAL(10, 2)"], pa.decimal128(10, 2)),
        (Any, Open()),
        (T, Open("T")),
        (list[T], ListOf(Open("T"))),  # type: ignore[valid-type]
        (Number, Open("Number", (pa.int64(), pa.float64()))),
    ],
)
def test_annotations_and_texts_are_types_of_arrow(annotation: Any, expected: Any) -> None:
    assert form_of(annotation) == (expected, False)


def _old() -> Optional[float]:  # noqa: UP045 - as many still write it
    return None


@pytest.mark.parametrize("annotation", [float | None, get_type_hints(_old)["return"]])
def test_none_says_that_null_is_a_value(annotation: Any) -> None:
    assert form_of(annotation) == (pa.float64(), True)


@pytest.mark.parametrize("annotation", [Decimal, object, int | str, complex, "NUMBERISH", None])
def test_what_is_no_type_of_a_column_is_refused(annotation: Any) -> None:
    with pytest.raises(UnknownTypeError):
        form_of(annotation)


@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS))
def test_only_what_loses_nothing_widens_among_numbers(one: pa.DataType, two: pa.DataType) -> None:
    whole = pa.types.is_integer(one) and pa.types.is_integer(two)
    wider = whole and two.bit_width >= one.bit_width
    assert widens(one, two) == (one == two or wider or two == pa.float64())


def test_texts_and_numbers_do_not_become_each_other() -> None:
    assert not widens(pa.string(), pa.float64())
    assert not widens(pa.int64(), pa.string())
    assert not widens(pa.float64(), pa.int64())
    assert not widens(pa.bool_(), pa.int64())


def test_null_goes_everywhere() -> None:
    assert widens(pa.null(), pa.float64())
    assert widens(pa.null(), pa.string())


def test_large_texts_and_lists_count_as_what_they_are() -> None:
    assert widens(pa.large_string(), pa.string())
    assert widens(pa.list_(pa.int32()), pa.list_(pa.float64()))


def test_one_type_variable_is_one_type() -> None:
    known: dict[str, pa.DataType] = {}
    assert taken(Open("T"), pa.string(), known) == pa.string()
    assert taken(Open("T"), pa.int64(), known) is None
    assert taken(ListOf(Open("T")), pa.list_(pa.string()), known) == pa.list_(pa.string())
    assert resolved(ListOf(Open("T")), known) == pa.list_(pa.string())


def test_any_may_be_another_type_every_time() -> None:
    known: dict[str, pa.DataType] = {}
    assert taken(Open(), pa.string(), known) == pa.string()
    assert taken(Open(), pa.int64(), known) == pa.int64()


def test_a_type_variable_with_choices_takes_the_first_that_fits() -> None:
    form, _ = form_of(Number)
    assert taken(form, pa.int32(), {}) == pa.int64()
    assert taken(form, pa.float32(), {}) == pa.float64()
    assert taken(form, pa.string(), {}) is None


def test_values_are_converted_where_python_would_tell_them_apart() -> None:
    as_float = conversion(pa.int32(), pa.float64())
    assert as_float is not None
    assert isinstance(as_float(3), float)
    each = conversion(pa.list_(pa.int32()), pa.list_(pa.float64()))
    assert each is not None
    assert each([1, None]) == [1.0, None]
    assert conversion(pa.int32(), pa.int64()) is None
    exact = conversion(pa.int32(), pa.decimal128(10, 2))
    assert exact is not None
    assert exact(3) == Decimal(3)


def test_forms_are_shown_as_sql_writes_them() -> None:
    assert show_form(pa.list_(pa.decimal128(10, 2))) == "ARRAY<DECIMAL(10, 2)>"
    assert show_form(ListOf(Open("T"))) == "ARRAY<T>"
    assert show_form(Open()) == "ANY"
