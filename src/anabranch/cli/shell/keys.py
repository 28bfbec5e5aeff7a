"""What keys do in the shell."""

from __future__ import annotations

from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from anabranch.cli.shell.text import is_complete


def key_bindings() -> KeyBindings:
    """Enter sends a statement that has its semicolon, and else begins a line."""
    keys = KeyBindings()

    @keys.add("enter", filter=completion_is_selected)
    def _choose(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("enter", filter=~completion_is_selected)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys
