"""The errors a user meets. Each message says what is wrong, what was given and what to do.

The command line turns them into one sentence and an exit code; nothing here loads torch.
"""

from collections.abc import Iterable
from difflib import get_close_matches

_NEAREST = 3
"""Names that are suggested; where no more are known, all are reported."""

_LISTED = 8
"""Names of a message that has none near the one given."""


class BathyscopeError(Exception):
    """Something could not be done (exit code 1)."""

    exit_code = 1


class UsageError(BathyscopeError, ValueError):
    """Bad usage or bad input (exit code 2)."""

    exit_code = 2


class Interrupted(BathyscopeError):
    """The user stopped it with Ctrl-C (exit code 130, as a shell expects)."""

    exit_code = 130


class BadCall(UsageError, TypeError):
    """A function was called with arguments that it does not take, or without one that it needs."""


class BatchMisfit(UsageError):
    """A model raised on a batch."""


class UnknownName(UsageError):
    """A name that is not among those known; the nearest are suggested, or else some are listed."""

    def __init__(self, what: str, given: str, known: Iterable[str], *, hint: str = "") -> None:
        self.given = given = given if isinstance(given, str) else shorten(given)
        names = [name for name in (sorted(known) if isinstance(known, set) else known) if name]
        self.nearest = nearest(given, names)
        if self.nearest and len(names) > _NEAREST:
            result = f" The nearest: {', '.join(self.nearest)}."
        else:
            more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            result = f" There are: {', '.join(names[:_LISTED])}{more}." if names else ""
        super().__init__(
            f"There is no {what} named {shorten(given)}.{result}{' ' + hint if hint else ''}"
        )


def nearest(given: str, known: Iterable[str], *, most: int = _NEAREST) -> list[str]:
    """The known names that look most like the given one, best first.

    Examples:
        >>> nearest("resnet56", ["resnet-56", "plain-56", "digits"])
        ['resnet-56']
    """
    by_lower = {name.lower(): name for name in known}
    matches = get_close_matches(given.lower(), by_lower, n=most, cutoff=0.5)
    return [by_lower[match] for match in matches]


def shorten(value: object, *, most: int = 80) -> str:
    """What was given, as it is shown in a message: on one line, and not too long.

    Examples:
        >>> shorten("a\\nb"), shorten([1] * 100, most=12)
        ("'a\\\\nb'", '[1, 1, 1, 1…')
    """
    shape = getattr(value, "shape", None)
    if shape is not None and not isinstance(value, type) and hasattr(value, "dtype"):
        sizes = tuple(shape)
        if sizes:
            return f"a {type(value).__name__} of shape {sizes}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a repr of the user's own may fail
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else text[: most - 1] + "…"


def in_a_line(error: BaseException) -> str:
    """The kind of an error and the first line of its text, without the full stop.

    Examples:
        >>> in_a_line(ValueError("no such size.\\nSee below.")), in_a_line(KeyError())
        ('ValueError: no such size', 'KeyError')
    """
    text, kind = str(error).strip(), type(error).__name__
    return f"{kind}: {text.splitlines()[0].rstrip('.')}" if text else kind
