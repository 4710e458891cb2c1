"""Will this network train? Steps on a copy, what they show, and a forecast that knows its limits."""

from typing import TYPE_CHECKING

from bathyscope._lazy import lazy

if TYPE_CHECKING:
    from bathyscope.core.forecast import Forecast as Forecast
    from bathyscope.foresight.readings import features as features
    from bathyscope.foresight.stepping import Stage as Stage
    from bathyscope.foresight.stepping import copy_training as copy_training
    from bathyscope.foresight.stepping import look_ahead as look_ahead
    from bathyscope.foresight.stepping import stage_label as stage_label
    from bathyscope.foresight.stepping import train_over as train_over
    from bathyscope.foresight.stepping import train_step as train_step
    from bathyscope.foresight.verdict import forecast as forecast

__getattr__, __dir__, __all__ = lazy(
    __name__,
    names={
        "Stage": "stepping",
        "copy_training": "stepping",
        "features": "readings",
        "forecast": "verdict",
        "look_ahead": "stepping",
        "stage_label": "stepping",
        "train_over": "stepping",
        "train_step": "stepping",
        "Forecast": "verdict",
    },
)
