"""Prompting: a line with history, completion and several rows, where prompt-toolkit is installed.

Enter sends; Alt-Enter begins a new row; the arrows and Ctrl-R go through what was said
before, in this and earlier conversations.
"""

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completion
    from prompt_toolkit.document import Document

Choices = Callable[[], Iterable[tuple[str, str]]]
"""Words that may be completed, each with its meaning."""


_LOCAL_FLAGS = 3  # where termios keeps them in its list


def can_prompt() -> bool:
    return find_spec("prompt_toolkit") is not None


class Prompt:
    """A prompt at the terminal. Imports prompt-toolkit when it is made: 0.1 s that only a conversation at a
    terminal pays."""

    def __init__(self, history: Path | None, choices: Choices, **streams: Any) -> None:
        from prompt_toolkit import PromptSession  # noqa: PLC0415
        from prompt_toolkit.filters import Condition  # noqa: PLC0415
        from prompt_toolkit.history import FileHistory, InMemoryHistory  # noqa: PLC0415

        self._session: PromptSession[str] = PromptSession(
            history=FileHistory(str(history)) if history else InMemoryHistory(),
            completer=_completer(choices),
            complete_while_typing=True,
            multiline=True,
            key_bindings=_bindings(),
            prompt_continuation=lambda width, _row, _wraps: "· ".rjust(width),
            # Up and down look among what begins alike; prompt-toolkit then offers no completions by itself.
            enable_history_search=Condition(
                lambda: not self._session.app.current_buffer.text.startswith("/")
            ),
            **streams,
        )

    async def next(self, prompt: str = "› ") -> str | None:
        """The next line; None at the end. Ctrl-C gives up the line, not the conversation."""
        while True:
            try:
                return await self._session.prompt_async(prompt)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None

    @contextmanager
    def hush(self) -> Generator[None]:
        """Hides typed keys outside the prompt: their echo would stand in the middle of a reply. What is typed
        meanwhile waits, and the next prompt shows it. For the whole conversation, since keys can come in the
        moment between a reply and the next prompt."""
        import termios  # noqa: PLC0415

        keyboard = sys.stdin.fileno()
        before = termios.tcgetattr(keyboard)
        hushed = [*before]
        hushed[_LOCAL_FLAGS] &= ~termios.ECHO
        termios.tcsetattr(keyboard, termios.TCSANOW, hushed)
        try:
            yield
        finally:
            termios.tcsetattr(keyboard, termios.TCSANOW, before)


def _bindings() -> Any:
    from prompt_toolkit.key_binding import KeyBindings  # noqa: PLC0415

    keys = KeyBindings()

    # An Enter that was typed while a reply was written, before the prompt was there, comes as Ctrl-J.
    @keys.add("enter")
    @keys.add("c-j")
    def _send(event: Any) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _new_row(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def _completer(choices: Choices) -> Any:
    from prompt_toolkit.completion import Completer, Completion  # noqa: PLC0415

    class Words(Completer):
        def get_completions(self, document: "Document", _event: Any) -> "Iterable[Completion]":
            typed = document.text_before_cursor
            if not typed.startswith("/") or "\n" in typed:
                return
            for text, meaning in choices():
                if text.startswith(typed) and text != typed:
                    yield Completion(text, -len(typed), display_meta=meaning)

    return Words()
