"""ISO 8601 text means the same under every version of Python."""

from __future__ import annotations

from datetime import date, datetime, time, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.iso_text import date_of, nanoseconds_of, time_of


@given(st.datetimes(timezones=st.just(timezone.utc)), st.sampled_from(["T", " "]))
def test_what_python_writes_is_read_back(moment: datetime, separator: str) -> None:
    text = moment.isoformat(separator)
    past = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    expected = ((past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds) * 1_000
    assert nanoseconds_of(text) == expected
    assert nanoseconds_of(text.removesuffix("+00:00")) == expected
    assert date_of(moment.date().isoformat()) == moment.date()
    assert time_of(moment.time().isoformat()) == moment.time()


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-02", 86_400_000_000_000),
        ("1970-01-01T01", 3_600_000_000_000),
        ("1970-01-01 00:01", 60_000_000_000),
        ("1970-01-01 00:00:00.5", 500_000_000),
        ("1970-01-01 00:00:00,25Z", 250_000_000),
        ("1970-01-01T00:00:00.000000007z", 7),
        ("1970-01-01T01:00:00+01", 0),
        ("1970-01-01T00:00:00-0030", 1_800_000_000_000),
        ("19700101T000001", 1_000_000_000),
        (" 1969-12-31T23:59:59.9 ", -100_000_000),
    ],
)
def test_people_write_timestamps_in_these_forms(text: str, nanoseconds: int) -> None:
    assert nanoseconds_of(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "1970",
        "1970-W01-1",
        "1970-13-01",
        "1970-01-01T25:00",
        "1970-01-01x10:00",
        "1970-01-01T00:00:00.",
        "1970-01-01T00:00+24",
        "1970-01-01+01",
        "١٩٧٠-01-01",
    ],
)
def test_other_text_is_no_timestamp(text: str) -> None:
    with pytest.raises(ValueError):
        nanoseconds_of(text)


def test_dates_and_times_of_day_are_exact() -> None:
    assert date_of("2026-11-15") == date(2026, 11, 15)
    assert time_of("10:00:00.5") == time(10, 0, 0, 500_000)
    for text in ("20261115", "10:00:00.0000001", "10:00Z", "24:00"):
        with pytest.raises(ValueError):
            time_of(text)
