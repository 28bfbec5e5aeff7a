"""The modules that queries may call, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import final

import pyarrow as pa

from anabranch.algebra.module import Template
from anabranch.language.statements import CreateFunction


@final
class Modules(Mapping[str, Template]):
    """Modules by name in small letters: those of a library, and those registered besides.

    The library is asked for when a name is first looked up: it may have to be loaded.
    """

    def __init__(self, library: Callable[[], Mapping[str, Template]] = dict) -> None:
        """Those of a library."""
        self._library = library
        self._known: dict[str, Template] | None = None

    def add(self, name: str, module: Template) -> None:
        """One more; it takes the place of another of its name."""
        self._all()[name.lower()] = module

    def __getitem__(self, name: str) -> Template:
        return self._all()[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, Template]:
        if self._known is None:
            library = self._library()
            self._known = {name.lower(): library[name] for name in library}
        return self._known


def show_functions(
    functions: Mapping[str, CreateFunction], modules: Mapping[str, Template]
) -> pa.Table:
    """`SHOW FUNCTIONS`: functions that were created, then modules, with what they take and give."""
    rows = [
        (each.name, "SQL", _signature(each), _parameters(each), each.returns)
        for each in functions.values()
    ]
    for name, module in sorted(modules.items()):
        takes, _, gives = module.signature.partition(" -> ")
        inside = takes.partition("(")[2].removesuffix(")")
        rows.append((name, module.kind.upper(), module.signature, inside, gives or None))
    names = ("name", "kind", "signature", "parameters", "returns")
    return pa.table(
        {
            name: pa.array([row[place] for row in rows], pa.string())
            for place, name in enumerate(names)
        }
    )


def _parameters(function: CreateFunction) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in function.parameters)


def _signature(function: CreateFunction) -> str:
    gives = f" -> {function.returns}" if function.returns else ""
    return f"{function.name}({_parameters(function)}){gives}"
