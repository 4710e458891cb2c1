"""A line that counts products while something long runs on a terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Shorter work shows nothing.
_PATIENCE_SECONDS = 2.0


@contextmanager
def count_products(title: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many products were made; nothing is shown off a terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:.0f} products, {task.fields[rate]:.1f} a second"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = progress.add_task(title, total=None, rate=0.0)
    began = time.monotonic()
    done = 0
    started = False

    def count(num: int) -> None:
        nonlocal done, started
        done += num
        elapsed = time.monotonic() - began
        if elapsed > _PATIENCE_SECONDS and not started:
            progress.start()
            started = True
        progress.update(task, completed=done, rate=done / max(elapsed, 1e-9))

    try:
        yield count
    finally:
        progress.stop()
