"""Records come out of JSON as they went in, and nothing else comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import EngineError
from anabranch.model.record import OMITTED, plain, record, record_of_text, record_text
from anabranch.model.time import Time


@dataclass(frozen=True)
class Piece:
    row: ClassVar[bool] = True

    name: str
    size: int = 0
    note: str = field(default="", metadata=OMITTED)
    more: tuple[int, ...] = field(default=(), metadata=OMITTED)


@dataclass(frozen=True, kw_only=True)
class Whole:
    kind: Literal["a", "b"]
    at: Time
    share: float
    flag: bool
    pieces: tuple[Piece, ...]
    pair: tuple[str, int | None]
    by_name: Mapping[str, Piece]
    by_number: Mapping[int, tuple[str, ...]]
    free: object = None
    left: int | None = field(default=None, metadata=OMITTED)
    most: Mapping[str, int] = field(default_factory=dict, metadata=OMITTED)


_PIECES = st.builds(
    Piece,
    st.text(),
    st.integers(),
    st.text(max_size=2),
    st.lists(st.integers(), max_size=2).map(tuple),
)
_WHOLES = st.builds(
    Whole,
    kind=st.sampled_from(["a", "b"]),
    at=st.integers().map(Time),
    share=st.floats(allow_nan=False),
    flag=st.booleans(),
    pieces=st.lists(_PIECES, max_size=2).map(tuple),
    pair=st.tuples(st.text(), st.none() | st.integers()),
    by_name=st.dictionaries(st.text(), _PIECES, max_size=2),
    by_number=st.dictionaries(
        st.integers(0), st.lists(st.text(), max_size=2).map(tuple), max_size=2
    ),
    free=st.none() | st.integers() | st.lists(st.text(), max_size=2),
    left=st.none() | st.integers(),
    most=st.dictionaries(st.text(), st.integers(), max_size=2),
)


@given(_WHOLES)
def test_a_record_is_what_its_text_says(whole: Whole) -> None:
    text = record_text(whole)
    again = record_of_text(Whole, text, where="here")
    assert again == whole
    assert record_text(again) == text
    assert record(Whole, json.loads(json.dumps(plain(whole))), where="here") == whole


@given(_WHOLES, st.sampled_from([each.name for each in fields(Whole)]))
def test_a_key_without_a_default_must_be_there(whole: Whole, name: str) -> None:
    content = plain(whole)
    content.pop(name, None)
    if name in ("free", "left", "most"):
        assert getattr(record(Whole, content, where="here"), name) in (None, {})
        return
    with pytest.raises(EngineError, match=f"a Whole cannot be read: '{name}' is missing"):
        record(Whole, content, where="here")


@given(_WHOLES)
def test_a_key_that_nobody_knows_is_refused(whole: Whole) -> None:
    with pytest.raises(EngineError, match="'else' is a key that this version does not know"):
        record(Whole, {**plain(whole), "else": 1}, where="here")


WHOLE = Whole(
    kind="a",
    at=Time(3),
    share=0.5,
    flag=True,
    pieces=(Piece("p", 1), Piece("q", 2, more=(7,))),
    pair=("x", None),
    by_name={"n": Piece("r")},
    by_number={4: ("y",)},
)


def test_rows_leave_out_what_has_its_default_together() -> None:
    assert plain(WHOLE)["pieces"] == [["p", 1], ["q", 2, "", [7]]]
    assert "left" not in plain(WHOLE)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"kind": "c"}, "'kind' is 'c', not one of 'a', 'b'"),
        ({"at": True}, "'at' is True, not a whole number"),
        ({"at": 1.0}, "'at' is 1.0, not a whole number"),
        ({"share": "1"}, "'share' is '1', not a number"),
        ({"flag": 1}, "'flag' is 1, not true or false"),
        ({"pieces": {}}, "'pieces' is {}, not a list"),
        ({"pieces": [["p"], ["q", "1"]]}, "'pieces.1.size' is '1', not a whole number"),
        ({"pieces": [[]]}, "'pieces.0' has 0 entries, not 1 to 4"),
        ({"pieces": [["p", 1, "", [], 5]]}, "'pieces.0' has 5 entries, not 1 to 4"),
        ({"pair": ["x"]}, "'pair' has 1 entries, not 2"),
        ({"by_name": []}, "'by_name' is [], not an object with keys"),
        ({"by_name": {"n": [None]}}, "'by_name.n.name' is None, not a text"),
        ({"by_number": {"x": []}}, "'by_number.x' is not a number"),
        ({"left": "1"}, "'left' is '1', not a whole number"),
    ],
)
def test_what_does_not_fit_is_named(changed: dict[str, Any], what: str) -> None:
    with pytest.raises(EngineError) as refused:
        record(Whole, {**plain(WHOLE), **changed}, where="the file", hint="mend it")
    assert refused.value.what == f"a Whole cannot be read: {what}"
    assert (refused.value.where, refused.value.hint) == ("the file", "mend it")


@pytest.mark.parametrize("content", [None, 1, "text", [], [1]])
def test_something_else_is_no_record(content: object) -> None:
    with pytest.raises(EngineError, match=r"a Whole cannot be read: it is .*, not an object"):
        record(Whole, content, where="here")


def test_a_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(EngineError, match="it is not JSON"):
        record_of_text(Whole, "{", where="here")
