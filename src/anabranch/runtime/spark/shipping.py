"""Values on their way to Python workers, as Spark sends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle


def packed(value: Any) -> bytes:
    """A value, with the code that workers cannot import.

    Raises:
        Exception: It holds something that cannot be sent, such as an open file.
    """
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return dumps(value)


def unpacked(data: bytes) -> Any:
    """The value in another process."""
    return cloudpickle.loads(data)
