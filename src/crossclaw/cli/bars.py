"""Bars: long work is seen on a terminal. They stand on stderr, go when it is done, and never reach a pipe."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from crossclaw.cli.say import console
from crossclaw.domain.aliases import Counted

Told = Callable[[str], None]


@contextmanager
def at_work(words: str) -> Generator[Told]:
    """A bar for work whose end nobody knows: that it goes on, since when, and what was told last."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    screen = console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    hidden = not screen.is_terminal
    with Progress(*columns, console=screen, transient=True, disable=hidden) as bar:
        task = bar.add_task(words, total=None)
        yield lambda now: bar.update(task, description=now)


@contextmanager
def counted(words: str, total: int | None = None) -> Generator[Counted]:
    """A bar for work that is counted: it is told how much is done, and of how much."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    screen = console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    hidden = not screen.is_terminal
    with Progress(*columns, console=screen, transient=True, disable=hidden) as bar:
        task = bar.add_task(words, total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)
