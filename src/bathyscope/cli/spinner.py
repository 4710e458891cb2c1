"""A sign of life on a terminal while something takes longer than a moment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with what is going on and for how long; nothing where output is no terminal.

    Yields:
        A function that is told what is done and what is left, shown behind the text.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    from bathyscope.core.progress import hear_progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    words = TextColumn(
        "{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)
    )
    with Progress(
        SpinnerColumn(), TimeElapsedColumn(), words, console=console, transient=True, expand=True
    ) as shown:
        task = shown.add_task(text, total=None)

        def tell(more: str) -> None:
            shown.update(task, description=f"{text}: {more}")

        with hear_progress(tell):
            yield tell
