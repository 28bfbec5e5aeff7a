"""Completion in the shell: words, names, columns, paths, commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from anabranch.cli.shell.commands import COMMANDS
from anabranch.cli.shell.names import KEYWORDS, Names, quoted
from anabranch.cli.shell.text import cut, open_quote

_PLAIN: Final = re.compile(r"\\?[^\W\d]\w*")
_WORD: Final = re.compile(r"[\w.]*$")
_NAMED: Final = re.compile(
    r"\b(FROM|JOIN|DESCRIBE|DESC|STREAM|TABLE|VIEW)\s+[\w.]*$", re.IGNORECASE
)
_LISTED: Final = re.compile(
    r"\bFROM\s+(?:(?!WHERE\b|GROUP\b|HAVING\b)[^;])*,\s*\w*$", re.IGNORECASE
)
_STOPPED: Final = re.compile(r"^\s*STOP\s+\w*$", re.IGNORECASE)
_ALIASED: Final = re.compile(
    r"\b(\w+)\b(?=\s*(?:(?:WINDOW\s*\([^)]*\)|\[[^\]]*\])\s*)?(?:AS\s+)?(\w+))", re.IGNORECASE
)


@final
class WordCompleter(Completer):
    """Offers what may stand at the cursor, as far as the words around it tell."""

    def __init__(self, names: Names) -> None:
        """Complete from these names."""
        self._names = names
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """What prompt_toolkit asks for."""
        before = document.text_before_cursor
        before = before[_begin(before) :]
        if before.startswith("\\"):
            yield from self._command(before, event)
            return
        quote = open_quote(before)
        if quote is not None:
            yield from self._path(before[quote + 1 :], event)
            return
        # The words behind the cursor count as well: FROM often stands there.
        whole = before + document.text_after_cursor.partition(";")[0]
        found = _WORD.search(before)
        word = found[0] if found is not None else ""
        owner, dot, word = word.rpartition(".")
        offered = self._columns_of(owner, whole) if dot else self._words(before, whole, word)
        yield from _matching(offered, word)

    def _command(self, text: str, event: CompleteEvent) -> Iterator[Completion]:
        name, space, rest = text.partition(" ")
        if not space:
            yield from _matching([f"\\{each}" for each in COMMANDS], name)
        elif name in ("\\i", "\\to"):
            yield from self._path(rest.lstrip(), event)
        elif name in ("\\stop", "\\watch"):
            yield from _matching(self._names.queries, rest.split(" ")[-1])

    def _path(self, text: str, event: CompleteEvent) -> Iterator[Completion]:
        yield from self._paths.get_completions(Document(text), event)

    def _words(self, before: str, whole: str, word: str) -> Iterator[str]:
        names = self._names
        if _STOPPED.search(before):
            yield from names.queries
            return
        if _NAMED.search(before) or _LISTED.search(before):
            yield from names.columns
            return
        words = {each.lower() for each in re.findall(r"\w+", whole)}
        for name, columns in names.columns.items():
            if name.lower() in words:
                yield from columns
        # Nobody wants to see hundreds of functions who has not begun to type one.
        if word:
            yield from _in_case(KEYWORDS, word)
            yield from names.columns
            yield from _in_case(names.functions, word)
        else:
            yield from names.columns

    def _columns_of(self, owner: str, whole: str) -> Iterator[str]:
        streams = {name.lower(): columns for name, columns in self._names.columns.items()}
        aliases = {
            alias.lower(): name.lower()
            for name, alias in _ALIASED.findall(whole)
            if name.lower() in streams
        }
        key = owner.lower()
        yield from streams.get(key) or streams.get(aliases.get(key, ""), ())


def _begin(text: str) -> int:
    """Where the statement or command begins that the cursor is in."""
    pieces, rest = cut(text)
    if rest == len(text) and pieces:
        start, end = pieces[-1]
        if text[start] == "\\" and not text[start:end].endswith("\n"):
            return start
    return rest


def _in_case(words: Iterable[str], typed: str) -> Iterator[str]:
    """Words of the language look like what was typed: large or small."""
    for word in words:
        yield word.lower() if typed.islower() else word.upper()


def _matching(offered: Iterable[str], typed: str) -> Iterator[Completion]:
    for each in dict.fromkeys(offered):
        if each.lower().startswith(typed.lower()):
            plain = _PLAIN.fullmatch(each) is not None
            yield Completion(each if plain else quoted(each), start_position=-len(typed))
