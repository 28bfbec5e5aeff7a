"""The modules that queries may call, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import pyarrow as pa

from anabranch.algebra.modules.user_operator import Template
from anabranch.expressions.scalar_function import ScalarFunction
from anabranch.language.text.statements import CreateFunction


@final
class OperatorCatalog(Mapping[str, Template]):
    """Modules by name in small letters: those of a library, and those registered besides.

    The library is asked for when a name is first looked up: it may have to be loaded. Scalar
    functions that it has go elsewhere.
    """

    def __init__(
        self,
        library: Callable[[], Mapping[str, Any]] = dict,
        scalars: dict[str, ScalarFunction] | None = None,
    ) -> None:
        """Those of a library; its scalar functions are put into `scalars`."""
        self._library = library
        self._scalars: dict[str, ScalarFunction] = {} if scalars is None else scalars
        self._own: dict[str, Template] = {}
        self._shared: Mapping[str, Any] | None = None

    def add(self, name: str, operator: Template) -> None:
        """One more; it takes the place of another of its name."""
        self._own[name.lower()] = operator

    def load(self) -> Mapping[str, Any]:
        """Look at the library, once."""
        if self._shared is None:
            self._shared = self._library()
            for name, each in self._shared.items():
                if isinstance(each, ScalarFunction):
                    self._scalars.setdefault(name.lower(), each)
        return self._shared

    def __getitem__(self, name: str) -> Template:
        key = name.lower()
        found = self._own[key] if key in self._own else self.load()[key]
        if not isinstance(found, Template):
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        shared = self.load()
        names = [name.lower() for name in shared if isinstance(shared[name], Template)]
        return iter(dict.fromkeys([*names, *self._own]))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def show_functions(
    functions: Mapping[str, CreateFunction],
    scalars: Mapping[str, ScalarFunction],
    operators: Mapping[str, Template],
) -> pa.Table:
    """`SHOW FUNCTIONS`: functions that were created, then modules, with what they take and give."""
    rows = [
        (each.name, "SQL", _signature(each), _parameters(each), each.returns)
        for each in functions.values()
    ]
    kinds = [(name, "UDF", each.signature) for name, each in sorted(scalars.items())]
    kinds += [(name, each.kind.upper(), each.signature) for name, each in sorted(operators.items())]
    for name, kind, signature in kinds:
        takes, _, gives = signature.partition(" -> ")
        inside = takes.partition("(")[2].removesuffix(")")
        rows.append((name, kind, signature, inside, gives or None))
    names = ("name", "kind", "signature", "parameters", "returns")
    return pa.table(
        {
            name: pa.array([row[index] for row in rows], pa.string())
            for index, name in enumerate(names)
        }
    )


def _parameters(function: CreateFunction) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in function.parameters)


def _signature(function: CreateFunction) -> str:
    gives = f" -> {function.returns}" if function.returns else ""
    return f"{function.name}({_parameters(function)}){gives}"
