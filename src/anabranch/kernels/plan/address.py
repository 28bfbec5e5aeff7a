"""What a stage can read from: a source of the plan, or one of its stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final, get_args

from anabranch.errors import EngineError

AddressKind: TypeAlias = Literal["source", "stage"]


@final
@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """The name of a source or a stage, and which of the two it is.

    Its text is what `explain` prints, and how a checkpoint names the sources of its plan.

    >>> Address.source("bids"), str(Address.stage("0-join")), Address.parse("source:a:b").name
    ('source:bids', 'stage:0-join', 'a:b')
    """

    kind: AddressKind
    name: str

    @staticmethod
    def source(name: str) -> Address:
        """That of a source."""
        return Address("source", name)

    @staticmethod
    def stage(name: str) -> Address:
        """That of a stage."""
        return Address("stage", name)

    @staticmethod
    def parse(text: str) -> Address:
        """The address in a text such as `source:bids`.

        Raises:
            EngineError: There is none.
        """
        kind, _, name = text.partition(":")
        for each in get_args(AddressKind):
            if kind == each and name:
                return Address(each, name)
        raise EngineError(
            f"'{text}' is not the address of a source or a stage",
            hint="an address is source:NAME or stage:NAME; please report this with the query",
        )

    @property
    def is_source(self) -> bool:
        """Whether rows come right from a source."""
        return self.kind == "source"

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    def __repr__(self) -> str:
        return repr(str(self))
