"""A stranger finds the room for a change: small folders, one name for one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "anabranch"
MOST_FILES = 25
FLAT_LISTS = {SOURCE / "optimizer" / "rules"}
"""Folders of like things, one file each."""
OF_SQLGLOT = {"Parser", "Tokenizer"}
"""A dialect of sqlglot has classes with these names in it."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        yield file, ast.parse(file.read_text(encoding="utf-8"))


def test_folders_are_small() -> None:
    sizes = {
        folder: len(list(folder.glob("*.py")))
        for folder in (SOURCE, *SOURCE.rglob("*"))
        if folder.is_dir() and folder not in FLAT_LISTS
    }
    assert not {str(folder): size for folder, size in sizes.items() if size > MOST_FILES}


def test_a_class_name_stands_for_one_thing() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(str(file.relative_to(SOURCE)))
    assert not {
        name: files for name, files in found.items() if len(files) > 1 and name not in OF_SQLGLOT
    }


def test_what_crosses_a_process_is_typed() -> None:
    # What remains is JSON for users, and offsets in the form that Spark gives them.
    untyped = [
        f"{file.relative_to(SOURCE)}:{number}"
        for file in sorted((SOURCE / "runtime").rglob("*.py"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if "dict[str, Any]" in line
    ]
    assert len(untyped) < 20, untyped


def test_every_folder_says_what_is_in_it() -> None:
    silent = [
        str(file.parent.relative_to(SOURCE))
        for file, tree in modules()
        if file.name == "__init__.py" and not ast.get_docstring(tree)
    ]
    assert not silent
