"""A sign of life on a terminal while something takes longer than a moment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def waiting(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with a text that can be changed; nothing where output is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(text) as status:
        yield lambda more: status.update(f"{text}: {more}")
