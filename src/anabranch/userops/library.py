"""Modules and functions by name: those we ship, those of installed packages, a user's own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract
from types import ModuleType
from typing import Any, Final, Protocol, final

from anabranch.algebra.modules.user_operator import Template
from anabranch.errors import OperatorError, PlanError, QueryError
from anabranch.userops.bases import operator_of
from anabranch.userops.shipped.every import SHIPPED

GROUP: Final = "anabranch.modules"
"""The entry points by which a package offers modules."""

_NAME: Final = re.compile(r"[A-Za-z_]\w*")


class Named(Protocol):
    """A module, or a scalar function."""

    @property
    def name(self) -> str:
        """What queries call it."""
        ...


@final
class Library(Mapping[str, Any]):
    """Names that queries may call, and what they stand for. Case does not count.

    Packages are looked for when a name is asked for that is not registered, and once. If something
    of a package cannot be loaded, that is an error when its name is used, and for nothing else.
    """

    def __init__(
        self, modules: Iterable[Named] = (), packages: Iterable[EntryPoint] | None = ()
    ) -> None:
        """Begin with some modules.

        Args:
            modules: What is registered at once.
            packages: Entry points; None stands for those of the group `anabranch.modules`.
        """
        self._registered: dict[str, Any] = {}
        self._packages = packages
        self._loaded = False
        self._problems: dict[str, str] = {}
        for each in modules:
            self._register(each, None)

    def register(self, module: Any, *, name: str | None = None, replace: bool = False) -> None:
        """Let queries call a module by its name, or by another one.

        Raises:
            PlanError: It is no module, or the name is taken.
        """
        if not replace:
            self._load()
        self._register(module, name, replace)

    def _register(self, module: Any, name: str | None, replace: bool = False) -> None:
        module = operator_of(module)
        if not isinstance(module, Template) and not isinstance(getattr(module, "name", None), str):
            what = getattr(module, "__name__", repr(module))
            raise PlanError(
                f"{what} is not a module",
                hint="decorate it with @ab.uda, @ab.udo or @ab.udf, and register the result",
            )
        called = module.name if name is None else name
        if not _NAME.fullmatch(called):
            raise PlanError(f"'{called}' is not a valid name", hint="use letters, digits and _")
        earlier = self._registered.get(called.lower(), module)
        if earlier is not module and not replace:
            raise PlanError(
                f"there is already a module '{called}'",
                where=getattr(earlier, "signature", ""),
                hint="choose another name: register(..., name=...); or replace it: replace=True",
            )
        self._registered[called.lower()] = module

    def find(self, name: str) -> Any:
        """What a name stands for.

        Raises:
            QueryError: There is nothing of this name.
            OperatorError: A package offers it, and cannot be loaded.
        """
        found = self.get(name)
        if found is not None:
            return found
        near = get_close_matches(name.lower(), list(self), 3)
        guess = f"did you mean {' or '.join(repr(each) for each in near)}? " if near else ""
        raise QueryError(
            f"there is no module '{name}'",
            hint=f"{guess}register it: engine.register(...); SHOW FUNCTIONS lists all",
        )

    def __getitem__(self, name: str) -> Any:
        key = name.lower()
        if key not in self._registered:
            self._load()
        if key in self._registered:
            return self._registered[key]
        if key in self._problems:
            raise OperatorError(
                f"the module '{name}' cannot be loaded",
                where=self._problems[key],
                hint="repair or remove the package that provides it",
            )
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        self._load()
        return isinstance(name, str) and name.lower() in self._registered

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._registered))

    def __len__(self) -> int:
        self._load()
        return len(self._registered)

    @property
    def problems(self) -> Mapping[str, str]:
        """What packages offer and cannot be loaded, with the reason."""
        self._load()
        return dict(self._problems)

    def copy(self) -> Library:
        """The same names, to which others can be added."""
        made = Library((), self._packages)
        made._registered = dict(self._registered)
        made._loaded, made._problems = self._loaded, dict(self._problems)
        return made

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        found = entry_points(group=GROUP) if self._packages is None else self._packages
        for point in found:
            try:
                # What it says at import is no result of a query.
                with redirect_stdout(sys.stderr):
                    offered = list(_templates(point.load()))
            except (Exception, SystemExit) as problem:  # noqa: BLE001 - what a package does at import is its own
                self._note(point.name, point, f"{type(problem).__name__}: {problem}")
                continue
            if not offered:
                self._note(point.name, point, "there is no module in it")
            for each in offered:
                if each.name.lower() in self._registered:
                    self._note(each.name, point, f"the name '{each.name}' is taken")
                else:
                    self._registered[each.name.lower()] = each

    def _note(self, name: str, point: EntryPoint, problem: str) -> None:
        package = f"package '{point.dist.name}', " if point.dist is not None else ""
        self._problems[name.lower()] = (
            f"{package}entry point '{point.name} = {point.value}': {problem}"
        )


def _templates(offered: Any) -> Iterator[Any]:
    """The modules in what an entry point names: one, several, or all of a Python module."""
    if isinstance(offered, ModuleType):
        for name, each in vars(offered).items():
            # What it imported from elsewhere is not its own, and half a class is no module yet.
            own = getattr(each, "__module__", None) == offered.__name__
            if own and not name.startswith("_") and not isabstract(each):
                found = operator_of(each)
                if isinstance(found, Template):
                    yield found
        return
    offered = operator_of(offered)
    if isinstance(offered, Template) or not isinstance(offered, Iterable):
        if not isinstance(getattr(offered, "name", None), str):
            raise TypeError(f"{offered!r} is not a module; decorate it with @ab.uda or @ab.udo")
        yield offered
    else:
        for each in offered:
            yield from _templates(each)


def default_library() -> Library:
    """What every engine knows: the modules that we ship, and those of installed packages."""
    return Library(SHIPPED, None)
