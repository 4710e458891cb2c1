"""A sign of life on a terminal while something takes longer than a moment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with what is going on and for how long; nothing where output is not a terminal.

    Yields:
        A function that is called with what is done and what is left, shown behind the text.
    """
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    from bathyscope.cli.screen import below
    from bathyscope.core.progress import on_progress
    from bathyscope.core.terminal import guarded, printable

    console = guarded(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    phrase = TextColumn(
        "{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)
    )
    with Progress(
        SpinnerColumn(), TimeElapsedColumn(), phrase, console=console, transient=True, expand=True
    ) as shown:
        task = shown.add_task(printable(text), total=None)

        def notify(more: str) -> None:
            shown.update(task, description=printable(f"{text}: {more}"))

        with on_progress(notify), below(shown.stop, shown.start):
            yield notify
