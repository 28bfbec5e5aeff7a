"""What the optimizer makes of queries."""

from __future__ import annotations

from pathlib import Path

from anabranch.algebra.explain import explain_tree
from anabranch.optimizer.driver import optimize
from tests.language.streams import plan

GOLDEN = Path(__file__).parent.parent / "golden" / "query_plans.txt"


def test_queries_become_these_plans(update_golden: bool) -> None:
    cases = [case.split("\n----\n") for case in GOLDEN.read_text().strip("\n").split("\n====\n")]
    found = []
    for case in cases:
        best = optimize(plan(case[0]))
        assert not optimize(best.node).steps, f"not at rest: {case[0]}"
        found.append((case[0], explain_tree(best.node)))
    if update_golden:
        text = "\n====\n".join(f"{sql}\n----\n{shown}" for sql, shown in found)
        GOLDEN.write_text(f"{text}\n")
    assert len(found) >= 60
    for (sql, shown), case in zip(found, cases, strict=True):
        if not update_golden:
            assert shown == case[1], sql
