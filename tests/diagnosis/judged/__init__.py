"""Silent bugs in model, batch, loss or optimizer, written to score the rules: none was tuned on them before.

`PROGRAMS` maps a name to a function of `fault` that gives (model, batch, loss, optimizer), and to the codes
that name the cause. The corrected twin of a program is the same function with `fault=False`.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from tests.diagnosis.judged import later, losses, sequences, third, vision

Program = tuple[nn.Module, Any, Callable[..., Any], Any]

PROGRAMS: dict[str, tuple[Callable[[bool], Program], tuple[str, ...]]] = {
    **sequences.PROGRAMS,
    **vision.PROGRAMS,
    **losses.PROGRAMS,
    **later.PROGRAMS,
    **third.PROGRAMS,
}
