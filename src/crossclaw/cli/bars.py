"""Progress bars for long work. They stand on stderr, disappear when it is done, and never reach a pipe."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from crossclaw.cli.say import console, draws_on
from crossclaw.domain.aliases import Counted, Tell


@contextmanager
def at_work(words: str) -> Generator[Tell]:
    """A bar for work whose end is unknown: that it goes on, since when, and the last message."""
    if not draws_on(sys.stderr):
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=None)
        yield lambda now: bar.update(task, description=now)


@contextmanager
def counted(words: str, total: int | None = None) -> Generator[Counted]:
    """A bar for work that is counted: it is called with how much is done, and of how much."""
    if not draws_on(sys.stderr):
        yield lambda _done, _of: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)
