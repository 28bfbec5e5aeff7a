"""A bound expression in DuckDB's words, with the type and the meaning it has in Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions.functions import arithmetic, conditions, numbers, patterns, times
from anabranch.expressions.functions.casts import cast, describe_cast
from anabranch.expressions.functions.collections import item, named_struct, pack, struct_field
from anabranch.expressions.functions.every import FUNCTIONS
from anabranch.expressions.functions.lambdas import LAMBDAS, Lambda, apply
from anabranch.expressions.functions.literals import (
    interval,
    number,
    text,
    type_named,
    type_written,
)
from anabranch.expressions.functions.sharing import shared
from anabranch.expressions.functions.value import (
    BINARY,
    BOOLEAN,
    NULL,
    STRING,
    Build,
    Value,
    name_of,
    type_in_spark,
)
from anabranch.expressions.functions.widening import common_type, implicit
from anabranch.expressions.scalar_function import Functions, ScalarFunction, own_name


class SparkOnlyError(Exception):
    """A part of an expression that is not known to mean the same in a worker."""

    def __init__(self, what: str, name: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.name = name


class WrongCallError(Exception):
    """A user's function is called with something that it does not take."""

    def __init__(self, name: str, what: str, hint: str) -> None:
        super().__init__(what)
        self.name = name
        self.what = what
        self.hint = hint


_BINARY: Final[Mapping[type[exp.Expr], tuple[str, Build]]] = {
    exp.Add: ("+", arithmetic.plus),
    exp.Sub: ("-", arithmetic.minus),
    exp.Mul: ("*", arithmetic.times),
    exp.Div: ("/", arithmetic.divided),
    exp.IntDiv: ("div", arithmetic.divided_whole),
    exp.Mod: ("%", arithmetic.remainder),
    exp.BitwiseAnd: ("&", numbers.bit_and),
    exp.BitwiseOr: ("|", numbers.bit_or),
    exp.BitwiseXor: ("^", numbers.bit_xor),
    exp.BitwiseLeftShift: ("<<", numbers.shift_left),
    exp.BitwiseRightShift: (">>", numbers.shift_right),
    exp.EQ: ("=", lambda values: conditions.compare(values, "=")),
    exp.NEQ: ("<>", lambda values: conditions.compare(values, "<>")),
    exp.LT: ("<", lambda values: conditions.compare(values, "<")),
    exp.LTE: ("<=", lambda values: conditions.compare(values, "<=")),
    exp.GT: (">", lambda values: conditions.compare(values, ">")),
    exp.GTE: (">=", lambda values: conditions.compare(values, ">=")),
    exp.NullSafeEQ: ("<=>", conditions.equal_null),
    exp.DPipe: ("||", lambda values: FUNCTIONS["concat"].apply(values)),
    exp.RegexpLike: ("rlike", patterns.matches),
    exp.Like: ("like", patterns.like),
    exp.ILike: ("ilike", lambda values: patterns.like(values, any_case=True)),
}
_READ: Final = frozenset(
    """
    default expression expressions false for_ from_ high ifs is_string length low negate position
    quoted safe start substr this to true typed unit coalesce
    """.split()  # noqa: SIM905
)
"""What is looked at in a node; with anything else in it, it could mean something else."""


def translate(tree: exp.Expr, schema: pa.Schema, own: Functions) -> Value:
    """The value of an expression, where the column at position i is called `__c<i>`.

    Raises:
        SparkOnlyError: there is something in it that is not in the table.
        WrongCallError: one of the functions of users (`own`) does not take its arguments.
    """
    return _Translator(schema, {}, own).value(tree)


class _Translator:
    def __init__(self, schema: pa.Schema, variables: Mapping[str, Value], own: Functions) -> None:
        self.schema = schema
        self.variables = variables
        self.own = own

    def value(self, node: exp.Expr) -> Value:
        if any(value and name not in _READ for name, value in node.args.items()):
            raise SparkOnlyError(f"{node.sql('spark')} is evaluated by Spark only", node.key)
        if type(node) in _BINARY:
            name, build = _BINARY[type(node)]
            values = self.values([node.this, node.expression])
            return _negated(node, self.made(name, shared(values, build), values))
        rule = _RULES.get(type(node))
        if rule is None:
            raise SparkOnlyError(f"{node.key} is evaluated by Spark only", node.key)
        return rule(self, node)

    def values(self, nodes: Sequence[exp.Expr]) -> list[Value]:
        return [self.value(node) for node in nodes]

    def built(self, name: str, build: Build, *nodes: exp.Expr) -> Value:
        values = self.values(nodes)
        return self.made(name, build(values), values)

    def made(self, name: str, found: Value | None, values: Sequence[Value]) -> Value:
        if found is None:
            given = ", ".join(name_of(value.type) for value in values)
            raise SparkOnlyError(f"{name} of ({given}) is not evaluated in workers", name)
        return found

    def call(self, name: str, *nodes: exp.Expr | None) -> Value:
        values = self.values([node for node in nodes if node is not None])
        build = FUNCTIONS[name].apply
        found = build(values) if name in conditions.CONDITIONS else shared(values, build)
        return self.made(name, found, values)

    def column(self, node: exp.Column) -> Value:
        field = self.schema.field(node.name)
        kind = type_in_spark(field.type)
        if kind is None:
            raise SparkOnlyError(f"there are no functions of {field.type} in workers")
        return Value(text=f"__c{self.schema.get_field_index(node.name)}", type=kind)

    def variable(self, node: exp.Identifier) -> Value:
        if node.name.lower() not in self.variables:
            raise SparkOnlyError(f"'{node.name}' does not exist in workers")
        return self.variables[node.name.lower()]

    def dot(self, node: exp.Dot) -> Value:
        holder = self.value(node.this)
        return self.made(".", struct_field(holder, node.expression.name), [holder])

    def negative(self, node: exp.Neg) -> Value:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return self.literal(node.this, "-")
        return self.built("-", arithmetic.negated, node.this)

    def literal(self, node: exp.Literal, sign: str = "") -> Value:
        found = text(node.this) if node.is_string else number(sign + node.this)
        if found is None:
            raise SparkOnlyError(f"the number {node.this} is read by Spark only")
        return found

    def logical(self, node: exp.And | exp.Or) -> Value:
        word = "AND" if isinstance(node, exp.And) else "OR"
        parts = list(node.flatten(unnest=False))
        return self.built(word, lambda values: conditions.logical(values, word), *parts)

    def opposite(self, node: exp.Not) -> Value:
        value = self.value(node.this)
        fits = value.type in (BOOLEAN, NULL)
        return self.made("not", value.called("(NOT {})", BOOLEAN) if fits else None, [value])

    def different(self, node: exp.NullSafeNEQ) -> Value:
        same = self.built("<=>", conditions.equal_null, node.this, node.expression)
        return same.called("(NOT {})")

    def is_(self, node: exp.Is) -> Value:
        value, other = self.value(node.this), node.expression
        if isinstance(other, exp.Null):
            return value.called("({} IS NULL)", BOOLEAN)
        fits = isinstance(other, exp.Boolean) and value.type in (BOOLEAN, NULL)
        word = "true" if fits and other.this else "false"
        return self.made(
            "is", value.called(f"({{}} IS {word})", BOOLEAN) if fits else None, [value]
        )

    def in_(self, node: exp.In) -> Value:
        if not node.expressions:
            raise SparkOnlyError("this kind of IN is evaluated by Spark only", "in")
        calls = any(call.name.lower() in self.own for call in node.find_all(exp.Anonymous))
        values = self.values([node.this, *node.expressions])
        found = conditions.is_in(values)
        if found is None and calls:
            found = conditions.is_one_of(values)
        return self.made("in", found, values)

    def between(self, node: exp.Between) -> Value:
        return self.call("between", node.this, node.args["low"], node.args["high"])

    def escape(self, node: exp.Escape) -> Value:
        like = node.this
        sign = node.expression.name
        any_case = isinstance(like, exp.ILike)
        if not isinstance(like, exp.Like | exp.ILike):
            raise SparkOnlyError("this kind of LIKE is evaluated by Spark only", "like")
        found = self.built(
            "like",
            lambda values: patterns.like(values, escape=sign, any_case=any_case),
            like.this,
            like.expression,
        )
        return _negated(like, found)

    def case(self, node: exp.Case) -> Value:
        tests = [branch.this for branch in node.args["ifs"]]
        results = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        if node.this is not None:
            tests = [exp.EQ(this=node.this.copy(), expression=test.copy()) for test in tests]
        holds = self.values(tests)
        # What is found nowhere is NULL, but has the type of the others.
        given = self.values([*results, *([default] if default is not None else [])])
        return self.made("case", conditions.choose(holds, given), [*holds, *given])

    def if_(self, node: exp.If) -> Value:
        return self.call("if", node.this, node.args["true"], node.args.get("false") or exp.null())

    def cast(self, node: exp.Cast) -> Value:
        value, kind = self.value(node.this), type_written(node.to)
        if kind is None:
            raise SparkOnlyError(f"a cast to {node.to.sql('spark')} is evaluated by Spark only")
        return self.converted(value, kind, safe=isinstance(node, exp.TryCast))

    def converted(self, value: Value, kind: pa.DataType, *, safe: bool = False) -> Value:
        found = shared([value], lambda values: cast(values[0], kind, safe=safe))
        if found is None:
            raise SparkOnlyError(
                f"{describe_cast(value, kind)} is not evaluated in workers", "cast"
            )
        return found

    def extract(self, node: exp.Extract) -> Value:
        value = self.value(node.expression)
        return self.made("extract", times.extract(node.name, value), [value])

    def trim(self, node: exp.Trim) -> Value:
        word = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""))
        if node.expression is None:
            return self.call(word or "trim", node.this)
        if word is None:
            return self.call("btrim", node.this, node.expression)
        return self.call(word, node.expression, node.this)

    def substring(self, node: exp.Substring) -> Value:
        return self.call("substring", node.this, node.args.get("start"), node.args.get("length"))

    def position(self, node: exp.StrPosition) -> Value:
        return self.call("locate", node.args["substr"], node.this, node.args.get("position"))

    def overlay(self, node: exp.Overlay) -> Value:
        start = node.args.get("from_")
        return self.call("overlay", node.this, node.expression, start, node.args.get("for_"))

    def texts(self, node: exp.Concat) -> Value:
        """Texts side by side are one."""
        return text("".join(part.name for part in node.expressions))

    def interval(self, node: exp.Interval) -> Value:
        unit = node.args.get("unit")
        written = node.this.name if isinstance(node.this, exp.Literal) else None
        found = interval(written, unit.sql("spark") if unit is not None else "")
        if found is None:
            raise SparkOnlyError(f"{node.sql('spark')} is evaluated by Spark only", "interval")
        return found

    def bracket(self, node: exp.Bracket) -> Value:
        return self.built("[]", item, node.this, *node.expressions)

    def transform(self, node: exp.Transform) -> Value:
        return self.higher("transform", [node.this, node.expression])

    def called(self, node: exp.Anonymous) -> Value:
        name, arguments = node.name.lower(), node.expressions
        kind = type_named(name)
        if name in self.own:
            return _called_own(self.own[name], self.values(arguments))
        if name in LAMBDAS:
            return self.higher(name, arguments)
        if name in ("struct", "named_struct"):
            return self.struct(name, arguments)
        if kind is not None and len(arguments) == 1:
            return self.converted(self.value(arguments[0]), kind)
        if name not in FUNCTIONS:
            raise SparkOnlyError(f"{name} is evaluated by Spark only", name)
        return self.call(name, *arguments)

    def struct(self, name: str, arguments: Sequence[exp.Expr]) -> Value:
        if name == "named_struct":
            return self.built(name, named_struct, *arguments)
        fields = [
            (
                _field_name(node, index),
                self.value(node.this if isinstance(node, exp.Alias) else node),
            )
            for index, node in enumerate(arguments, 1)
        ]
        return self.made(name, pack(fields), [value for _, value in fields])

    def higher(self, name: str, arguments: Sequence[exp.Expr]) -> Value:
        function = arguments[-1]
        if len(arguments) != 2 or not isinstance(function, exp.Lambda):
            raise SparkOnlyError(f"this kind of {name} is evaluated by Spark only", name)
        names = [variable.name.lower() for variable in function.expressions]

        def body(values: Sequence[Value]) -> Value:
            inner = {**self.variables, **dict(zip(names, values))}
            return _Translator(self.schema, inner, self.own).value(function.this)

        depth = len(self.variables)
        own = tuple(f"x{depth + index}" for index in range(len(names)))
        array = self.value(arguments[0])
        return self.made(name, apply(name, array, Lambda(names=own, body=body)), [array])


def _called_own(function: ScalarFunction, values: Sequence[Value]) -> Value:
    """A call of a user's function, whose arguments are widened as those of other functions."""
    name, hint = function.name, f"it is declared as {function.signature}"
    if len(values) != len(function.takes):
        number = f"{len(values)} argument{'' if len(values) == 1 else 's'}"
        raise WrongCallError(name, f"the function '{name}' does not take {number}", hint)
    texts = []
    for value, (parameter, kind) in zip(values, function.takes):
        found = implicit(value, kind)
        if found is None and common_type([value.type, kind]) == kind and value.type != STRING:
            found = cast(value, kind)
        if found is None:
            what = f"the function '{name}' does not take {name_of(value.type)} for '{parameter}'"
            raise WrongCallError(name, what, hint)
        texts.append(found.text)
    text = f"{own_name(function)}({', '.join(texts)})"
    return Value(text=text, type=function.returns, fails=True)


def _negated(node: exp.Expr, value: Value) -> Value:
    """NOT LIKE and NOT ILIKE are one node."""
    return value.called("(NOT {})", BOOLEAN) if node.args.get("negate") else value


def _field_name(node: exp.Expr, index: int) -> str:
    if isinstance(node, exp.Alias):
        return node.alias
    if isinstance(node, exp.Column):
        return node.name
    return node.expression.name if isinstance(node, exp.Dot) else f"col{index}"


_RULES: Final[Mapping[type[exp.Expr], Callable[..., Value]]] = {
    exp.Paren: lambda self, node: self.value(node.this),
    exp.Literal: _Translator.literal,
    exp.RawString: lambda _, node: text(node.this),
    exp.HexString: lambda _, node: Value(text=f"unhex('{node.this}')", type=BINARY),
    exp.Boolean: lambda _, node: Value(
        text="true" if node.this else "false", type=BOOLEAN, literal=bool(node.this)
    ),
    exp.Null: lambda _, __: Value(text="NULL", type=NULL),
    exp.Column: _Translator.column,
    exp.Identifier: _Translator.variable,
    exp.Dot: _Translator.dot,
    exp.Neg: _Translator.negative,
    exp.BitwiseNot: lambda self, node: self.built("~", numbers.bit_not, node.this),
    exp.And: _Translator.logical,
    exp.Or: _Translator.logical,
    exp.Not: _Translator.opposite,
    exp.NullSafeNEQ: _Translator.different,
    exp.Is: _Translator.is_,
    exp.In: _Translator.in_,
    exp.Between: _Translator.between,
    exp.Escape: _Translator.escape,
    exp.Case: _Translator.case,
    exp.If: _Translator.if_,
    exp.Cast: _Translator.cast,
    exp.TryCast: _Translator.cast,
    exp.Extract: _Translator.extract,
    exp.Trim: _Translator.trim,
    exp.Substring: _Translator.substring,
    exp.StrPosition: _Translator.position,
    exp.Overlay: _Translator.overlay,
    exp.Concat: _Translator.texts,
    exp.Interval: _Translator.interval,
    exp.Bracket: _Translator.bracket,
    exp.Transform: _Translator.transform,
    exp.Anonymous: _Translator.called,
}
