"""In which form a plan is stored as objects, so that no version reads it as what it is not.

Pickle writes the values of a dataclass without the names of its fields. A version in which a class
has other fields would read them without an error, into the wrong places or with one missing, and
fail later. So whoever writes a plan notes the fields of all classes of which it has objects.
"""

from __future__ import annotations

import hashlib
import io
import sys
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any, Final, final

from pyspark import cloudpickle

from anabranch.runtime.store.migrations import PlanForm

_OURS: Final = "anabranch."
_DIGITS: Final = 16
THIS_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


@final
class _NotingPickler(cloudpickle.Pickler):
    """Notes what it writes; it is asked once for every object that is not a plain value."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self.kinds: set[type] = set()
        self.has_code = False

    def reducer_override(self, obj: Any) -> Any:
        """How an object is written: as it would be without notes."""
        self.kinds.add(type(obj))
        found = super().reducer_override(obj)  # type: ignore[no-untyped-call]
        # Functions that can be imported are written as their names.
        self.has_code |= isinstance(obj, FunctionType) and found is not NotImplemented
        return found


def as_bytes(value: object, version: str) -> tuple[bytes, PlanForm]:
    """A value as this version of Anabranch stores it, and what that can be read by."""
    with io.BytesIO() as file:
        pickler = _NotingPickler(file)
        pickler.dump(value)  # type: ignore[no-untyped-call]
        data = file.getvalue()
    ours = [
        kind for kind in pickler.kinds if is_dataclass(kind) and kind.__module__.startswith(_OURS)
    ]
    names = {f"{kind.__module__}:{kind.__qualname__}": _fields_hash(kind) for kind in ours}
    return data, PlanForm(
        version=version,
        python=THIS_PYTHON,
        has_code=pickler.has_code,
        classes=dict(sorted(names.items())),
    )


def unreadable(form: PlanForm) -> str | None:
    """Why this process cannot read what is stored in a form; None where it can."""
    if form.has_code and form.python != THIS_PYTHON:
        return f"it has code of Python {form.python}, and this is Python {THIS_PYTHON}"
    for name, written in form.classes.items():
        kind = _class_called(name)
        if kind is None:
            return f"there is no class {name} any more"
        if _fields_hash(kind) != written:
            return f"{name} has other fields now"
    return None


def _class_called(name: str) -> type | None:
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found if is_dataclass(found) and isinstance(found, type) else None


@cache
def _fields_hash(kind: type) -> str:
    names = "\n".join(each.name for each in fields(kind))
    return hashlib.sha256(names.encode()).hexdigest()[:_DIGITS]
