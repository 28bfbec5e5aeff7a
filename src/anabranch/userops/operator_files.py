"""Modules and functions in a Python file that belongs to no package."""

from __future__ import annotations

import sys
import traceback
from contextlib import redirect_stdout
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import Any

from anabranch.algebra.modules.user_operator import Template
from anabranch.errors import OperatorError
from anabranch.expressions.scalar_function import ScalarFunction
from anabranch.userops.bases import operator_of


def operators_in(path: str | Path) -> list[Template | ScalarFunction]:
    """What `@uda`, `@udo`, `@udf` and the base classes have made in a file, in its order.

    The file can import what lies beside it. On a cluster, workers get the code of the file itself;
    what it imports must be installed there.

    Raises:
        OperatorError: The file cannot be read or run, or there is nothing of the kind in it.
    """
    file = Path(path)
    module = _run(file)
    found: list[Template | ScalarFunction] = []
    for name, each in vars(module).items():
        # What it imported from elsewhere is not its own, and half a class is no module yet.
        own = getattr(each, "__module__", None) == module.__name__ or _made_in(each, module)
        if name.startswith("_") or isabstract(each) or not own:
            continue
        made = operator_of(each)
        if isinstance(made, Template | ScalarFunction) and made not in found:
            found.append(made)
    if not found:
        raise OperatorError(
            "there are no modules in the file",
            where=str(file),
            hint="put @ab.uda, @ab.udo or @ab.udf above a function, and give it a public name",
        )
    return found


def _made_in(made: Any, module: ModuleType) -> bool:
    code = made.code if isinstance(made, ScalarFunction) else None
    return code is not None and getattr(code, "__module__", None) == module.__name__


def _run(file: Path) -> ModuleType:
    name = f"anabranch_modules_{sha256(str(file.resolve()).encode()).hexdigest()[:16]}"
    loader = SourceFileLoader(name, str(file))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    # Decorators look up the module of a class by its name. Afterwards nobody may find it there:
    # what cannot be imported is sent to workers as code, what can be is sent as a name.
    sys.modules[name] = module
    sys.path.insert(0, str(file.resolve().parent))
    try:
        # What a file prints when it is loaded is no result of a query.
        with redirect_stdout(sys.stderr):
            loader.exec_module(module)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - what a file does is its own
        raise _failed(file, problem) from None
    finally:
        sys.path.remove(str(file.resolve().parent))
        del sys.modules[name]
    return module


def _failed(file: Path, problem: BaseException) -> OperatorError:
    if isinstance(problem, OSError) and problem.filename == str(file):
        return OperatorError(
            "the file with modules cannot be read",
            where=f"{file}: {problem.strerror}",
            hint="give the path of a Python file: --modules my_modules.py",
        )
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(problem.__traceback__)
        if frame.filename == str(file)
    ]
    line = problem.lineno if isinstance(problem, SyntaxError) else lines[-1] if lines else None
    at = "" if line is None else f", line {line}"
    return OperatorError(
        f"the file with modules raised {type(problem).__name__}: {problem}",
        where=f"{file}{at}",
        hint="correct the file; `python FILE` shows the same error",
    )
