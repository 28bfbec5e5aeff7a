"""A plan as a text that prints itself where it is shown."""

from __future__ import annotations

from typing import final

from anabranch.display.text_table import html_text


@final
class PlanText(str):
    """A text of several lines that a prompt and a notebook show as it is, without quotes.

    >>> PlanText("Filter price > 80")
    Filter price > 80
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_text(str(self))
