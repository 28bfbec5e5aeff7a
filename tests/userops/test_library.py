"""Modules by name: registered, shipped, and of installed packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.userops.library import GROUP, Library, default_library
from anabranch.userops.shipped.every import SHIPPED
from anabranch.userops.shipped.mean import Mean


@ab.uda
def spread(prices: list[float]) -> float:
    return max(prices) - min(prices)


@ab.uda(name="Spread")
def other_spread(prices: list[float]) -> float:
    return 0.0


@dataclass
class Scalar:
    name: str


PACKAGE = """
import anabranch as ab
from anabranch.userops.shipped.mean import mean_plain

@ab.uda
def first_of_package(values: list[float]) -> float:
    return values[0]

@ab.udo
def second_of_package(values: list[float]) -> list[float]:
    return values

several = [first_of_package, [second_of_package]]
number = 5
print("loaded")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "some_package.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "some_package"
    sys.modules.pop("some_package", None)


def test_case_does_not_count() -> None:
    library = Library([spread])
    assert library["SPREAD"] is library.get("Spread") is library.find("spread") is spread
    assert "sPread" in library
    assert library.get("mean") is None
    assert 5 not in library  # type: ignore[comparison-overlap]


def test_a_taken_name_is_refused_unless_it_shall_be_replaced() -> None:
    library = Library([spread])
    library.register(spread)
    with pytest.raises(ab.PlanError, match=r"there is already a module 'Spread'\n  spread\(prices"):
        library.register(other_spread)
    library.register(other_spread, name="narrow")
    assert sorted(library) == ["narrow", "spread"]
    library.register(other_spread, replace=True)
    assert library["spread"] is other_spread


def test_only_modules_can_be_registered() -> None:
    with pytest.raises(
        ab.PlanError,
        match=r"len is not a module\n  hint: decorate it with "
        r"@ab.uda",
    ):
        Library().register(len)
    with pytest.raises(ab.PlanError, match="'a b' is not a valid name"):
        Library().register(spread, name="a b")


def test_whatever_has_a_name_can_be_held() -> None:
    scalar = Scalar("celsius")
    assert Library([scalar])["Celsius"] is scalar


def test_an_unknown_name_is_told_with_what_is_near() -> None:
    with pytest.raises(ab.QueryError, match="did you mean 'spread'"):
        Library([spread]).find("sprad")
    with pytest.raises(ab.QueryError, match="there is no module 'xyz'"):
        Library([spread]).find("xyz")


def test_shipped_modules_are_there() -> None:
    library = default_library()
    assert {each.name for each in SHIPPED} <= set(library)
    assert library["mean"] is Mean
    assert not library.problems


def test_two_libraries_do_not_know_each_other() -> None:
    one, two = default_library(), default_library()
    three = one.copy()
    one.register(spread)
    assert "spread" in one
    assert "spread" not in two
    assert "spread" not in three


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("some_package:first_of_package", ["first_of_package"]),
        ("some_package", ["first_of_package", "second_of_package"]),
        ("some_package:several", ["first_of_package", "second_of_package"]),
    ],
)
def test_packages_offer_one_module_or_several(package: str, value: str, names: list[str]) -> None:
    library = Library((), [EntryPoint("some", value, GROUP)])
    assert package not in sys.modules
    assert list(library) == names
    assert library.problems == {}


def test_packages_are_loaded_once_and_only_when_needed(
    package: str, capsys: pytest.CaptureFixture[str]
) -> None:
    library = Library([spread], [EntryPoint("some", package, GROUP)])
    assert library.get("spread") is spread
    assert capsys.readouterr() == ("", "")
    assert library.get("first_of_package") is not None
    assert library.get("nothing") is None
    # Standard output is for data.
    assert capsys.readouterr() == ("", "loaded\n")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("no_such_package:module", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("some_package:nothing", "AttributeError"),
        ("some_package:number", "TypeError: 5 is not a module"),
        ("anabranch.errors", "there is no module in it"),
    ],
)
def test_a_broken_package_is_an_error_only_when_its_name_is_used(
    package: str, value: str, problem: str
) -> None:
    whole = EntryPoint("whole", f"{package}:first_of_package", GROUP)
    library = Library([spread], [EntryPoint("Broken", value, GROUP), whole])
    assert "first_of_package" in library
    assert problem in library.problems["broken"]
    assert "broken" not in library
    with pytest.raises(ab.OperatorError, match=problem.split(":")[0]):
        library.find("BROKEN")


def test_a_package_does_not_take_a_name_away(package: str) -> None:
    @ab.uda(name="first_of_package")
    def mine(values: list[float]) -> float:
        return 0.0

    library = Library([mine], [EntryPoint("some", package, GROUP)])
    assert "second_of_package" in library
    assert library["first_of_package"] is mine
    assert "is taken" in library.problems["first_of_package"]
