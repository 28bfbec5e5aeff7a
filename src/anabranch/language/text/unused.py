"""Whatever the parser reads and the binder does not use is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.language.text.script import Script, Span, span_of
from anabranch.language.text.used import (
    CLAUSES_OF_STREAMS,
    REFUSED,
    REFUSED_LATER,
    REFUSED_TYPES,
    USED,
    WORDS_OF_OTHERS,
    Refusal,
)

_QUOTED: Final = (TokenType.STRING, TokenType.IDENTIFIER)


def refuse_unused(tree: exp.Expr, script: Script, tokens: Sequence[Token]) -> None:
    """Check that every part of a parsed text is one that the binder uses.

    The binder looks at the arguments of a node by name. The parser knows many more, from other
    dialects too, so each argument that has a value must be listed in `USED` for its type of node.

    Raises:
        QueryError: There is a node or an argument that is not listed; it points at the span.
    """
    for node, root in _every_node(tree):
        kind = type(node)
        used = USED.get(kind)
        if used is None:
            if issubclass(kind, REFUSED_LATER):
                continue
            refusal = REFUSED_TYPES.get(kind) or Refusal(
                f"{_words_of(kind.__name__)} is not supported", "leave it out"
            )
            raise _wrong(refusal, node, node, script, tokens)
        for name, value in node.args.items():
            if _has_value(value) and name not in used:
                refusal = REFUSED.get((kind, name)) or REFUSED.get(name) or _unknown(kind, name)
                raise _wrong(refusal, value, node, script, tokens)
        stray = _stray(node, root)
        if stray is not None:
            raise _wrong(stray, node, node, script, tokens)


def _every_node(tree: exp.Expr, kept: bool = False) -> Iterator[tuple[exp.Expr, bool]]:
    """All nodes, and those of the clauses that the dialect keeps beside them.

    A node comes with whether it is the root of such a clause: the streams of MERGE are.
    """
    for node in tree.walk():
        yield node, kept and node is tree
        for clause in node.meta.values():
            for inner in _trees_in(clause):
                yield from _every_node(inner, kept=True)


def _trees_in(kept: Any) -> Iterator[exp.Expr]:
    if isinstance(kept, exp.Expr):
        yield kept
    elif isinstance(kept, tuple | list):
        for each in kept:
            yield from _trees_in(each)
    elif is_dataclass(kept) and not isinstance(kept, type):
        for field in fields(kept):
            yield from _trees_in(getattr(kept, field.name))


def _has_value(value: Any) -> bool:
    """Whether something was written: parsers fill in None, False and empty lists."""
    return value is not None and value is not False and value != [] and value != ""


def _stray(node: exp.Expr, kept: bool) -> Refusal | None:
    """What is used in some places only, and stands in another one."""
    above = node.parent
    if isinstance(node, exp.Order) and node.this is not None:
        if not isinstance(above, exp.GroupConcat | exp.ArrayAgg):
            return Refusal(
                "an order inside this aggregate is not supported",
                "leave it out: the values of a snapshot have no order",
                ("ORDER BY",),
            )
    elif isinstance(node, exp.Table | exp.Subquery):
        in_from = kept or _is_in_from(node)
        clause = next((each for each in CLAUSES_OF_STREAMS if each in node.meta), None)
        if clause is not None and not in_from:
            return Refusal(
                f"{CLAUSES_OF_STREAMS[clause]} belongs after a stream in FROM", "write it there"
            )
        if node.args.get("alias") and not in_from:
            return Refusal("this query needs no name", "leave the alias out", ("AS",))
        if node.args.get("joins") and not isinstance(above, exp.From | exp.Subquery):
            return Refusal(
                "a join inside another join is not supported",
                "write the joins one after the other, each with its ON",
            )
    elif isinstance(node, exp.Version) and not (
        isinstance(above, exp.Table) and isinstance(above.parent, exp.Join)
    ):
        return Refusal(
            "AS OF belongs after a stream that is joined",
            "write FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.at r ON o.item = r.item",
            ("FOR SYSTEM_TIME", "FOR TIMESTAMP", "TIMESTAMP AS OF", "VERSION AS OF"),
        )
    elif isinstance(node, exp.TableAlias) and isinstance(node.this, exp.Identifier):
        word = node.name.upper()
        if word in WORDS_OF_OTHERS and not node.this.args.get("quoted"):
            return Refusal(
                f"'{word}' is in the position of an alias",
                f"leave it out; where it is meant as an alias, write it in quotes: `{node.name}`",
                (word,),
            )
    elif isinstance(node, exp.Ordered) and isinstance(node.this, exp.Var):
        return Refusal(
            f"ORDER BY {node.this.name} is not supported", "name the columns", (node.this.name,)
        )
    elif isinstance(node, exp.Like | exp.ILike) and isinstance(node.expression, exp.Any | exp.All):
        return Refusal(
            "LIKE with several patterns is not supported", "write a LIKE 'x%' OR a LIKE 'y%'"
        )
    return None


def _is_in_from(node: exp.Expr) -> bool:
    """Whether a query or a name is an entry of FROM, perhaps in more parentheses."""
    above = node.parent
    while isinstance(above, exp.Subquery) and not any(
        above.args.get(key) for key in ("with_", "order", "limit")
    ):
        above = above.parent
    return isinstance(above, exp.From | exp.Join)


def _wrong(
    refusal: Refusal, value: Any, node: exp.Expr, script: Script, tokens: Sequence[Token]
) -> Exception:
    at = _span(refusal, value, node, tokens)
    if "/*+" in refusal.words:
        # The token of a hint does not know where it begins.
        start = script.text.find("/*+", tokens[0].start)
        at = (start, script.text.find("*/", start) + 2)
    return script.wrong(refusal.what, at, refusal.hint)


def _span(refusal: Refusal, value: Any, node: exp.Expr, tokens: Sequence[Token]) -> Span:
    """Where something stands: its word behind the start of its node, or its parts, or its node."""
    around = next((span for each in _upwards(node) if (span := span_of(each))), None)
    if refusal.words:
        behind = -1 if around is None else around[0]
        found = _find(refusal.words, tokens, behind) or _find(refusal.words, tokens, -1)
        if found is not None:
            return found
    parts = value if isinstance(value, list) else [value]
    spans = [span for each in parts if isinstance(each, exp.Expr) and (span := span_of(each))]
    if spans:
        return min(start for start, _ in spans), max(end for _, end in spans)
    return around or (tokens[0].start, tokens[-1].end + 1)


def _upwards(node: exp.Expr) -> Iterator[exp.Expr]:
    found: exp.Expr | None = node
    while found is not None:
        yield found
        found = found.parent


def _find(words: Sequence[str], tokens: Sequence[Token], behind: int) -> Span | None:
    """The first of some words, or of some pairs of words."""
    for index, token in enumerate(tokens):
        if token.start < behind or token.token_type in _QUOTED:
            continue
        for word in words:
            length = len(word.split())
            window = tokens[index : index + length]
            # A token may hold several words: `ORDER BY` is one.
            for number in range(1, len(window) + 1):
                phrase = " ".join(" ".join(each.text.upper().split()) for each in window[:number])
                if phrase == word:
                    return token.start, window[number - 1].end + 1
    return None


def _unknown(kind: type[exp.Expr], name: str) -> Refusal:
    word = name.strip("_").replace("_", " ").upper()
    return Refusal(
        f"{word} of {_words_of(kind.__name__)} is not supported", "leave it out", (word,)
    )


def _words_of(name: str) -> str:
    """`TableSample` as `TABLE SAMPLE`."""
    found = "".join(f" {each}" if each.isupper() else each for each in name).split()
    joined = "".join(each if len(each) == 1 else f" {each} " for each in found)
    return " ".join(joined.split()).upper()
