"""Bars: long work is seen on a terminal. They stand on stderr, go when it is done, and never reach a pipe."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

Told = Callable[[str], None]


@contextmanager
def at_work(words: str) -> Generator[Told]:
    """A bar for work whose end nobody knows: that it goes on, since when, and what was told last."""
    from rich.console import Console  # noqa: PLC0415  other commands need no bar
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(words, total=None)
        yield lambda now: bar.update(task, description=now)
