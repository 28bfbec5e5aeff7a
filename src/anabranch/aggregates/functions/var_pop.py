"""VAR_POP: the mean square distance from the mean."""

from __future__ import annotations

from typing import Final

from sqlglot import expressions as exp

from anabranch.aggregates.moments import moment
from anabranch.aggregates.sql import SqlForm

FUNCTION: Final = moment("var_pop", forms=(SqlForm(exp.VariancePop),), sample=False, root=False)
