"""How the worker processes of a pool died, in words."""

import signal
from collections.abc import Iterable

_CRASHES = {"SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"}


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
