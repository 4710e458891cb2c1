"""Every measurement of the package, by name."""

import functools
import inspect

from bathyscope import measure

MEASUREMENTS = {name: getattr(measure, name) for name in measure.__all__}


def measured(name, model, batch, loss, optimizer):
    function = MEASUREMENTS[name]
    takes = inspect.signature(function).parameters
    given = {"loss": loss, "optimizer": optimizer}
    return functools.partial(function, **{n: v for n, v in given.items() if n in takes})(
        model, batch
    )
