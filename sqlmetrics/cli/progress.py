"""What is drawn on a terminal while something takes long; rich is read only where it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    TextColumn("{task.fields[told]}"),
    TimeElapsedColumn(),
    TextColumn("{task.fields[left]}"),
)


class Bar(Progress):
    """A bar, and below it the last line of the package's log."""

    line = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, and the line while the bar is seen."""
        yield from super().get_renderables()
        if self.line and any(task.visible for task in self.tasks):
            yield Text(self.line, no_wrap=True, overflow="ellipsis")


class _Lines(logging.Handler):
    """Shows what is logged below a bar."""

    def __init__(self, bar: Bar) -> None:
        super().__init__(logging.INFO)
        self.bar = bar

    def emit(self, record: logging.LogRecord) -> None:
        self.bar.line = record.getMessage()


@contextmanager
def draw_progress(label: str, wait: float) -> Iterator[Callable[[int, int, int], None]]:
    """A bar on stderr, and what draws it on.

    Args:
        label: What is done, or what of it is counted.
        wait: It is seen after so many seconds.
    """
    console = Console(stderr=True)
    with Bar(*COLUMNS, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(label, total=None, visible=False, told="", left="")
        timer = Timer(wait, bar.update, [task], {"visible": True})
        timer.daemon = True
        timer.start()

        def write_progress(n_done: int, total: int, n_rows: int) -> None:
            rows = f", {n_rows:,} rows" if n_rows else ""
            bar.line = ""
            bar.update(task, completed=n_done, total=total, told=f"{n_done:,} of {total:,}{rows}")
            remaining = bar.tasks[0].time_remaining
            bar.update(task, left=f"{remaining:.0f} s left" if remaining else "")

        try:
            with _logged(_Lines(bar)):
                yield write_progress
        finally:
            timer.cancel()


@contextmanager
def _logged(handler: logging.Handler) -> Iterator[None]:
    """With what the package logs from INFO on told to a handler, and to no other one."""
    log = logging.getLogger("sqlmetrics")
    level, handlers = log.level, log.handlers
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.handlers = handlers
