"""A process that nobody has asked for pandas does without."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


def spare_pandas() -> None:
    """Let Arrow work without pandas, which takes longer to load than most commands and tasks run.

    Arrow looks for pandas when it makes its first array, remembers whether it was there, and looks
    again only when it is asked for a frame. So the first look finds nothing. Code of a user may
    import pandas all the same; Arrow is told as soon as that happens, else it would take a series
    for a list.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(_NoPandas)
    sys.meta_path.insert(0, _TellArrow)


class _NoPandas:
    """Finds nothing where pandas is looked for."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


class _TellArrow:
    """Finds pandas as it is always found, and lets Arrow see it once it is loaded."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "pandas":
            return None
        sys.meta_path.remove(_TellArrow)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            # The loader was made for this one import: its class stays as it is.
            setattr(spec.loader, "exec_module", _then_told(spec.loader.exec_module))  # noqa: B010
        return spec


def _then_told(load: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def load_and_tell(module: ModuleType) -> None:
        import pyarrow as pa

        load(module)
        pa.nulls(0).to_pandas()

    return load_and_tell
