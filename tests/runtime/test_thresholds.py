"""Every row or byte count that the code decides by is in one table, and can be set."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import anabranch
from anabranch.errors import PlanError
from anabranch.kernels.columns import grouped as columns
from anabranch.runtime.thresholds import THRESHOLDS, VARIABLE, current, set_thresholds, thresholds

ROOT = Path(anabranch.__file__).parent
LAYERS = ("model", "expressions", "aggregates", "algebra", "kernels", "runtime", "userops")

NO_PATHS = {
    "algebra.forms.from_signed.MOST_INSTANTS": "beyond it the query is refused",
    "expressions.functions.sharing.LONG": "characters of an expression, not rows",
    "expressions.scalar_function._MOST_TEXT": "characters of a message",
    "algebra.time_window.MOST_STEPS": "beyond it the query is refused",
    "algebra.count_window.MOST_ELEMENTS": "beyond it the query is refused",
    "kernels.modules.axis_grid.MAX_WINDOWS": "beyond it the batch is refused",
    "kernels.columns.codes._DIGITS": "digits of a decimal",
    "kernels.lifetimes.from_signed.MOST_POINTS": "beyond it the batch is refused",
    "kernels.merge.contradictions.SHOWN": "what a message shows",
    "kernels.merge.said_again.REMEMBERED_ROWS": "beyond it no repetition is recognised",
    "runtime.revisions.estimator.ESTIMATES_IN_RECORD": "what a record shows",
    "runtime.spark.quiet.MOST_LINES": "what a message shows",
    "kernels.modules.failures._REPORTED_WINDOWS": "what a message shows",
    "kernels.modules.failures._REPORTED_EVENTS": "what a message shows",
    "kernels.lifetimes.split.MOST_PIECES": "beyond it the batch is refused",
    "kernels.stateless.time_window.MOST_LAYERS": "beyond it the batch is refused",
    "kernels.columns.compiled_runs._SPARSE": "a ratio inside compiled code; a few rows cross it",
    "kernels.columns.compiled_timeline._SHIFTS": "a ratio inside compiled code; few rows cross it",
    "model.numbers.hashing._SHORT": "words of a text: a part of what a hash is",
    "model.legality._MOST_ENDS": "what a message shows",
    "runtime.elements.exchange._PIECES": "numbers of parcels within a message",
    "runtime.query.experience.REMEMBERED_PLANS": "plans whose costs are remembered, not rows",
    "runtime.query.driver_share._TELLING_ROWS": "what the choice of a place learns from",
    "runtime.query.asking.plot.MOST_LINES": "what a picture shows",
    "runtime.query.state_view._BESIDE": "what a message shows",
    "runtime.sources.files.rewritten.MOST_TOLD": "files that a batch tells of, not rows",
}
"""Constants that are compared with sizes and decide nothing about how rows are processed."""

ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
SIZES = {"num_rows", "nbytes", "size", "rows", "length"}


def compared_constants() -> Iterator[tuple[str, str]]:
    """Constants that stand in a comparison, or in a minimum or maximum, beside a size."""
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            tree = ast.parse(path.read_text())
            own = {
                target.id
                for node in tree.body
                if isinstance(node, ast.Assign | ast.AnnAssign)
                for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
                if isinstance(target, ast.Name) and isinstance(value_of(module, target.id), int)
            }
            for node in ast.walk(tree):
                if not isinstance(node, ast.Compare | ast.Call):
                    continue
                if isinstance(node, ast.Call) and not is_least_or_most(node):
                    continue
                names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                if names & own and any(map(is_size, ast.walk(node))):
                    yield from ((module, name) for name in names & own)


def value_of(module: str, name: str) -> object:
    if not name.isupper():
        return None
    value = getattr(import_module(f"anabranch.{module}"), name, None)
    # Times, marks and masks are no sizes.
    return value if isinstance(value, int) and 1 < value < 2**40 else None


def compared_numbers() -> Iterator[str]:
    """Sizes that are compared with a number that has no name."""
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], ORDERED):
                    sides = [node.left, *node.comparators]
                    numbers = [each.value for each in sides if isinstance(each, ast.Constant)]
                    large = [n for n in numbers if isinstance(n, int) and 8 <= n < 2**40]
                    if large and any(map(is_size, sides)):
                        yield f"{path.relative_to(ROOT)}: {ast.unparse(node)}"


def is_least_or_most(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ("min", "max", "range")


def is_size(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        # How long a text is that people read decides nothing about rows.
        return ast.unparse(node.args[0]) not in ("text", "name", "word", "line")
    return (isinstance(node, ast.Attribute) and node.attr in SIZES) or (
        isinstance(node, ast.Name) and node.id in SIZES
    )


@pytest.mark.spark  # collects runtime/, which imports pyspark
def test_every_size_that_the_code_decides_by_is_in_the_table() -> None:
    found = {f"{module}.{name}" for module, name in compared_constants()}
    assert len(found & set(THRESHOLDS)) > 10, "the scan finds nothing any more"
    assert found - set(THRESHOLDS) - set(NO_PATHS) == set()
    constants = (name.rpartition(".") for name in NO_PATHS)
    gone = [name for module, _, name in constants if value_of(module, name) is None]
    assert not gone, "exceptions for constants that do not exist"


def test_every_such_size_has_a_name() -> None:
    assert list(compared_numbers()) == []


def test_each_of_them_exists_once() -> None:
    assert len(set(THRESHOLDS)) == len(THRESHOLDS)
    assert all(value > 3 or name.endswith("_RUNS") for name, value in current().items())


def test_they_are_set_for_a_while() -> None:
    before = current()
    with thresholds(1, 2, 3, SAMPLE_ROWS=7):
        inside = current()
        assert columns.SAMPLE_ROWS == 7
        assert set(inside.values()) == {1, 2, 3, 7}
    assert current() == before


def test_what_is_no_threshold_is_refused() -> None:
    with pytest.raises(PlanError, match="there is no threshold 'kernels"):
        set_thresholds({"kernels.columns.grouped.FEW": 1})
    with pytest.raises(PlanError, match="0 is not a positive whole number"):
        set_thresholds({"kernels.columns.grouped.SAMPLE_ROWS": 0})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2", "2 2"),
        ('{"kernels.columns.grouped.SAMPLE_ROWS": 5}', "5 20000"),
        ("", "4096 20000"),
        ("few", "PlanError: 'few' is not a value for thresholds"),
    ],
)
def test_a_worker_takes_them_from_its_environment(text: str, said: str) -> None:
    program = (
        "from anabranch.runtime.thresholds import take_thresholds as take\n"
        "from anabranch.kernels.columns import grouped as columns\n"
        "try:\n    take()\n"
        "except Exception as problem:\n    print(f'{type(problem).__name__}: {problem.what}')\n"
        "else:\n    print(columns.SAMPLE_ROWS, columns.COMPILE_FROM_ROWS)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={VARIABLE: text, "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == said
