"""What can be found, causes before their effects: the code, its cause, why it matters, what helps.

The order decides between findings of one severity: an unscaled input comes before the gradient that
vanished because of it.
"""

from bathyscope.core.errors import UnknownName
from bathyscope.diagnosis.codes.code import Code
from bathyscope.diagnosis.codes.outcome import OUTCOME
from bathyscope.diagnosis.codes.training import TRAINING
from bathyscope.diagnosis.codes.trunk import TRUNK

__all__ = ["CODES", "Code", "code_of"]

CODES: dict[str, Code] = {**TRAINING, **TRUNK, **OUTCOME}


def code_of(code: str) -> Code:
    """The entry of a code.

    Raises:
        UnknownName: there is no such code.

    Examples:
        >>> code_of("dead-units").title
        'Units that give the same value for every sample'
    """
    if code not in CODES:
        raise UnknownName("finding", code, CODES)
    return CODES[code]
