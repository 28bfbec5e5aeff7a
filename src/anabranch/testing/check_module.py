"""Try a module as the engine will use it: again and again, in any order, piece by piece."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from anabranch.algebra.modules.call import call_once, frame_of
from anabranch.algebra.modules.results import (
    Clip,
    OperatorCallError,
    Timed,
    Timestamps,
    called,
    settled_results,
)
from anabranch.algebra.modules.user_operator import WINDOW, Template, UserOperator, Window
from anabranch.errors import AnabranchError, QueryError
from anabranch.testing.operator_cases import (
    CheckCase,
    Events,
    as_events,
    cases_of,
    certain_cases,
    drawn_cases,
    show_events,
    show_window,
)
from anabranch.testing.operator_values import alike, unstorable
from anabranch.userops.bases import operator_of
from anabranch.userops.decorated_operator import DecoratedOperator
from anabranch.userops.types import Open, form_of, names_in, resolved

_TRIED: Final = (pa.int64(), pa.string(), pa.float64())
"""What stands for types that a module leaves open."""


def check_module(
    module: Any,
    events: Sequence[Any] | st.SearchStrategy[Any] | None = None,
    *,
    types: Sequence[Any] = (),
    parameters: Mapping[str, Any] | None = None,
    clip: Clip = "none",
    like: Any = None,
    odd_floats: bool = False,
    examples: int = 50,
) -> None:
    """Find out whether a module keeps what the engine relies on.

    It gives values of its types, and no event before its window; the same when it is called again,
    or sent to another process; the same for any order of events, unless it is declared as
    `ordered`; something for a window in which nothing counts. With a state: the same as without
    one, whatever came and went in between; and the state can be stored.

    Args:
        module: What `@ab.uda` or `@ab.udo` made, or a class derived from `ab.Aggregate` and so on.
        events: Certain ones, as events or plain values; or a strategy of hypothesis that draws
            lists of them. Without it they are drawn from the types that the module declares.
        types: Of its arguments, where it leaves them open.
        parameters: What a query would set.
        clip: What is cut off lifetimes before the module sees them.
        like: Another module that must give the same: the same thing in another shape.
        odd_floats: Draw NaN and infinity as well.
        examples: How many windows are drawn.

    Raises:
        AssertionError: It does not; with the smallest events that show it.
    """
    module, like = operator_of(module), operator_of(like)
    if not isinstance(module, Template):
        raise AssertionError(f"{module!r} is not a module: decorate it with @ab.uda or @ab.udo")
    for kinds in _argument_types(module, types, events):
        bound = _bound(module, kinds, parameters)
        twin = None if like is None else _bound(like, kinds, parameters)
        check = _Check(bound, _sent(bound), twin)
        check.empty()
        if events is not None and not isinstance(events, st.SearchStrategy):
            for case in certain_cases(as_events(events, len(kinds)), clip):
                check.all_of(case)
        elif events is not None:
            _search(check.all_of, cases_of(events, len(kinds), clip), examples)
        else:
            _search(check.all_of, drawn_cases(kinds, clip, odd_floats=odd_floats), examples)


def _search(
    check: Callable[[CheckCase], None], cases: st.SearchStrategy[CheckCase], examples: int
) -> None:
    """Look for a case that fails, and make it small."""
    failures: list[AssertionError] = []

    def tried(case: CheckCase) -> None:
        try:
            check(case)
        except AssertionError as failure:
            failures.append(failure)
            raise

    wanted = settings(
        max_examples=examples,
        deadline=None,
        report_multiple_bugs=False,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )
    try:
        wanted(given(cases)(tried))()
    except Flaky:
        # A module that is not deterministic does not fail twice in the same way.
        raise failures[-1] from None


@final
@dataclass(frozen=True, slots=True)
class _Check:
    """A module, the same after it was sent, and perhaps another that must be like it."""

    operator: UserOperator
    sent: UserOperator
    like: UserOperator | None

    def empty(self) -> None:
        """Ask about a window without events."""
        case = CheckCase(Window(0, 10), (), (), ())
        if self.operator.incremental:
            self._state(case)
        if _can_answer(self.operator, ()):
            self._answers(self.operator, case, ())

    def all_of(self, case: CheckCase) -> None:
        """Everything that one window shows."""
        if not _can_answer(self.operator, case.events):
            return
        first = self._answers(self.operator, case, case.events)
        again = self._answers(self.operator, case, case.events)
        self._compare(case, first, again, "returns a different result when it is called again", 0.0)
        sent = self._answers(self.sent, case, case.events)
        self._compare(case, first, sent, "returns a different result in another process", 0.0)
        if "ordered" not in self.operator.properties:
            order = self._answers(self.operator, case, case.permuted)
            what = (
                "returns a different result for another order of events (or declare ordered=True)"
            )
            self._compare(case, first, order, what)
        if self.operator.incremental:
            self._piece_by_piece(case, first)
        if self.operator.frame != "python":
            self._beside_others(case, first)
        if self.like is not None and _can_answer(self.like, case.events):
            other = self._answers(self.like, case, case.events)
            self._compare(case, first, other, f"does not return what {self.like.name} returns")

    def _piece_by_piece(self, case: CheckCase, first: list[Timed]) -> None:
        """Add more than is there, look, and remove it again."""
        begin = self._state(case)
        untouched = copy.deepcopy(begin)
        more = case.more if self.operator.removes else ()
        ordered = "ordered" in self.operator.properties
        state = self._changed(case, begin, more, "add")
        for event in case.events if ordered else case.permuted:
            self._finished(case, state)
            state = self._changed(case, copy.deepcopy(state), (event,), "add")
        state = self._changed(case, state, more, "remove")
        what = "returns a different result after events were added and removed again"
        self._compare(case, first, self._finished(case, state), what)
        if self.operator.removes:
            state = self._changed(case, state, case.events, "remove")
            none = self._finished(case, self._state(case))
            what = "keeps a state when all events were removed"
            self._compare(case, none, self._finished(case, state), what)
        if repr(self._state(case)) != repr(untouched):
            raise self._failure(
                case, "returns a state that was changed; initial must create a new one"
            )

    def _beside_others(self, case: CheckCase, first: list[Timed]) -> None:
        """Answer for two windows in one table as for each alone."""
        tables, alone = [], []
        for number, events in enumerate((case.events, case.more)):
            if events:
                table = self._table(events, case.window)
                numbers = pa.array([number] * len(events), pa.int64())
                tables.append(table.set_column(0, WINDOW, numbers))
                alone += first if number == 0 else self._answers(self.operator, case, events)
        if not tables:
            return
        joint = self._called(
            case, lambda: self.operator.code.compute_frame(pa.concat_tables(tables))
        )
        names = self.operator.gives.names
        rows = list(zip(*(joint.column(name).to_pylist() for name in names)))
        wanted = [values for values, _, _ in alone]
        if not alike(rows, wanted, 1e-9):
            what = "returns a different result for a window beside another one in the same table"
            raise self._failure(case, what, rows, wanted)

    def _answers(self, module: UserOperator, case: CheckCase, events: Events) -> list[Timed]:
        columns, times = _columns(module, events)

        def answer() -> list[Timed]:
            given = call_once(module, columns, times, case.window)
            return settled_results(module, given, case.window, _policy(module))

        found: list[Timed] = self._called(case, answer, events)
        return found

    def _table(self, events: Events, window: Window) -> pa.Table:
        columns, times = _columns(self.operator, events)
        arrays = [pa.array(each, kind) for each, (_, kind) in zip(columns, self.operator.takes)]
        return frame_of(self.operator, arrays, times, window)

    def _state(self, case: CheckCase) -> Any:
        state = self._called(case, self.operator.code.initial)
        self._check_state(case, state)
        return state

    def _changed(self, case: CheckCase, state: Any, events: Events, method: str) -> Any:
        change = getattr(self.operator.code, method)
        for event in events:
            call = partial(change, state, event.value, event.start, event.end)
            state = self._called(case, call)
        self._check_state(case, state)
        return state

    def _finished(self, case: CheckCase, state: Any) -> list[Timed]:
        def finish() -> list[Timed]:
            given = list(self.operator.code.finish(state, case.window))
            return settled_results(self.operator, given, case.window, _policy(self.operator))

        found: list[Timed] = self._called(case, finish)
        return found

    def _check_state(self, case: CheckCase, state: Any) -> None:
        strange = unstorable(state)
        if strange is not None:
            raise self._failure(
                case,
                f"has a state that cannot be stored: {strange!r} is a {type(strange).__name__}; "
                "use numbers, strings, dates, lists, tuples, dicts and sets",
            )

    def _called(
        self, case: CheckCase, call: Callable[[], Any], events: Events | None = None
    ) -> Any:
        try:
            return called(self.operator, call)
        except OperatorCallError as failure:
            asked = case.events if events is None else events
            hint = "" if asked else "; return None, or declare its result: empty=..."
            what = failure.reason.removeprefix(f"{self.operator.name} ")
            raise self._failure(case, f"{what}{hint}") from failure.__cause__

    def _compare(
        self, case: CheckCase, one: list[Timed], two: list[Timed], what: str, near: float = 1e-9
    ) -> None:
        if not alike(one, two, near):
            raise self._failure(case, what, one, two)

    def _failure(self, case: CheckCase, what: str, *results: Sequence[Any]) -> AssertionError:
        lines = [f"module '{self.operator.name}' {what}", f"  events: {show_events(case.events)}"]
        if case.more and self.operator.incremental:
            lines.append(f"  added and removed: {show_events(case.more)}")
        lines.append(f"  window: {show_window(case.window)}")
        lines += [f"  {word}: {each}" for word, each in zip(("once", "then"), results)]
        return AssertionError("\n".join(lines))


def _can_answer(module: UserOperator, events: Events) -> bool:
    """Whether it is asked at all: tables do not show windows without events."""
    return bool(events) or module.frame == "python" or module.on_empty is not None


def _policy(module: UserOperator) -> Timestamps:
    """The policy that shows most of what is wrong with times."""
    return "unchanged" if module.own_times else "align"


def _argument_types(
    module: Template, types: Sequence[Any], events: Any
) -> list[tuple[pa.DataType, ...]]:
    """The types to try a module with."""
    if types:
        return [tuple(form_of(kind)[0] for kind in types)]
    if not isinstance(module, DecoratedOperator):
        raise AssertionError(f"give the types to test '{module.name}' with: types=[...]")
    forms = [each.form for each in module.declaration.seen.arguments]
    is_open = [bool(names_in(form)) for form in forms]
    if any(is_open) and events is not None and not isinstance(events, st.SearchStrategy):
        columns = zip(*(each.value for each in as_events(events, len(forms))))
        found = [pa.array(list(column)).type for column in columns]
        return [tuple(kind if o else form for kind, form, o in zip(found, forms, is_open))]
    names = set().union(*(names_in(form) for form in forms)) | {""}
    tried = {
        tuple(resolved(form, dict.fromkeys(names, _allowed(form, kind))) for form in forms)
        for kind in _TRIED
    }
    return sorted(tried, key=str)


def _allowed(form: Any, kind: pa.DataType) -> pa.DataType:
    among = form.among if isinstance(form, Open) else ()
    return kind if not among or kind in among else among[0]


def _bound(
    module: Any, kinds: Sequence[pa.DataType], parameters: Mapping[str, Any] | None
) -> UserOperator:
    try:
        bound: UserOperator = module.bind(kinds, (), parameters or {})
    except QueryError as problem:
        raise AssertionError(
            f"module '{module.name}' cannot be called with these parameters and types: {problem}\n"
            "  hint: give parameters={...} and types=[...] to check_module"
        ) from None
    return bound


def _sent(module: UserOperator) -> UserOperator:
    """The module as another process gets it."""
    # Spark's way to send code is loaded only here: the test kit works without it.
    from anabranch.runtime.spark.shipping import packed, unpacked

    try:
        sent: UserOperator = unpacked(packed(module))
    except AnabranchError:
        raise
    except Exception as problem:
        raise AssertionError(
            f"module '{module.name}' cannot be sent to other processes: {problem}"
        ) from problem
    return sent


def _columns(
    module: UserOperator, events: Events
) -> tuple[list[list[Any]], tuple[list[int], list[int]]]:
    width = len(module.takes)
    columns = [[copy.deepcopy(each.value[index]) for each in events] for index in range(width)]
    return columns, ([each.start for each in events], [each.end for each in events])
