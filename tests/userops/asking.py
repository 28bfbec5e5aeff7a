"""Ask a module about one window, in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.algebra.modules.call import call_once
from anabranch.algebra.modules.results import Timed, settled_results
from anabranch.algebra.modules.user_operator import UserOperator, Window
from anabranch.testing.operator_cases import as_events
from anabranch.userops.types import form_of


def bound(template: Any, *types: Any, **parameters: Any) -> UserOperator:
    """The module for arguments of some types."""
    module: UserOperator = template.bind([form_of(kind)[0] for kind in types], (), parameters)
    return module


def ask(module: UserOperator, events: Sequence[Any], window: Window | None = None) -> list[Timed]:
    """What it says of events, or of values one instant apart."""
    given = as_events(events, len(module.takes))
    columns = [[event.value[place] for event in given] for place in range(len(module.takes))]
    times = [event.start for event in given], [event.end for event in given]
    about = window or Window(0, 10)
    policy: Any = "unchanged" if module.own_times else "align"
    return settled_results(module, call_once(module, columns, times, about), about, policy)


def value(module: UserOperator, events: Sequence[Any], window: Window | None = None) -> Any:
    """The value of an aggregate."""
    ((row, _, _),) = ask(module, events, window)
    return row[0]


def rows(module: UserOperator, events: Sequence[Any], window: Window | None = None) -> list[Any]:
    """The rows of an operator."""
    return [row for row, _, _ in ask(module, events, window)]
