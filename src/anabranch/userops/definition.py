"""The code of a user operator: where it is defined, and how it gets to workers."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, final


@final
@dataclass(frozen=True, slots=True)
class Definition:
    """A function or class of a user.

    It is sent to other processes by its name if it can be imported there as well. Then the code
    that is installed there runs. What was written into a script or a notebook goes as it is; only
    cloudpickle can do that, which Spark uses.
    """

    target: Callable[..., Any]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        name = imported_name(self.target)
        return (Definition, (self.target,)) if name is None else (_definition, name)

    @property
    def location(self) -> str:
        """`spread.py:12`, for messages."""
        code = getattr(inspect.unwrap(self.target), "__code__", None)
        if code is not None:
            return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
        try:
            file, (_, line) = inspect.getfile(self.target), inspect.getsourcelines(self.target)
        except (OSError, TypeError):  # a class of a notebook has no file
            return self.target.__module__
        return f"{Path(file).name}:{line}"


def imported_name(target: Any) -> tuple[str, str] | None:
    """The module and the name by which another process can import something; None if it cannot.

    A decorated function or class counts as what it was.
    """
    module, name = target.__module__, target.__qualname__
    if module == "__main__":
        return None
    try:
        found = reduce(getattr, name.split("."), sys.modules.get(module))
    except AttributeError:
        return None
    return (module, name) if target in (found, getattr(found, "__wrapped__", None)) else None


def imported(module: str, name: str) -> Any:
    """What a module calls so."""
    return reduce(getattr, name.split("."), import_module(module))


def _definition(module: str, name: str) -> Definition:
    found = imported(module, name)
    return Definition(getattr(found, "__wrapped__", found))


@final
@dataclass(frozen=True, slots=True)
class Callee:
    """What is called: a function with its parameters, or an object that was made with them."""

    definition: Definition
    parameters: Mapping[str, Any]
    target: Any
    keywords: Mapping[str, Any]

    @staticmethod
    def of(definition: Definition, parameters: Mapping[str, Any]) -> Callee:
        """The function, or an object of the class."""
        target = definition.target
        if isinstance(target, type):
            made = target(**parameters)
            return Callee(definition, parameters, made, {})
        return Callee(definition, parameters, target, parameters)

    @property
    def compute(self) -> Callable[..., Any]:
        """What gives the results."""
        is_class = isinstance(self.definition.target, type)
        return self.target.compute if is_class else self.target  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # Objects are made anew: what they remember would differ from process to process.
        return Callee.of, (self.definition, dict(self.parameters))
