"""The code blocks of README.md and docs/ run and print what the page says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pytest

pytestmark = pytest.mark.commands

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()
]

FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})\s*(?P<language>[\w+-]*).*$")
COMMENT = re.compile(r"^\s*<!--\s*(?P<note>.*?)\s*-->\s*$")
PROMPT = "$ "
PATIENCE = 600.0
GRACE = 60.0
"""Seconds that a block may take, and that what it has started may take to end."""

MARK = "__anabranch_docs__"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page; `notes` are the HTML comments right before it."""

    language: str
    text: str
    line: int
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> str | None:
        """The file that the block's text is written to, if the page says so."""
        names = [note[5:].strip() for note in self.notes if note.startswith("file:")]
        return names[0] if names else None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a console block and the output that the page shows."""

    code: str
    output: str


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    blocks: list[Block] = []
    notes: list[str] = []
    lines = page.splitlines()
    number = 0
    while number < len(lines):
        fence, comment = FENCE.match(lines[number]), COMMENT.match(lines[number])
        number += 1
        if fence:
            first = number
            closing = re.compile(rf"\s*{fence['ticks'][0]}{{{len(fence['ticks'])},}}\s*")
            while number < len(lines) and not closing.fullmatch(lines[number]):
                number += 1
            if number == len(lines):
                raise ValueError(f"the block that starts at line {first} is never closed")
            inside = [line.removeprefix(fence["indent"]) for line in lines[first:number]]
            text = "".join(f"{line}\n" for line in inside)
            blocks.append(
                Block(language=fence["language"], text=text, line=first + 1, notes=tuple(notes))
            )
            notes, number = [], number + 1
        elif comment:
            notes.append(comment["note"])
        elif lines[number - 1].strip():
            notes = []
    return blocks


def commands_of(block: Block) -> list[Command]:
    """The commands of a console block; a backslash at the end continues a command."""
    commands: list[Command] = []
    lines = iter(block.text.splitlines())
    for line in lines:
        if line.startswith(PROMPT):
            code = line.removeprefix(PROMPT)
            while code.endswith("\\"):
                code += "\n" + next(lines, "").removeprefix("> ")
            commands.append(Command(code=code, output=""))
        elif commands:
            last = commands.pop()
            commands.append(Command(code=last.code, output=f"{last.output}{line}\n"))
        else:
            raise ValueError(f"line {block.line}: a console block starts with '{PROMPT}command'")
    return commands


def matches(expected: str, actual: str) -> bool:
    """Whether the output is as expected; a line `...` stands for any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()) + r"\n"
        for line in expected.rstrip().splitlines()
    )
    shown = "".join(f"{line.rstrip()}\n" for line in actual.rstrip().splitlines())
    return re.fullmatch(pattern, shown) is not None


def needs_spark(page: str) -> bool:
    """Whether a comment `spark` anywhere on the page says so."""
    notes = filter(None, map(COMMENT.match, page.splitlines()))
    return any(note["note"] == "spark" for note in notes)


# Spark's daemon of Python workers may say this when Spark stops before its workers have; it may
# be ended while it does.
DAEMON = re.compile(
    r'Traceback \(most recent call last\):\n?(?:  File "[^"]*pyspark[^"]*daemon\.py".*\n)*'
    r"(?:BrokenPipeError: .*\n?|\Z)"
)


def check_output(page: str, line: int, expected: str, actual: str) -> None:
    actual = DAEMON.sub("", actual)
    if not matches(expected, actual):
        wanted, got = textwrap.indent(expected, "    "), textwrap.indent(actual, "    ")
        pytest.fail(f"{page}, line {line}: the page shows\n{wanted}\n  but it is\n{got}")


def run_python(page: str, block: Block, names: dict[str, Any]) -> str:
    # Empty lines in front make tracebacks name the line of the page.
    code = compile("\n" * (block.line - 1) + block.text, page, "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def run_console(page: str, block: Block, folder: Path, groups: list[int]) -> None:
    """Run the block in one shell, so that `cd`, variables and `$?` work across its commands.

    Commands that end with `&` go on: they belong to a process group, which is added to `groups`.
    """
    commands = commands_of(block)
    script = "".join(
        f"{command.code}\n_s=$?; printf '\\n{MARK} %d\\n' $_s; (exit $_s)\n" for command in commands
    )
    tools = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join(tools), "COLUMNS": "100", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    groups.append(process.pid)
    said, _ = process.communicate(timeout=PATIENCE)
    results = re.findall(rf"(.*?)\n{MARK} (\d+)\n", said, re.DOTALL)
    assert len(results) == len(commands), f"{page}, line {block.line}: {said}"
    for command, (output, status) in zip(commands, results, strict=True):
        check_output(page, block.line, command.output, output)
        # A command that shall fail shows why; one that shows nothing must succeed.
        silent = not command.output.replace("...", "").strip()
        assert status == "0" or not silent, f"{page}: '{command.code}' failed\n{output}"


def run_page(page: str, blocks: list[Block], folder: Path) -> None:
    """Run all blocks of a page in order, in one folder and one namespace; then nothing runs."""
    groups: list[int] = []
    try:
        run_blocks(page, blocks, folder, groups)
    finally:
        for signal_ in (signal.SIGTERM, signal.SIGKILL):
            running = [group for group in groups if _is_there(group)]
            for group in running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal_)
            deadline = time.monotonic() + GRACE
            while any(map(_is_there, running)) and time.monotonic() < deadline:
                time.sleep(0.05)


def _is_there(group: int) -> bool:
    """Whether a process of a group runs."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def run_blocks(page: str, blocks: list[Block], folder: Path, groups: list[int]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for before, block in zip([None, *blocks], blocks):
        if block.file:
            path = folder / block.file
            assert path.resolve().is_relative_to(folder.resolve()), f"{page}: {block.file}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            printed = run_python(page, block, names)
        elif block.language == "console":
            run_console(page, block, folder, groups)
        elif block.language == "output":
            if before is None or before.language != "python":
                pytest.fail(f"{page}, line {block.line}: no python block right before the output")
            check_output(page, block.line, block.text, printed)


def _pages() -> list[Any]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        marks = [pytest.mark.spark] if needs_spark(text) else []
        name = str(page.relative_to(ROOT))
        found.append(pytest.param(name, blocks_of(text), marks=marks, id=name))
    return found


@pytest.mark.parametrize(("page", "blocks"), _pages())
def test_the_code_of_a_page_does_what_the_page_says(
    page: str, blocks: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, blocks, tmp_path)


PAGE = """
# A page

<!-- file: in/bids.jsonl -->
```json
{"stable": 12}
```

<!-- spark -->
<!-- about nothing -->
Words in between end the notes.

1. In a list:

   ```python
   if True:
       with open("in/bids.jsonl") as file:
           print(file.read(), end="")
   ```
   ```output
   {"stable": 12}
   ```

~~~~text
```python
not run
```
~~~~

```console
$ x=5; cat in/*.jsonl
{"stable": 12}
$ echo one; echo $x two \\
>   three >&2; false
one
...
$ echo $?
1
```
"""


def test_blocks_are_found_with_language_line_and_notes() -> None:
    found = [(block.language, block.line, block.file) for block in blocks_of(PAGE)]
    assert found == [
        ("json", 6, "in/bids.jsonl"),
        ("python", 16, None),
        ("output", 21, None),
        ("text", 25, None),
        ("console", 31, None),
    ]
    assert blocks_of(PAGE)[1].text.startswith("if True:\n    with")


def test_a_comment_on_a_line_of_its_own_asks_for_spark() -> None:
    assert needs_spark(PAGE)
    assert not needs_spark("write `<!-- spark -->` before a block")


def test_commands_are_cut_at_prompts_and_keep_their_output() -> None:
    commands = commands_of(blocks_of(PAGE)[-1])
    assert [command.output for command in commands] == ['{"stable": 12}\n', "one\n...\n", "1\n"]
    assert commands[1].code == "echo one; echo $x two \\\n  three >&2; false"


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("a\nb\n", "a  \nb\n\n", True),
        ("a\n...\nc\n", "a\nb\nb\nc\n", True),
        ("a\n...\nc\n", "a\nc\n", True),
        ("...\n", "", True),
        ("a...\n", "ab\n", False),
        ("a\n", "a\nb\n", False),
        ("", "a\n", False),
    ],
)
def test_three_dots_on_a_line_match_any_lines(expected: str, actual: str, same: bool) -> None:
    assert matches(expected, actual) is same


def test_a_page_runs_in_one_folder_and_one_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("page.md", blocks_of(PAGE), tmp_path)


def test_what_a_page_starts_does_not_outlive_it(tmp_path: Path) -> None:
    page = (
        "```console\n$ sleep 500 > /dev/null 2>&1 &\n$ echo $! > pid\n$ kill -0 $(cat pid)\n```\n"
    )
    run_page("page.md", blocks_of(page), tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize(
    "page",
    [
        "```python\nprint(1)\n```\n```output\n2\n```\n",
        "```console\n$ echo 1\n2\n```\n",
        "```console\n$ false\n```\n",
        "```text\n```\n```output\n```\n",
    ],
)
def test_a_page_that_does_not_tell_the_truth_fails(page: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception), match=r"page\.md"):
        run_page("page.md", blocks_of(page), tmp_path)


@pytest.mark.parametrize("page", ["```python\nx = 1\n", "```console\nno prompt\n```\n"])
def test_a_malformed_page_is_refused(page: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line"):
        run_page("page.md", blocks_of(page), tmp_path)
