"""What benchmarks load from the source checkout: peers and references, no part of the package."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from anabranch.errors import QueryError

ROOT: Final = Path(__file__).resolve().parents[3]


def from_checkout(name: str, *, bench: str, root: Path = ROOT) -> ModuleType:
    """Load a module of `tests/bench`.

    Raises:
        QueryError: This is not a source checkout.
    """
    if not (root / "tests" / "bench" / f"{name}.py").is_file():
        raise _no_checkout(bench, f"there is no tests/bench in {root}")
    sys.path.insert(0, str(root))
    try:
        return import_module(f"tests.bench.{name}")
    except ModuleNotFoundError as error:
        raise _no_checkout(bench, f"{error}: another package 'tests' is loaded") from None
    finally:
        sys.path.remove(str(root))


def spark_peers(bench: str) -> ModuleType:
    """The jobs as plain Spark does them.

    Raises:
        QueryError: This is not a source checkout.
    """
    return from_checkout("peers", bench=bench)


def _no_checkout(bench: str, where: str) -> QueryError:
    return QueryError(
        f"bench {bench} needs a source checkout",
        where=where,
        hint="clone the repository, and run the benchmark after 'pip install -e .[bench]' there",
    )
