"""A merge says which copies it cannot read, and by which case it continues."""

from __future__ import annotations

from typing import Any

from anabranch.cli.queries.copy_news import CopyNewsTeller


def batch(problem: str = "", case: str | None = None) -> dict[str, Any]:
    copy: dict[str, Any] = {"rows": 1, **({"problem": problem} if problem else {})}
    report: dict[str, Any] = {"leader": "a", **({"case": case} if case else {})}
    return {
        "sources": {"copies": {"rows": 1, "copies": {"a": copy}}, "other": {"rows": 0}},
        "stages": {"0-merge": {"reports": [report]}, "1-map": {}},
    }


def test_a_copy_that_is_not_read_is_told_once_and_when_it_is_read_again() -> None:
    news = CopyNewsTeller()
    assert list(news.of(batch())) == []
    assert list(news.of(batch("it no longer exists"))) == [
        "copy 'a' is not read: it no longer exists"
    ]
    assert list(news.of(batch("it no longer exists"))) == []
    assert list(news.of(batch("it has no column 'k'"))) == [
        "copy 'a' is not read: it has no column 'k'"
    ]
    assert list(news.of(batch())) == ["copy 'a' is read again"]


def test_a_weaker_case_is_told_once() -> None:
    news = CopyNewsTeller()
    told = [line for case in (None, "r3", "r3", "r4") for line in news.of(batch(case=case))]
    assert [line.split(":")[0] for line in told] == [
        "the merge continues by r3 (no two of one payload and start)",
        "the merge continues by r4 (anything)",
    ]
