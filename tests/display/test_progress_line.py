"""Progress is a line on a terminal, and nothing elsewhere."""

import io

from anabranch.display.progress_line import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_line_that_is_gone_in_the_end() -> None:
    terminal = Terminal()
    with ProgressLine(patience=0, stream=terminal) as line:
        line("3 batches")
        line("too soon after the last one")
    assert terminal.getvalue() == "\r\x1b[K3 batches, 0 s\r\x1b[K"


def test_what_is_quick_and_what_is_no_terminal_gets_none() -> None:
    for stream, patience in ((Terminal(), 60.0), (io.StringIO(), 0.0)):
        with ProgressLine(patience=patience, stream=stream) as line:
            line("3 batches")
        assert stream.getvalue() == ""
