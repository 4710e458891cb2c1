"""What a call came to: an answer, a refusal in one sentence, the model's own failure, or a defect."""

import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from bathyscope.core.errors import BathyscopeError


@dataclass(frozen=True)
class Outcome:
    """`kind` is answered, refused, own (the user's code failed by itself) or defect."""

    kind: str
    what: str = ""


def judge(call: Callable[[], object], *, own: Callable[[], object] | None = None) -> Outcome:
    """Make the call and judge what came of it.

    Args:
        call: of the library.
        own: the user's own code without the library; where it raises as well, the failure is its own.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except BathyscopeError as error:
            return _judge_sentence(str(error))
        except Exception as error:
            if own is not None and _raises(own):
                return Outcome("own")
            location = traceback.extract_tb(error.__traceback__)[-1]
            text = str(error).strip().splitlines()
            return Outcome(
                "defect",
                f"{type(error).__name__}: {text[0] if text else ''} "
                f"({location.name}, line {location.lineno})",
            )
    return Outcome("answered")


def _judge_sentence(text: str) -> Outcome:
    if not text.strip() or "\n" in text.strip() or len(text) > 900:
        return Outcome("defect", f"not one sentence: {text[:200]!r}")
    return Outcome("refused", text)


def _raises(call: Callable[[], object]) -> bool:
    try:
        call()
    except Exception:
        return True
    return False
