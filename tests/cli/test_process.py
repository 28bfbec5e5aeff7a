"""The real command: exit codes, streams, signals, and what it loads."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import anabranch

pytestmark = pytest.mark.commands

COMMAND = [sys.executable, "-m", "anabranch.cli.app"]
LEGAL = '{"insert": {"itemID": 1, "price": 80.0}, "start": 5, "end": 9}\n{"stable": 12}\n'
BROKEN = LEGAL + '{"insert": {"itemID": 2, "price": 1.0}, "start": 5, "end": 9}\n'


def run(*words: str, given: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], input=given, capture_output=True, text=True, cwd=cwd, check=False
    )


def test_a_legal_stream_is_exit_code_0(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(LEGAL)
    done = run("check", "s.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "s.jsonl: legal; 1 inserts, 0 adjusts, 1 stables; stable point 12; "
        "0 events may still change\n"
    )


def test_a_broken_promise_is_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(BROKEN)
    done = run("check", "s.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == (
        's.jsonl, line 3: insert {"itemID": 2, "price": 1.0} [5, 9)\n'
        "  stable 12 (line 2) promised that no later insert starts before 12\n"
    )
    assert done.stderr == "s.jsonl: not legal, see line 3\n"


def test_unusable_input_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(LEGAL + '{"insert": {"itemID": 1}, "strat": 5}\n')
    done = run("check", "s.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "StreamError: unknown key 'strat'\n"
        '  s.jsonl, line 3: {"insert": {"itemID": 1}, "strat": 5}\n'
        '  hint: did you mean \'start\'? an element is {"insert": {...}, "start": 5, "end": 9}, '
        'or "adjust" with "new_end", or {"stable": 12}\n'
    )
    missing = run("check", "nothing.jsonl", cwd=tmp_path)
    assert missing.returncode == 2
    assert missing.stderr == (
        "StreamError: no such file\n"
        "  nothing.jsonl\n"
        "  hint: check the path and the working folder\n"
    )


def test_debug_shows_where_an_error_comes_from(tmp_path: Path) -> None:
    done = run("--debug", "check", "no.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "Traceback" not in run("check", "no.jsonl", cwd=tmp_path).stderr


@pytest.mark.parametrize("words", [["chekc"], ["check"], ["show", "a", "--at"], ["check", "--no"]])
def test_a_wrong_use_is_exit_code_2(words: list[str]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_standard_input_is_a_file_like_any_other() -> None:
    done = run("check", "-", given=BROKEN)
    assert done.returncode == 1
    assert done.stdout.startswith("standard input, line 3: ")
    broken = run("show", "-", given="nonsense\n")
    assert broken.returncode == 2
    assert "standard input, line 1, column 1: nonsense" in broken.stderr
    assert run("diff", "-", "-").returncode == 2


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    lines = "".join(f'{{"insert": {{"a": {i}}}, "start": {i}}}\n' for i in range(50_000))
    (tmp_path / "s.jsonl").write_text(lines)
    shell = f"{' '.join(COMMAND)} show s.jsonl --json | head -1"
    done = subprocess.run(
        ["bash", "-c", f"{shell}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout == '{"insert": {"a": 0}, "start": 0}\n'
    assert done.stderr == ""
    assert done.returncode == 141


def test_pipes_are_read_like_files(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(LEGAL)
    command = f"{' '.join(COMMAND)} diff <(cat s.jsonl) s.jsonl"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, check=False, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")


def test_an_interrupt_is_exit_code_130() -> None:
    process = subprocess.Popen(
        [*COMMAND, "check", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Whoever runs us in the background may have taken this away.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    assert process.stderr is not None
    # More than a pipe holds: when it is written, the command is at work.
    process.stdin.write(LEGAL.encode() * 10_000)
    process.stdin.flush()
    # Python drops an interrupt that comes while it runs a finalizer; a person presses it again.
    for _ in range(30):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=2)
            break
    assert process.wait(timeout=0) == 130
    assert process.stderr.read() == b"interrupted\n"
    process.stdin.close()
    process.stderr.close()


def test_the_version_is_shown() -> None:
    version, java = run("--version").stdout.splitlines()
    assert version == f"anabranch {anabranch.__version__}"
    assert re.match(r"Java \d+ ", java)


def test_help_lists_all_commands() -> None:
    text = run("--help").stdout
    for name in ("demo", "check", "show", "diff", "generate", "bench"):
        assert f"\n  {name} " in text


def test_commands_without_spark_load_neither_spark_nor_other_heavy_things(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(LEGAL)
    code = (
        "import sys\n"
        "from anabranch.cli.app import main\n"
        "for words in (['check', PATH], ['show', PATH], ['diff', PATH, PATH]):\n"
        "    sys.argv = ['anabranch', *words]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as done:\n"
        "        assert not done.code, done.code\n"
        "for name in ('pyspark', 'py4j', 'pandas', 'duckdb', 'sqlglot', 'deltalake'):\n"
        "    assert name not in sys.modules, name\n"
    ).replace("PATH", repr(str(path)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_does_not_even_load_arrow() -> None:
    code = (
        "import sys, anabranch.cli.app\n"
        "assert 'pyarrow' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
