"""The table of aggregate functions: whatever is declared in `aggregates/functions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from sqlglot import expressions as exp

from anabranch.aggregates import functions
from anabranch.aggregates.function import AggregateFunction
from anabranch.aggregates.sql import SqlForm

_COMMON: Final = ("COUNT(*)", "SUM(x)", "AVG(x)", "MIN(x)", "MAX(x)")


def _declared() -> Iterator[AggregateFunction]:
    """The constant `FUNCTION` of every file, in the order of their names.

    The folder is the list, so that one file is all that a new function needs. A file that declares
    nothing fails here, at once.
    """
    for module in sorted(iter_modules(functions.__path__), key=lambda each: each.name):
        declared = import_module(f"{functions.__name__}.{module.name}").FUNCTION
        assert isinstance(declared, AggregateFunction)
        assert declared.name == module.name, f"{declared.name} is declared in {module.name}.py"
        yield declared


FUNCTIONS: Final[Mapping[str, AggregateFunction]] = {each.name: each for each in _declared()}
"""All aggregate functions, by name."""

FORMS: Final[Mapping[type[exp.Expr], tuple[AggregateFunction, SqlForm]]] = {
    form.tree: (each, form) for each in FUNCTIONS.values() for form in each.forms
}
"""By what the parser makes of a call: the function, and how it reads the call."""

SQL_NAMES: Final[Mapping[str, AggregateFunction]] = {
    name: function for function in FUNCTIONS.values() for name in (function.name, *function.aliases)
}
"""By the names that a query may call them."""


def how_to_write(text: str) -> str:
    """A hint for a text that should be an aggregate: what it is close to, or the common ones.

    >>> how_to_write("medain(x)")
    'write one aggregate: MEDIAN(x)'
    """
    name, is_named, call = (part.strip() for part in text.partition("="))
    if is_named and name.isidentifier():
        return f"write '{call} AS {name}', or {name}='{call}' as a keyword"
    word = text.strip().partition("(")[0].strip().lower()
    close = get_close_matches(word, SQL_NAMES, n=3, cutoff=0.7)
    examples = tuple(dict.fromkeys(SQL_NAMES[name].example for name in close))
    if examples:
        return f"write one aggregate: {' or '.join(examples)}"
    return f"write one aggregate: {', '.join(_COMMON)} or another one of docs/operators/aggregate"
