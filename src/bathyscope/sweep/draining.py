"""Tasks handed to an executor until nothing is left or it breaks, and how its workers died, in words."""

import signal
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import NamedTuple, TypeVar

from bathyscope.sweep.backends import Backend, exit_codes

Result = TypeVar("Result")

_CRASHES = {"SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"}


class Break(NamedTuple):
    """What an executor was at when it broke, the places of the tasks, and how its workers died."""

    flying: list[int]
    death: str


def drain(
    rest: deque[int],
    *,
    backend: Backend,
    window: int | None,
    submit: Callable[[Executor, int], Future[Result]],
    settle: Callable[[Future[Result], int], None],
) -> Break:
    """Submit tasks, by their places, until nothing is left or the executor breaks.

    Args:
        rest: what is left, from which each is taken when it is handed over.
        backend: which opens the executor.
        window: how many are handed over at a time; all for None.
        submit: hands one over.
        settle: takes in one that has ended; what it raises ends all.
    """
    flying: dict[Future[Result], int] = {}
    with backend.open() as executor:
        try:
            while rest or flying:
                while rest and (window is None or len(flying) < window):
                    flying[submit(executor, rest[0])] = rest[0]
                    rest.popleft()
                ended, _ = wait(flying, return_when=FIRST_COMPLETED)
                for future in ended:
                    settle(future, flying[future])
                    del flying[future]
        except BrokenExecutor:
            if not backend.can_break:
                raise
        except BaseException:  # Ctrl-C too: what has not begun must not begin
            executor.shutdown(wait=True, cancel_futures=True)
            raise
        else:
            return Break([], "")
    return Break(list(flying.values()), describe_death(exit_codes(executor)))


def describe_death(exit_codes: Iterable[int | None]) -> str:
    """What ended a worker, from the exit codes of its pool (negative for a signal, as in Python).

    A pool that breaks ends its other workers by SIGTERM, so that signal is the last to be named.

    Examples:
        >>> describe_death([-15, -6])
        'The worker process crashed: signal 6 (SIGABRT), an error in compiled code'
        >>> describe_death([-9])
        'The worker process was killed: signal 9 (SIGKILL), often for want of memory'
        >>> describe_death([3])
        'The worker process ended with status 3'
        >>> describe_death([])
        'The worker process died for a reason that the system does not report'
    """
    codes = [code for code in exit_codes if code]
    codes.sort(key=lambda code: code == -signal.SIGTERM)
    if not codes:
        return "The worker process died for a reason that the system does not report"
    if codes[0] > 0:
        return f"The worker process ended with status {codes[0]}"
    number = -codes[0]
    try:
        name = signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"The worker process was killed: signal {number}"
    if name in _CRASHES:
        return f"The worker process crashed: signal {number} ({name}), an error in compiled code"
    why = ", often for want of memory" if name == "SIGKILL" else ""
    return f"The worker process was killed: signal {number} ({name}){why}"
