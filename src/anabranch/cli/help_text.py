"""Docstrings as help."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc


def help_of(command: Callable[..., None]) -> str:
    r"""The docstring of a command; the lines after a line with `\b` stay as they are."""
    return cleandoc(command.__doc__ or "").replace("\\b\n", "\b\n")
