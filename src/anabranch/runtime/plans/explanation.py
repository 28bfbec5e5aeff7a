"""What becomes of a query: its plan, the rules applied, the stages, what Spark does itself."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa

from anabranch.algebra.analysis.liveliness import cleanup, liveliness, warning
from anabranch.algebra.explain import explain_tree
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.event_identity import events_in_words
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.kernels.contract.kernel import Stateful
from anabranch.kernels.plan.explain import explain_stages
from anabranch.kernels.plan.stage import PhysicalPlan, Stage
from anabranch.language.text.types import type_name
from anabranch.model.record import plain
from anabranch.optimizer.driver import Optimized
from anabranch.runtime.plans.revision_plan import RevisedSource


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that `explain` shows.

    Attributes:
        written: The plan as it was written.
        optimized: The plan that runs, and the rules that led to it.
        physical: Its stages.
        leaves: What is known of the output.
        notes: Remarks for the author of the query.
        spark: By source, what Spark does itself: its own plan, as text.
        revisions: What corrections of sources with LATE REVISE lead to.
    """

    written: Node
    optimized: Optimized
    physical: PhysicalPlan
    leaves: str
    notes: tuple[str, ...] = ()
    spark: tuple[tuple[str, str], ...] = ()
    revisions: tuple[RevisedSource, ...] = ()

    def text(self) -> str:
        """For people."""
        parts = []
        if self.optimized.steps:
            rules = [
                f"{n}. {step.rule}: {step.before}" for n, step in enumerate(self.optimized.steps, 1)
            ]
            parts += [f"Query\n{_indented(explain_tree(self.written))}"]
            parts += ["Rules\n" + _indented("\n".join(rules))]
        parts += [f"Plan\n{_indented(_with_properties(self.optimized.node))}"]
        parts += [f"Windows\n{_indented(printed)}" for printed in _windows(self.optimized.node)]
        parts += [explain_stages(self.physical)]
        if self.revisions:
            parts += ["Revisions\n" + _indented("\n".join(each.text() for each in self.revisions))]
        parts += [f"Spark, source {name}\n{_indented(plan)}" for name, plan in self.spark]
        parts += [f"note: {note}" for note in self.notes]
        parts += [f"Leaves: {self.leaves}"]
        return "\n\n".join(parts)

    def json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "query": _tree(self.written),
            "rules": [
                {"rule": step.rule, "before": step.before, "after": step.after}
                for step in self.optimized.steps
            ],
            "plan": _tree(self.optimized.node),
            "windows": [
                {
                    "operator": each.label,
                    "events": events_in_words(each.input),
                    "settled": liveliness(each),
                    "forgotten": cleanup(each),
                    "warning": warning(each),
                }
                for each in _modules(self.optimized.node)
            ],
            "stages": [_stage(stage) for stage in self.physical.stages],
            "revisions": [plain(each) for each in self.revisions],
            "spark": [{"source": name, "plan": plan} for name, plan in self.spark],
            "notes": list(self.notes),
            "leaves": self.leaves,
            "columns": _columns(self.written.schema),
        }


def spark_plan(frame: Any) -> str:
    """What Spark makes of a DataFrame: its physical plan."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        frame.explain(mode="simple")
    lines = printed.getvalue().strip().splitlines()
    return "\n".join(line.rstrip() for line in lines if not line.startswith("=="))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _with_properties(node: Node, depth: int = 0) -> str:
    below = [_with_properties(each, depth + 1) for each in node.inputs]
    label = node.properties.label
    line = "  " * depth + node.label + (f"  [{label}]" if label != "any" else "")
    if isinstance(node, Source) and node.expected:
        line += f"  expected: {node.expected}"
    return "\n".join([line, *below])


def _modules(node: Node) -> list[ApplyOperator]:
    """Those of a plan, each once."""
    return list(dict.fromkeys(each for each in node.walk() if isinstance(each, ApplyOperator)))


def _windows(node: Node) -> list[str]:
    """Of windows of the time axis: how far they are settled, and when they are forgotten."""
    found: list[str] = []
    for each in _modules(node):
        lines = [each.label, f"  {events_in_words(each.input)}"]
        lines += [f"  {liveliness(each)}", f"  {cleanup(each)}"]
        problem = warning(each)
        lines += [f"  WARNING: {problem}"] if problem is not None else []
        found.append("\n".join(lines))
    return ["\n".join(found)] if found else []


def _tree(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operator": node.identity.name,
        "label": node.label,
        "properties": node.properties.label,
        "columns": _columns(node.schema),
        "inputs": [_tree(each) for each in node.inputs],
    }
    if isinstance(node, Source):
        found["source"] = node.name
        if node.expected:
            found["expected"] = {"rate": node.rate, "distinct": dict(node.distinct)}
    return found


def _columns(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": field.name, "type": type_name(field.type)} for field in schema]


def _stage(stage: Stage) -> dict[str, Any]:
    head = stage.kernels[0] if stage.kernels else None
    return {
        "name": stage.name,
        "sharded_by": (head.spread if isinstance(head, Stateful) else "sender")
        if stage.sharded
        else None,
        "reads": [
            {
                "from": str(edge.upstream),
                "columns": None if edge.columns is None else list(edge.columns),
                "steps": [step.label for step in edge.chain],
                "side": edge.side,
                "to_all_shards": stage.is_broadcast(number),
            }
            for number, edge in enumerate(stage.edges)
        ],
        "kernels": [
            {"label": kernel.label, "kernel": kernel.identity.name} for kernel in stage.kernels
        ],
    }
