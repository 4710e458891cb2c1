"""Numbers, names and choices that a user hands in, checked in one sentence."""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from bathyscope.core.errors import UsageError


def check_count(name: str, value: object, *, least: int = 0) -> int:
    """A whole number of at least so many.

    Raises:
        UsageError: it is none, or too small.

    Examples:
        >>> check_count("k", 3, least=1)
        3
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} is a whole number of at least {least}, but {value!r} was given.")
    return int(value)


def check_number(
    name: str, value: Any, *, low: float, high: float = math.inf, open_low: bool = False
) -> float:
    """A finite number in [low, high], or in (low, high].

    Raises:
        UsageError: it is none, or lies outside.

    Examples:
        >>> check_number("percentile", 0.1, low=0.0, high=1.0)
        0.1
    """
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number) or not low <= number <= high or (open_low and number == low):
        least = f"above {low:g}" if open_low else f"of at least {low:g}"
        most = "" if math.isinf(high) else f" and at most {high:g}"
        raise UsageError(f"{name} is a number {least}{most}, but {value!r} was given.")
    return number


def check_names(name: str, value: Any, *, least: int = 0) -> tuple[str, ...]:
    """One name or several, as a tuple.

    Raises:
        UsageError: something else is among them, or they are too few.

    Examples:
        >>> check_names("silence", "dead-units")
        ('dead-units',)
    """
    given = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    wrong = next((item for item in given if not isinstance(item, str)), None)
    if wrong is not None:
        raise UsageError(f"{name} takes names, but a {type(wrong).__name__} was given.")
    if "" in given:
        raise UsageError(f"{name} holds an empty name; leave it out, or give the name.")
    if len(given) < least:
        raise UsageError(f"{name} is empty; give at least {least} name{'s' * (least > 1)}.")
    return tuple(given)


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise where a word is none of the choices.

    Raises:
        UsageError: the choices are named.
    """
    if value not in choices:
        raise UsageError(f"{name} is one of {', '.join(choices)}, but {value!r} was given.")
