"""What Spark cannot read is told with the source, in three parts."""

from __future__ import annotations

import pytest

from anabranch.engine import Engine
from anabranch.errors import StreamError

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("spark('no_such_format')", "no_such_format"),
        ("spark('kafka') ORDERED BY timestamp", "kafka"),
        ("spark('parquet', '/no/such/folder') ORDERED BY at", "/no/such/folder"),
        ("table('no_such_table') ORDERED BY at", "no_such_table"),
    ],
)
def test_what_spark_cannot_read_is_told(engine: Engine, source: str, where: str) -> None:
    for kind in ("STREAM", "TABLE"):
        if kind == "TABLE" and "ORDERED" in source:
            source = source.partition(" ORDERED")[0]
        with pytest.raises(StreamError, match="Spark cannot read") as raised:
            engine.sql(f"CREATE {kind} Unreadable SOURCE {source}")
        assert where in str(raised.value)
        assert "source 'Unreadable'" in raised.value.where
        assert raised.value.hint
