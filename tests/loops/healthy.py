"""Thirty-two loops as people write them, with nothing wrong; each returns its score before and after.

`LOOPS` maps a name to a function without arguments that trains a small model and returns the loss of held-out
or training data at its start and at its end.
"""

from tests.loops.healthy_classifiers import CLASSIFIERS
from tests.loops.healthy_others import OTHERS
from tests.loops.healthy_schedules import SCHEDULES

LOOPS = {**CLASSIFIERS, **SCHEDULES, **OTHERS}
