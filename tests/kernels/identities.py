"""Every class of the product that declares what it is."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Final

import anabranch.aggregates
import anabranch.algebra
import anabranch.expressions
import anabranch.kernels
import anabranch.model
from anabranch.algebra.node import Node
from anabranch.kernels.contract.kernel import Kernel
from anabranch.model.identity import Identity

PACKAGES: Final = (
    anabranch.model,
    anabranch.expressions,
    anabranch.aggregates,
    anabranch.algebra,
    anabranch.kernels,
)


def declared_classes() -> list[type]:
    """Every class of the product that says what it is."""
    found: dict[type, None] = {}
    for package in PACKAGES:
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            for each in vars(module).values():
                if inspect.isclass(each) and each.__module__ == info.name:
                    found[each] = None
    return [each for each in found if isinstance(vars(each).get("identity"), Identity)]


def concrete(base: type) -> list[type]:
    """The operators of the product that can be built."""
    declared_classes()
    # A dataclass with slots replaces the class that it is made of; the first one may live on.
    found: list[type] = [base]
    for each in found:
        below: list[type] = each.__subclasses__()
        found += [kind for kind in below if kind not in found]
    inside = [each for each in found if each.__module__.startswith("anabranch.")]
    return [
        each
        for each in inside
        if not inspect.isabstract(each)
        and each is getattr(importlib.import_module(each.__module__), each.__name__)
    ]


DECLARED: Final = declared_classes()
OPERATOR_CLASSES: Final = [*concrete(Node), *concrete(Kernel)]
