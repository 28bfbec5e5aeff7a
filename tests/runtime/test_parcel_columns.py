"""Spark and its sources agree on the columns of parcels."""

from __future__ import annotations

from anabranch.runtime.elements.exchange import PARCELS, PARCELS_DDL
from anabranch.runtime.spark.file_source import _SCHEMA


def test_a_source_declares_the_columns_that_are_sent() -> None:
    assert _SCHEMA == PARCELS_DDL
    assert [each.split()[0] for each in PARCELS_DDL.split(", ")] == PARCELS.names
