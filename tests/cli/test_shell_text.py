"""What is typed into the shell: cut into statements, and completed."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from anabranch.cli.shell.complete import WordCompleter
from anabranch.cli.shell.names import Names
from anabranch.cli.shell.text import cut, is_complete, only

NAMES = Names(
    columns={"Bid": ("itemID", "price"), "Item": ("id", "title"), "Late bids": ("itemID",)},
    functions=("twice", "max", "min"),
    queries=("query_1", "query_2"),
)


def pieces(text: str) -> list[str]:
    found, rest = cut(text)
    return [*(text[start:end] for start, end in found), text[rest:]]


@pytest.mark.parametrize(
    ("text", "cut_up"),
    [
        ("", [""]),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1;", ""]),
        ("a;\n b ;c", ["a;", "b ;", "c"]),
        ("SELECT ';' ; x", ["SELECT ';' ;", "x"]),
        (r"SELECT 'it\'s;' ;", [r"SELECT 'it\'s;' ;", ""]),
        ("SELECT 'it''s;';", ["SELECT 'it''s;';", ""]),
        ('SELECT ";", `;` FROM b;', ['SELECT ";", `;` FROM b;', ""]),
        ("a -- not; here\n;", ["a -- not; here\n;", ""]),
        ("a /* nor; here */;", ["a /* nor; here */;", ""]),
        ("a /* open; ", ["a /* open; "]),
        ("a 'open; ", ["a 'open; "]),
        ("\\at 5\nb;", ["\\at 5\n", "b;", ""]),
        ("\\at 5", ["\\at 5", ""]),
        ("a;\\q", ["a;", "\\q", ""]),
        ("SELECT a\n\\q", ["SELECT a\n\\q"]),
    ],
)
def test_statements_end_with_a_semicolon_and_commands_with_a_line(
    text: str, cut_up: list[str]
) -> None:
    assert pieces(text) == cut_up


def test_nothing_is_complete_and_so_is_a_command() -> None:
    assert is_complete("")
    assert is_complete("\n ")
    assert is_complete("\\help")
    assert not is_complete("SELECT a\nFROM b")


def test_a_statement_keeps_its_place_in_the_file() -> None:
    text = "a;\nbc; d;"
    assert [only(text, span) for span in cut(text)[0]] == ["a;", "  \nbc;", "  \n    d;"]


def offered(text: str, behind: str = "") -> list[str]:
    document = Document(text + behind, len(text))
    found = WordCompleter(NAMES).get_completions(document, CompleteEvent())
    return [each.text for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELE", ["SELECT"]),
        ("sele", ["select"]),
        ("SHOW Q", ["QUERIES"]),
        ("SELECT * FROM ", ["Bid", "Item", "`Late bids`"]),
        ("SELECT * FROM bi", ["Bid"]),
        ("SELECT * FROM Bid WINDOW(RANGE 5), It", ["Item"]),
        ("SELECT * FROM Bid JOIN i", ["Item"]),
        ("DESCRIBE B", ["Bid"]),
        ("DROP STREAM B", ["Bid"]),
        ("SELECT Bid.", ["itemID", "price"]),
        ("SELECT * FROM Bid b WHERE b.p", ["price"]),
        ("SELECT * FROM Bid WINDOW(RANGE 5) AS b WHERE b.p", ["price"]),
        ("SELECT * FROM Item i, Bid b WHERE i.", ["id", "title"]),
        ("SELECT * FROM Bid WHERE x.", []),
        ("SELECT * FROM Bid WHERE pri", ["price", "primary"]),
        ("SELECT twi", ["twice"]),
        ("SELECT * FROM Item; SELECT tit", []),
        ("STOP ", ["query_1", "query_2"]),
        ("\\w", ["\\watch"]),
        ("\\watch query_2", ["query_2"]),
        ("\\stop ", ["query_1", "query_2"]),
        ("\\timing ", []),
    ],
)
def test_what_may_stand_at_the_cursor_is_offered(text: str, expected: list[str]) -> None:
    assert offered(text) == expected


def test_columns_are_known_before_from_is_reached() -> None:
    assert offered("SELECT pri", " FROM Bid;") == ["price", "primary"]
    assert offered("SELECT ", " FROM Bid") == ["itemID", "price", "Bid", "Item", "`Late bids`"]
    assert offered("SELECT pri") == ["primary"]


@pytest.mark.parametrize("before", ["CREATE STREAM b SOURCE '", "\\i ", "\\to "])
def test_paths_are_completed(before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bids").mkdir()
    (tmp_path / "bids" / "one.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    assert offered(f"{before}bi") == ["ds"]
    assert offered(f"{before}bids/o") == ["ne.jsonl"]
