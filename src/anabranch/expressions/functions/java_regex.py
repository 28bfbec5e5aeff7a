"""Regular expressions of Java, in the words of RE2, as far as both mean the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
_AT_END: Final = rf"(?:\r\n|[{_ENDS}])?\z"
_BLANKS: Final = r" \t\n\x0b\f\r"
_CLASSES: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": _BLANKS}
_LITERAL: Final = frozenset("\\.[]{}()*+-?^$|/!\"#%&',:;<=>@_`~ ")
_NAMED: Final = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_MOST: Final = 1000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A regular expression for RE2.

    `ends` says that it ends with `$`, which also holds before a last end of line: `looking` is
    good for looking whether there is a match, not for what it is. `maybe_empty` says that it may
    match nothing at all, after which the two go on in different ways.
    """

    text: str
    looking: str
    groups: int
    ends: bool
    maybe_empty: bool


class _NotTheSame(Exception):  # noqa: N818
    """The two would read this in different ways."""


def translate(pattern: str) -> Translated | None:
    r"""The same expression for RE2; None if it is not known to be the same.

    >>> translate(r"^a.\d").text
    '^a[^\\n\\r\\x{85}\\x{2028}\\x{2029}][0-9]'
    >>> translate(r"(?<=a)b") is None
    True
    """
    reader = _PatternReader(pattern)
    try:
        text, maybe_empty = reader.alternatives()
        if reader.at < len(reader.pattern):
            return None
    except (_NotTheSame, IndexError):
        return None
    looking = text.removesuffix("$") + _AT_END if reader.ends else text
    return Translated(
        text=text,
        looking=looking,
        groups=reader.groups,
        ends=reader.ends,
        maybe_empty=maybe_empty,
    )


class _PatternReader:
    def __init__(self, pattern: str) -> None:
        self.any_case = pattern.startswith("(?i)")
        self.pattern = pattern.removeprefix("(?i)")
        self.at = 0
        self.groups = 0
        self.ends = False
        self.depth = 0

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def alternatives(self) -> tuple[str, bool]:
        branches = [self.sequence()]
        while self.peek() == "|":
            if self.ends:
                raise _NotTheSame
            self.take()
            branches.append(self.sequence())
        if len(branches) > 1 and self.ends:
            raise _NotTheSame
        return "|".join(text for text, _ in branches), any(empty for _, empty in branches)

    def sequence(self) -> tuple[str, bool]:
        text, maybe_empty = "", True
        while self.peek() not in ("", "|", ")"):
            if self.ends:
                raise _NotTheSame
            part, empty = self.repeated()
            text, maybe_empty = text + part, maybe_empty and empty
        return text, maybe_empty

    def repeated(self) -> tuple[str, bool]:
        start = self.peek()
        text, empty = self.atom()
        if self.peek() not in ("*", "+", "?", "{"):
            return text, empty
        if empty or start == "^" or start == "$":
            raise _NotTheSame
        sign = self.take()
        if sign == "{":
            sign, empty = self.counted()
        else:
            empty = sign in "*?"
        if self.peek() == "?":
            sign += self.take()
        if self.peek() in ("*", "+", "?", "{"):
            raise _NotTheSame
        return text + sign, empty

    def counted(self) -> tuple[str, bool]:
        end = self.pattern.index("}", self.at) if "}" in self.pattern[self.at :] else -1
        inside = self.pattern[self.at : end]
        low, comma, high = inside.partition(",")
        numbers = [part for part in (low, high) if part]
        if end < 0 or not low or not all(part.isascii() and part.isdigit() for part in numbers):
            raise _NotTheSame
        if max(map(int, numbers)) > _MOST or (high and int(high) < int(low)):
            raise _NotTheSame
        self.at = end + 1
        return "{" + low + comma + high + "}", int(low) == 0

    def atom(self) -> tuple[str, bool]:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            return self.char_class(), False
        if char == ".":
            return f"[^{_ENDS}]", False
        if char == "^":
            return "^", True
        if char == "$":
            if self.depth or self.peek():
                raise _NotTheSame
            self.ends = True
            return "$", True
        if char == "\\":
            return self.escaped(), False
        if char in "*+?{})]":
            raise _NotTheSame
        return self.letter(char), False

    def group(self) -> tuple[str, bool]:
        opening = "("
        if self.peek() == "?":
            if self.pattern[self.at : self.at + 2] != "?:":
                raise _NotTheSame
            self.at += 2
            opening = "(?:"
        else:
            self.groups += 1
        self.depth += 1
        text, empty = self.alternatives()
        self.depth -= 1
        if self.take() != ")":
            raise _NotTheSame
        return f"{opening}{text})", empty

    def letter(self, char: str) -> str:
        if self.any_case and char.isascii() and char.isalpha():
            return f"[{char.lower()}{char.upper()}]"
        return _plain(char)

    def escaped(self) -> str:
        char = self.take()
        if char in _CLASSES:
            return f"[{_CLASSES[char]}]"
        if char.lower() in _CLASSES:
            return f"[^{_CLASSES[char.lower()]}]"
        if char in _NAMED:
            return _NAMED[char]
        if char in _LITERAL:
            return _plain(char)
        raise _NotTheSame

    def char_class(self) -> str:
        opening = "["
        if self.peek() == "^":
            opening += self.take()
        parts: list[str] = []
        while self.peek() != "]" or not parts:
            parts.append(self.class_part())
        self.take()
        return opening + "".join(parts) + "]"

    def class_part(self) -> str:
        low = self.class_char()
        if len(low) > 1:
            return low
        if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
            self.take()
            high = self.class_char()
            if len(high) > 1 or ord(high) < ord(low):
                raise _NotTheSame
            return self.range(low, high)
        return self.range(low, low)

    def class_char(self) -> str:
        """One character, or several as a part of a class."""
        char = self.take()
        if char in "[]^" or (char == "&" and self.peek() == "&"):
            # Classes in classes, intersections: Java's own.
            raise _NotTheSame
        if char != "\\":
            return char
        char = self.take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _NAMED:
            return _NAMED[char]
        if char in _LITERAL:
            return char
        raise _NotTheSame

    def range(self, low: str, high: str) -> str:
        text = _plain(low) + (f"-{_plain(high)}" if high != low else "")
        if not self.any_case:
            return text
        letters = [chr(code) for code in range(ord(low), min(ord(high), 127) + 1)]
        others = "".join(char.swapcase() for char in letters if char.isalpha())
        return text + others


def _plain(char: str) -> str:
    """One character, as itself."""
    if char.isalnum() or not char.isascii():
        return char
    return f"\\x{ord(char):02x}"
