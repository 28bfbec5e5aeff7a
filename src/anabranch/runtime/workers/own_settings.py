"""How this process computes, kept from code of users that changes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import localcontext

import numpy as np


@contextmanager
def own_settings() -> Iterator[None]:
    """What numpy does about overflows, and how exact decimals are, stays as it is.

    Modules and functions run in the process of the engine, and may set that for themselves.
    """
    with np.errstate(), localcontext():
        yield
