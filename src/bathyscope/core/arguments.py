"""Numbers, names and choices that a user hands in, checked in one sentence."""

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import ParamSpec, TypeVar

from bathyscope.core.errors import BadCall, UsageError, shorten

P = ParamSpec("P")
R = TypeVar("R")

_LONGEST_NAME = 255  # bytes of a file's name: the limit of the usual file systems
_MOST = 2**63 - 1  # what torch counts with

_ARGUMENTS = {
    "lr": "optimizer=torch.optim.SGD(model.parameters(), lr=…)",
    "learning_rate": "optimizer=torch.optim.SGD(model.parameters(), lr=…)",
    "criterion": "loss=criterion",
    "loss_fn": "loss=loss_fn",
    "epochs": "budget=, the optimizer's steps that you mean to train for",
    "device": "model.to(device), and a batch that is there too",
    "batch_size": "a batch or a loader of that size",
}
"""What people call an argument, and how it is given here."""


def check_count(name: str, value: object, *, minimum: int = 0, most: int = _MOST) -> int:
    """A whole number of at least this many, and of at most that many.

    Raises:
        UsageError: it is none, too small, or too large.

    Examples:
        >>> check_count("k", 3, minimum=1)
        3
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise UsageError(
            f"{name} is a whole number of at least {minimum}, but {shorten(value)} was given."
        )
    if int(value) > most:
        raise UsageError(f"{name} is at most {most}, but {shorten(value)} was given.")
    return int(value)


def check_flag(name: str, value: object) -> bool:
    """True or False.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        raise UsageError(f"{name} is True or False, but {shorten(value)} was given.")
    return bool(value)


def check_path(name: str, value: object) -> Path:
    """A path, as text or as a `Path`.

    Raises:
        UsageError: it is something else, empty, or longer than a file system takes.
    """
    if not isinstance(value, (str, Path)) or not str(value) or "\0" in str(value):
        raise UsageError(f"{name} is a path, but {shorten(value)} was given.")
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in Path(value).parts):
        raise UsageError(f"{name} has a name of more than 255 bytes in it: {shorten(value)}.")
    return Path(value)


def check_kind(name: str, value: object, kind: type[object] | tuple[type[object], ...]) -> None:
    """Raise where something is of another kind.

    Raises:
        UsageError: it is; what is wanted and what was given are named.

    Examples:
        >>> check_kind("config", {}, dict)
    """
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(k.__name__ for k in kinds)
        raise UsageError(f"{name} is a {wanted}, but {shorten(value)} was given.")


def check_function(name: str, value: object) -> None:
    """Raise where something cannot be called.

    Raises:
        UsageError: it cannot.
    """
    if not callable(value):
        raise UsageError(f"{name} is a function, but {shorten(value)} was given.")


def check_number(
    name: str, value: object, *, low: float, high: float = math.inf, open_low: bool = False
) -> float:
    """A finite number in [low, high], or in (low, high].

    Raises:
        UsageError: it is none, or lies outside.

    Examples:
        >>> check_number("percentile", 0.1, low=0.0, high=1.0)
        0.1
    """
    try:
        number = math.nan
        if isinstance(value, Real) and not isinstance(value, bool):
            number = float(value)
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    if not math.isfinite(number) or not low <= number <= high or (open_low and number == low):
        minimum = f"above {low:g}" if open_low else f"of at least {low:g}"
        most = "" if math.isinf(high) else f" and at most {high:g}"
        raise UsageError(f"{name} is a number {minimum}{most}, but {shorten(value)} was given.")
    return number


def check_names(name: str, value: object, *, minimum: int = 0) -> tuple[str, ...]:
    """One name or several, as a tuple.

    Raises:
        UsageError: something else is among them, or they are too few.

    Examples:
        >>> check_names("silence", "dead-units")
        ('dead-units',)
    """
    given: list[object]
    if isinstance(value, str) or not isinstance(value, Iterable) or hasattr(value, "dtype"):
        given = [value]
    else:
        given = list(value)
    wrong = [type(item).__name__ for item in given if not isinstance(item, str)]
    if wrong:
        raise UsageError(f"{name} takes names, but a {wrong[0]} was given.")
    if "" in given:
        raise UsageError(f"{name} holds an empty name; leave it out, or give the name.")
    if len(given) < minimum:
        raise UsageError(f"{name} is empty; give at least {minimum} name{'s' * (minimum > 1)}.")
    return tuple(str(item) for item in given)


def matches_glob(name: str, pattern: str) -> bool:
    """Whether a dotted name fits a glob whose `*` and `?` stop at dots; `**` does not.

    Examples:
        >>> [matches_glob(name, "layers.*") for name in ("layers.0", "layers.0.conv", "layers")]
        [True, False, False]
        >>> matches_glob("encoder.layers.0.conv", "**.conv")
        True
    """
    parts = re.split(r"(\*\*|\*|\?|\[[^\]]+\])", pattern)
    known = {"**": ".*", "*": "[^.]*", "?": "[^.]"}
    regex = "".join(
        known.get(part) or (part.replace("[!", "[^") if part[:1] == "[" else re.escape(part))
        for part in parts
    )
    return re.fullmatch(regex, name) is not None


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise where a word is none of the choices.

    Raises:
        UsageError: the choices are named.
    """
    if not isinstance(value, str) or value not in choices:
        raise UsageError(f"{name} is one of {', '.join(choices)}, but {shorten(value)} was given.")


def check_name(name: str, value: object) -> str:
    """One name.

    Raises:
        UsageError: it is something else, or empty.
    """
    if not isinstance(value, str):
        raise UsageError(f"{name} is a name, but {shorten(value)} was given.")
    if not value:
        raise UsageError(f"{name} is empty; give one.")
    return value


def check_seed(value: object) -> int:
    """A seed: a whole number from 0 to 2⁶³ − 1, which every generator takes.

    Raises:
        UsageError: it is none, or too large.
    """
    return check_count("seed", value)


def hinted(usage: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose calls with arguments that do not fit end in one sentence with the usage.

    Args:
        usage: a call that fits, for what is missing or too many.

    Examples:
        >>> @hinted("area(w, h)")
        ... def area(w, h):
        ...     return w * h
        >>> area(3, 4)
        12
        >>> area(3)
        Traceback (most recent call last):
        bathyscope.core.errors.BadCall: area: missing a required argument: 'h'; write area(w, h).
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def checked(*args: P.args, **options: P.kwargs) -> R:
            try:
                signature.bind(*args, **options)
            except TypeError as error:
                known = next((_ARGUMENTS[name] for name in options if name in _ARGUMENTS), usage)
                raise BadCall(f"{function.__name__}: {error}; write {known}.") from None
            return function(*args, **options)

        return checked

    return decorate
