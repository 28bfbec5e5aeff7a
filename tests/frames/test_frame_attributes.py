"""Every attribute of a DataFrame is there, or says what to write in its place."""

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.group import GroupedData

import anabranch as ab
from anabranch.frames.attributes import GROUPED_INSTEAD, INSTEAD, OTHER_WORDS

NAMES = sorted(
    name for name in {*dir(DataFrame), *dir(ClassicDataFrame)} if not name.startswith("_")
)
GROUPED = sorted(name for name in dir(GroupedData) if not name.startswith("_"))


@pytest.mark.parametrize("name", NAMES)
def test_an_attribute_of_a_data_frame_is_there_or_has_a_replacement(name: str) -> None:
    assert hasattr(ab.Stream, name) != (name in INSTEAD)


@pytest.mark.parametrize("name", sorted({**INSTEAD, **OTHER_WORDS}))
def test_what_is_not_there_says_what_to_write(bids: ab.Stream, name: str) -> None:
    with pytest.raises(AttributeError, match=f"a stream has no '{name}'; write "):
        getattr(bids, name)


@pytest.mark.parametrize("name", GROUPED)
def test_an_attribute_of_grouped_data_is_there_or_has_a_replacement(
    bids: ab.Stream, name: str
) -> None:
    assert hasattr(ab.GroupedStream, name) != (name in GROUPED_INSTEAD)
    if name in GROUPED_INSTEAD:
        with pytest.raises(AttributeError, match=f"has no '{name}'; write "):
            getattr(bids.groupBy("item"), name)


def test_a_replacement_that_is_code_names_methods_that_exist() -> None:
    for text in (*INSTEAD.values(), *OTHER_WORDS.values()):
        for word in text.split("stream.")[1:]:
            name = word.split("(")[0].split(" ")[0].rstrip(".,;:")
            assert hasattr(ab.Stream, name), text


def test_words_of_others_are_not_those_of_streams() -> None:
    assert [word for word in OTHER_WORDS if hasattr(ab.Stream, word)] == []


def test_a_misspelt_name_is_guessed(bids: ab.Stream) -> None:
    with pytest.raises(AttributeError, match="did you mean 'price'"):
        bids.prise  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'where'"):
        bids.were  # noqa: B018
