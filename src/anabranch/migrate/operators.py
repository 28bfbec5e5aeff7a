"""User operators whose code changes while their query runs.

Between two runs of a query the code of a user operator may change, and plans say nothing of that.
A query that runs is another matter: before T the old code answers, from T on the new one. So each
exchange of code has a *revision*, and operators of different revisions are different ones.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from types import CodeType
from typing import Any, final

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.user_operator import UserOperator
from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.expressions.scalar_function import ScalarFunction


@final
@dataclass(frozen=True, slots=True)
class RevisedPlan:
    """A new plan whose user operators say which of them run already, and which have other code.

    Attributes:
        node: The plan.
        before: For each operator over windows with other code: the one that runs.
    """

    node: Node
    before: Mapping[Node, Node]


def revised_plan(new: Node, running: Sequence[Node], *, where: str) -> RevisedPlan:
    """Tell the user operators of a new plan from those that run under the same name.

    Raises:
        PlanError: A function has other code, and the name of one that is called now.
    """
    refuse_other_functions(new, running, where=where)
    known: dict[UserOperator, list[UserOperator]] = {}
    for each in _operators(running):
        known.setdefault(replace(each, revision=0), []).append(each)
    before: dict[Node, Node] = {}
    done: dict[int, tuple[Node, Node]] = {}

    def revised(node: Node) -> tuple[Node, Node]:
        """The node with revisions, and the same with the code that runs."""
        if id(node) in done:
            return done[id(node)]
        pairs = [revised(each) for each in node.inputs]
        now, was = node, node
        if any(a is not b for (a, _), b in zip(pairs, node.inputs, strict=True)):
            now = node.with_inputs(*(a for a, _ in pairs))
        if any(b is not c for (_, b), c in zip(pairs, node.inputs, strict=True)):
            was = node.with_inputs(*(b for _, b in pairs))
        if isinstance(node, ApplyOperator):
            assert isinstance(now, ApplyOperator)
            assert isinstance(was, ApplyOperator)
            calls = [(call, *_revision(call.operator, known)) for call in node.calls]
            now = replace(now, calls=tuple(replace(call, operator=mine) for call, mine, _ in calls))
            was = replace(was, calls=tuple(replace(call, operator=old) for call, _, old in calls))
            # Where something below has other code too, its results are others.
            is_changed = any(mine is not old for _, mine, old in calls)
            if is_changed and all(a == b for a, b in pairs):
                before[now] = was
        done[id(node)] = now, was
        return done[id(node)]

    node, _ = revised(new)
    return RevisedPlan(node, before)


def _revision(
    operator: UserOperator, known: Mapping[UserOperator, Sequence[UserOperator]]
) -> tuple[UserOperator, UserOperator]:
    """An operator as it counts in the running query, and the one that runs under its name."""
    there = known.get(operator, ())
    if not there:
        return operator, operator
    same = next((each for each in there if is_same_code(each, operator)), None)
    if same is not None:
        return same, same
    newest = max(there, key=lambda each: each.revision)
    return replace(operator, revision=newest.revision + 1), newest


def is_same_code(one: UserOperator, other: UserOperator) -> bool:
    """Whether two user operators of one name do the same, as far as their code can tell."""
    if one.version != other.version:
        return False
    return one.code is other.code or code_hash(one.code) == code_hash(other.code)


def without_migrate(before: Mapping[Node, Node]) -> str | None:
    """Why states of earlier versions cannot be read; None where they can."""
    for now, was in before.items():
        assert isinstance(now, ApplyOperator)
        assert isinstance(was, ApplyOperator)
        for new, old in zip(now.calls, was.calls, strict=True):
            mine, theirs = new.operator, old.operator
            if not mine.incremental or mine.version == theirs.version:
                continue
            if mine.version < theirs.version or not mine.code.can_migrate:
                return (
                    f"'{mine.name}' of version {mine.version} has no method migrate(self, state, "
                    f"version) for states of version {theirs.version}"
                )
    return None


def refuse_other_functions(new: Node, running: Sequence[Node], *, where: str) -> None:
    """Refuse scalar functions with other code under the name of one that is called now.

    Raises:
        PlanError: There is one.
    """
    now = {each.name: each for node in running for each in _functions(node)}
    for each in _functions(new):
        old = now.get(each.name)
        if old is None or old.identity == each.identity:
            continue
        if code_hash(old.code) != code_hash(each.code):
            raise PlanError(
                f"the function '{each.name}' has other code than the one that the query calls now",
                where=where,
                hint="declare the changed function under another name: both are called until the "
                "old answer is over",
            )


def same_function(read: ScalarFunction, known: Mapping[str, ScalarFunction]) -> ScalarFunction:
    """The one that is known by its name, where that is declared alike and does the same."""
    there = known.get(read.name)
    if there is None or replace(read, identity=there.identity) != there:
        return read
    return there if code_hash(there.code) == code_hash(read.code) else read


def has_other_code(new: Node, old: Node, *, where: str) -> bool:
    """Whether user operators of two equal plans differ in what they do."""
    return revised_plan(new, [old], where=where).node != new


def _operators(nodes: Sequence[Node]) -> Iterator[UserOperator]:
    seen: set[UserOperator] = set()
    for node in nodes:
        for each in node.walk():
            if isinstance(each, ApplyOperator):
                for call in each.calls:
                    if call.operator not in seen:
                        seen.add(call.operator)
                        yield call.operator


def _functions(node: Node) -> Iterator[ScalarFunction]:
    for each in node.walk():
        for parameter in fields(each):  # type: ignore[arg-type]
            for expression in _expressions(getattr(each, parameter.name)):
                yield from expression.functions


def _expressions(value: object) -> Iterator[Expression]:
    """The expressions among the parameters of a node, not of those that it reads."""
    match value:
        case Expression():
            yield value
        case list() | tuple():
            for each in value:
                yield from _expressions(each)
        case Node():
            return
        case _ if is_dataclass(value):
            for parameter in fields(value):
                yield from _expressions(getattr(value, parameter.name))


def code_hash(value: object) -> str:
    """A hash of what code does: the same in every process, whatever its file and line.

    >>> code_hash(lambda x: x + 1) == code_hash(lambda x: x + 1)
    True
    >>> code_hash(lambda x: x + 1) == code_hash(lambda x: x + 2)
    False
    """
    return hashlib.sha256(repr(_shape(value, ())).encode()).hexdigest()


def _shape(value: object, within: Collection[int]) -> object:
    """Code as plain values; what is met inside itself is left out."""
    if id(value) in within:
        return "itself"
    inner = (*within, id(value))
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes():
            return value
        case CodeType():
            consts = [_shape(each, inner) for each in value.co_consts]
            return ["code", value.co_code.hex(), value.co_names, value.co_varnames, consts]
        case list() | tuple():
            return [_shape(each, inner) for each in value]
        case set() | frozenset():
            return ["set", sorted(repr(_shape(each, inner)) for each in value)]
        case dict():
            return [[repr(key), _shape(each, inner)] for key, each in value.items()]
        case type():
            own = [
                [name, _shape(each, inner)]
                for base in value.__mro__[:-1]
                if base.__module__ not in ("typing", "abc", "builtins")
                for name, each in sorted(vars(base).items())
                if not (name.startswith("__") and name not in ("__init__", "__call__"))
                and not name.startswith("_abc")
            ]
            return ["class", own]
    if inspect.isfunction(value):
        cells = [each.cell_contents for each in value.__closure__ or () if _is_filled(each)]
        given = [value.__defaults__, value.__kwdefaults__, cells]
        return ["function", _shape(value.__code__, inner), _shape(given, inner)]
    if isinstance(value, staticmethod | classmethod):
        return ["method", _shape(value.__func__, inner)]
    if isinstance(value, property):
        return ["property", _shape([value.fget, value.fset], inner)]
    if type(value).__module__.startswith("anabranch."):
        # What users have written, without the form in which the engine calls it.
        for name in ("callee", "definition", "target"):
            if (found := getattr(value, name, None)) is not None:
                return _shape(found, inner)
    attributes = getattr(value, "__dict__", None)
    return [_shape(type(value), inner), _shape(attributes, inner)]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
