"""A function over many items, wherever a sweep can run, with its results in order."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import TypeVar

from bathyscope.core.errors import BathyscopeError
from bathyscope.sweep.backends import Backend, interruptibly
from bathyscope.sweep.draining import drain

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
    results: dict[int, Result] = {}

    def submit(executor: Executor, index: int) -> Future[Result]:
        return executor.submit(interruptibly, work, items[index])

    def settle(future: Future[Result], index: int) -> None:
        results[index] = future.result()
        on_result(items[index], results[index])

    drained = partial(drain, backend=backend, submit=submit, settle=settle)
    rest = deque(range(len(items)))
    while rest:
        for suspect in drained(rest, window=backend.window).flying:
            if (alone := drained(deque([suspect]), window=1)).flying:
                raise BathyscopeError(
                    f"{alone.death} at {items[suspect]}, twice; run it here, or on another machine."
                )
    return [results[index] for index in range(len(items))]
