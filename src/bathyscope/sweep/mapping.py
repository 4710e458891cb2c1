"""A function over many items, wherever a sweep can run, with its results in order."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Generic, TypeVar

from bathyscope.core.errors import BathyscopeError
from bathyscope.sweep.backends import Backend, exit_codes, interruptibly
from bathyscope.sweep.deaths import describe_death

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_over(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    backend: Backend,
    on_result: Callable[[Item, Result], None] = lambda item, result: None,
) -> list[Result]:
    """The results of a picklable function for every item, in the order of the items.

    A worker that dies loses nothing: a cluster gives its items to another one; a pool is opened again
    and the items it was at are tried one by one, so that the one at fault is found.

    Args:
        work: called in a worker.
        items: what it is called with.
        backend: where to run.
        on_result: called at each result as it comes.

    Raises:
        BathyscopeError: an item ends the worker that has it alone.
        Exception: whatever the function raises.
    """
    mapping = _Mapping(work, items, backend, on_result)
    rest = deque(range(len(items)))
    while rest:
        for suspect in mapping.drain(rest, window=backend.window):
            if mapping.drain(deque([suspect]), window=1):
                raise BathyscopeError(
                    f"{mapping.death} at {items[suspect]}, twice; run it here, or on another machine."
                )
    return [mapping.results[index] for index in range(len(items))]


class _Mapping(Generic[Item, Result]):
    def __init__(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        backend: Backend,
        on_result: Callable[[Item, Result], None],
    ) -> None:
        self.work, self.items = work, items
        self.backend, self.on_result = backend, on_result
        self.results: dict[int, Result] = {}
        self.death = ""

    def drain(self, rest: deque[int], *, window: int | None) -> list[int]:
        """Hand over until nothing is left or the executor breaks; return what it was at then."""
        flying: dict[Future[Result], int] = {}
        broken = False
        with self.backend.open() as executor:
            try:
                while rest or flying:
                    self._submit(executor, rest, flying, window)
                    ended, _ = wait(flying, return_when=FIRST_COMPLETED)
                    for future in ended:
                        result = future.result()
                        index = flying.pop(future)
                        self.results[index] = result
                        self.on_result(self.items[index], result)
            except BrokenExecutor:
                if not self.backend.can_break:
                    raise
                broken = True
            except BaseException:  # Ctrl-C too: what has not begun must not begin
                executor.shutdown(wait=True, cancel_futures=True)
                raise
        if broken:
            self.death = describe_death(exit_codes(executor))
            return list(flying.values())
        return []

    def _submit(
        self,
        executor: Executor,
        rest: deque[int],
        flying: dict[Future[Result], int],
        window: int | None,
    ) -> None:
        while rest and (window is None or len(flying) < window):
            flying[executor.submit(interruptibly, self.work, self.items[rest[0]])] = rest[0]
            rest.popleft()
