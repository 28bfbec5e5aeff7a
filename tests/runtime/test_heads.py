"""What workers say arrives as it was said, or is refused with a reason."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.heads import HEADS

from anabranch.errors import EngineError
from anabranch.runtime.messages.heads import (
    Head,
    OutputHead,
    TimeHead,
    head_as,
    head_of_text,
    head_text,
)


@given(HEADS)
def test_a_head_arrives_as_it_was_sent(head: Head) -> None:
    assert head_of_text(head_text(head)) == head


@given(HEADS)
def test_a_head_with_another_key_is_refused(head: Head) -> None:
    content = {**json.loads(head_text(head)), "else": 1}
    with pytest.raises(EngineError, match="'else' is a key that this version does not know"):
        head_of_text(json.dumps(content))


@given(HEADS, st.data())
def test_a_head_without_one_of_its_keys_is_refused_unless_that_has_a_default(
    head: Head, data: st.DataObject
) -> None:
    content = json.loads(head_text(head))
    left_out = data.draw(st.sampled_from(sorted(content)))
    del content[left_out]
    bare = [each for each in fields(head) if each.default is each.default_factory is MISSING]
    if left_out == "kind" or left_out in [each.name for each in bare]:
        with pytest.raises(EngineError, match=f"'{left_out}' is missing|not say what it is"):
            head_of_text(json.dumps(content))
    else:
        assert type(head_of_text(json.dumps(content))) is type(head)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "{}", '{"kind": "letter"}', '{"kind": ["source"]}']
)
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(EngineError, match="it does not say what it is"):
        head_of_text(text)


def test_a_head_of_another_kind_is_not_taken_for_an_output() -> None:
    with pytest.raises(EngineError, match="brought TimeHead where OutputHead belongs"):
        head_as(OutputHead, TimeHead("bids", 7))
