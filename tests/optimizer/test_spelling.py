"""One spelling of a condition says what every other one says, for NULL and NaN, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.expressions.expression import Expression
from anabranch.expressions.scalar_sql import DIALECT
from anabranch.optimizer.meaning.conditions import conditions_of, form_of
from anabranch.optimizer.meaning.spelling import spelled

NAN: Final = float("nan")
SCHEMA: Final = pa.schema(
    [
        *(("v", pa.int64()), ("i", pa.int32()), ("x", pa.float64()), ("y", pa.float64())),
        *(("f", pa.float32()), ("q", pa.decimal128(6, 2)), ("k", pa.string()), ("b", pa.bool_())),
        ("a", pa.list_(pa.float64())),
    ]
)
COLUMNS: Final = {name: index for index, name in enumerate(SCHEMA.names)}
NUMBERS: Final = ("v", "i", "x", "y", "f", "q", "x * 2", "coalesce(x, y)", "v % 2")
CONSTANTS: Final = (
    *(("1", "3 - 2"), ("10", "5 + 5"), ("-1", "1 - 2"), ("0", "2 * 0"), ("1.5", "1.5")),
    *(("1e1", "10e0"), ("2e0", "1e0 + 1e0"), ("4294967296", "4294967295 + 1")),
)
OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True)
class Condition:
    """A condition, as it is meant, and the words of two authors for it."""

    one: str
    other: str


def of(text: str) -> Expression:
    return Expression.parse(text, SCHEMA)


@st.composite
def constants(draw: st.DrawFn) -> Condition:
    one, other = draw(st.sampled_from(CONSTANTS))
    return Condition(one, draw(st.sampled_from([one, other])))


@st.composite
def atoms(draw: st.DrawFn) -> Condition:
    same = draw(st.sampled_from(NUMBERS))
    match draw(st.sampled_from(["compare", "compare", "between", "in", "null", "text", "array"])):
        case "compare":
            sign = draw(st.sampled_from(sorted(OPPOSITE)))
            # A BIGINT may have more digits than a DECIMAL, so `q < v` keeps its spelling.
            columns = st.sampled_from(["x", "y"] if same == "q" else ["x", "y", "v"])
            right = draw(constants() | columns.map(lambda c: Condition(c, c)))
            others = [
                f"{same} {sign} {right.other}",
                f"{right.other} {MIRRORED[sign]} {same}",
                f"NOT ({same} {OPPOSITE[sign]} {right.other})",
                f"NOT NOT {same} {sign} {right.other}",
            ]
            return Condition(f"{same} {sign} {right.one}", draw(st.sampled_from(others)))
        case "between":
            low, high = draw(constants()), draw(constants())
            others = [
                f"{same} BETWEEN {low.other} AND {high.other}",
                f"{same} >= {low.other} AND {high.other} >= {same}",
                f"NOT ({same} < {low.other} OR {same} > {high.other})",
                f"NOT {same} NOT BETWEEN {low.other} AND {high.other}",
            ]
            return Condition(
                f"{same} BETWEEN {low.one} AND {high.one}", draw(st.sampled_from(others))
            )
        case "in":
            values = draw(st.lists(st.sampled_from(["1", "2", "-1", "10"]), min_size=1, max_size=4))
            mixed = draw(st.permutations(values))
            others = [
                f"{same} IN ({', '.join(mixed)})",
                " OR ".join(f"{each} = {same}" for each in mixed),
                f"NOT ({' AND '.join(f'{same} <> {each}' for each in mixed)})",
                f"NOT {same} NOT IN ({', '.join(mixed)})",
            ]
            return Condition(f"{same} IN ({', '.join(values)})", draw(st.sampled_from(others)))
        case "null":
            others = [f"{same} IS NULL", f"NOT {same} IS NOT NULL"]
            return Condition(f"{same} IS NULL", draw(st.sampled_from(others)))
        case "array":
            others = ["a = array(x, y)", "NOT (array(x, y) <> a)"]
            return Condition("a = array(x, y)", draw(st.sampled_from(others)))
    one, *others = draw(
        st.sampled_from(
            [
                ("k LIKE 'a%'", "NOT k NOT LIKE 'a%'"),
                ("k = 'a' OR k = 'b'", "k IN ('b', 'a')", "NOT k NOT IN ('a', 'b', 'a')"),
                ("b", "NOT NOT b", "NOT (NOT b)"),
                ("k < 'b'", "NOT 'b' <= k"),
                ("v <=> i", "NOT v IS DISTINCT FROM i", "i <=> v"),
                ("b AND 1 < 2", "b", "b OR NOT 1 = 1", "(b AND b) OR b"),
                ("1 > 2", "FALSE", "NOT 2 > 1", "b AND 3 - 1 < 2", "v = 1 AND FALSE"),
            ]
        )
    )
    return Condition(one, draw(st.sampled_from([one, *others])))


def combined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    @st.composite
    def build(draw: st.DrawFn) -> Condition:
        parts = draw(st.lists(inner, min_size=1, max_size=3))
        if len(parts) == 1:
            (part,) = parts
            return Condition(f"NOT ({part.one})", f"NOT ({part.other})")
        word, dual = draw(st.permutations(["AND", "OR"]))
        shuffled = draw(st.permutations([*parts, parts[0]]))
        one = f" {word} ".join(f"({part.one})" for part in parts)
        others = [
            f" {word} ".join(f"({part.other})" for part in shuffled),
            f"NOT ({f' {dual} '.join(f'NOT ({part.other})' for part in shuffled)})",
        ]
        return Condition(one, draw(st.sampled_from(others)))

    return build()


conditions = st.recursive(atoms(), combined, max_leaves=6)
floats = st.sampled_from([None, NAN, float("inf"), -float("inf"), -0.0, 0.0, 1.0, 1.5, 2.0, 10.0])
rows = st.lists(
    st.tuples(
        st.sampled_from([None, -1, 0, 1, 2, 10, 2**62, 4294967296]),
        st.sampled_from([None, -1, 0, 1, 2, 10]),
        floats,
        floats,
        floats,
        st.sampled_from([None, "-1.00", "0.00", "1.00", "1.50", "10.00"]),
        st.sampled_from([None, "", "a", "ab", "b"]),
        st.sampled_from([None, True, False]),
        st.sampled_from([None, [], [NAN, None], [1.0, NAN], [None, None], [0.0, 0.0]]),
    ),
    min_size=1,
    max_size=8,
)


def batch_of(drawn: list[tuple[object, ...]]) -> pa.RecordBatch:
    arrays = []
    for field, values in zip(SCHEMA, zip(*drawn)):
        text = pa.types.is_decimal(field.type)
        found = pa.array(list(values), pa.string() if text else field.type)
        arrays.append(found.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@given(conditions, rows)
@example(Condition("q < -1", "-1 > q"), [(None,) * len(SCHEMA)])
def test_the_one_spelling_has_the_same_value_for_every_row(
    drawn: Condition, data: list[tuple[object, ...]]
) -> None:
    batch = batch_of(data)
    expression = of(drawn.one)
    tree = spelled(expression)
    assert tree is not None
    found = of(tree.sql(dialect=DIALECT))
    expected = expression.evaluate(batch, len(data)).to_pylist()
    assert found.evaluate(batch, len(data)).to_pylist() == expected, found.sql


@given(conditions, rows)
@example(Condition("v < 1 AND (v < 1 OR 1 > 2)", "v < 1"), [(None,) * len(SCHEMA)])
@example(Condition("b AND ((b AND v < 1) OR 1 > 2)", "v < 1 AND b"), [(None,) * len(SCHEMA)])
def test_what_two_authors_write_has_one_form_and_one_value(
    drawn: Condition, data: list[tuple[object, ...]]
) -> None:
    one, other = of(drawn.one), of(drawn.other)
    assert form_of(one, COLUMNS) == form_of(other, COLUMNS)
    assert conditions_of(one, COLUMNS) == conditions_of(other, COLUMNS)
    batch = batch_of(data)
    expected = one.evaluate(batch, len(data)).to_pylist()
    assert other.evaluate(batch, len(data)).to_pylist() == expected


@given(conditions, conditions, rows)
def test_equal_forms_keep_the_same_rows(
    one: Condition, other: Condition, data: list[tuple[object, ...]]
) -> None:
    first, second = of(one.one), of(other.other)
    if conditions_of(first, COLUMNS) == conditions_of(second, COLUMNS):
        batch = batch_of(data)
        kept = [each.evaluate(batch, len(data)).to_pylist() for each in (first, second)]
        assert [value is True for value in kept[0]] == [value is True for value in kept[1]]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "q < v",
            "10 / v BETWEEN 1 AND 2",
            "NOT (10 / v > 1)",
            "v + 1 IN (1, 2)",
            "NOT (v <> 0 AND v * v > 1)",
        ),
        *("CAST(k AS INT) = 5 + 5", "v > 10 / 0 OR b", "k IN (1, 2)"),
    ],
)
def test_what_may_fail_keeps_its_spelling(text: str) -> None:
    expression = of(text)
    assert spelled(expression) is None
    assert conditions_of(expression, COLUMNS) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("v IN (1, 2.0)", "v = 1 OR v = 2.0"),
        ("v IN (9007199254740993, 1e0)", "v = 9007199254740993 OR v = 1e0"),
        ("q + 5 > 10", "q + (2 + 3) > 10"),
        ("x > 5", "NOT x < 5"),
        ("b", "b IS TRUE"),
        ("NOT b", "b IS NOT TRUE"),
        ("v BETWEEN 1 AND 2", "v BETWEEN 2 AND 1"),
        ("v = 1 AND (b OR v = 2)", "(v = 1 AND b) OR v = 2"),
        ("NOT (v = 1 AND b)", "v <> 1 AND NOT b"),
    ],
)
def test_tempting_neighbours_have_other_forms(one: str, other: str) -> None:
    assert form_of(of(one), COLUMNS) != form_of(of(other), COLUMNS)


def test_a_range_of_texts_that_are_cast_keeps_its_spelling() -> None:
    tree = spelled(of("k BETWEEN 1 AND 2 AND NOT v > 1"))
    assert tree is not None
    assert tree.sql(dialect=DIALECT) == "k BETWEEN 1 AND 2 AND v <= 1"


def test_a_list_of_thousands_has_a_form() -> None:
    numbers = [str(number) for number in range(3_000)]
    one = of(f"v IN ({', '.join(numbers)})")
    other = of(f"NOT v NOT IN ({', '.join(reversed(numbers))})")
    assert form_of(one, COLUMNS) == form_of(other, COLUMNS)
