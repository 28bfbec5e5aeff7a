"""Addresses have one text, which says all of them."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import EngineError
from anabranch.kernels.plan.address import Address

_ADDRESSES = st.builds(Address, st.sampled_from(["source", "stage"]), st.text(min_size=1))


@given(_ADDRESSES)
def test_an_address_is_what_its_text_says(address: Address) -> None:
    assert Address.parse(str(address)) == address
    assert pickle.loads(pickle.dumps(address)) == address


@given(_ADDRESSES)
def test_an_address_prints_as_the_text_it_was_before(address: Address) -> None:
    assert repr(address) == repr(f"{address.kind}:{address.name}")


def test_a_source_and_a_stage_of_one_name_are_two() -> None:
    assert Address.source("x") != Address.stage("x")
    assert len({Address.source("x"), Address.stage("x"), Address.source("x")}) == 2


@pytest.mark.parametrize("text", ["", "bids", "source:", "sink:bids", ":bids", "Source:bids"])
def test_other_texts_are_no_addresses(text: str) -> None:
    with pytest.raises(EngineError, match="is not the address of a source or a stage"):
        Address.parse(text)
