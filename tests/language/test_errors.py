"""Wrong statements, and what their authors are told."""

from __future__ import annotations

from pathlib import Path

from anabranch.errors import AnabranchError
from tests.language.streams import plan, read

GOLDEN = Path(__file__).parent.parent / "golden" / "query_errors.txt"


def said(text: str) -> str:
    """The error that a script gives."""
    try:
        read(text)
        plan(text)
    except AnabranchError as error:
        return str(error)
    return "nothing is wrong with it"


def test_wrong_statements_are_explained(update_golden: bool) -> None:
    cases = [case.split("\n----\n") for case in GOLDEN.read_text().strip("\n").split("\n====\n")]
    found = [(case[0], said(case[0])) for case in cases]
    if update_golden:
        text = "\n====\n".join(f"{sql}\n----\n{error}" for sql, error in found)
        GOLDEN.write_text(f"{text}\n")
    assert len(found) >= 60
    for (sql, error), case in zip(found, cases, strict=True):
        assert error != "nothing is wrong with it", sql
        assert "hint: " in error, sql
        if not update_golden:
            assert error == case[1], sql
