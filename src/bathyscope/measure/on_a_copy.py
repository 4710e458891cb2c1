"""Measurements that need double precision, of a model on a device that has none."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from torch import nn

from bathyscope.core.devices import ON_A_COPY, lacks_double, on_cpu
from bathyscope.core.records import Measurement
from bathyscope.core.stepping import copy_to_cpu

Measure = TypeVar("Measure", bound=Callable[..., Any])


def on_a_copy_without_double(measure: Measure) -> Measure:
    """A measurement of a model, mostly on a batch, made on the CPU where the model's device has no float64.

    The measurement that it returns, or each of several by name, says so in a note.
    """

    @functools.wraps(measure)
    def call(model: nn.Module, *args: object, **options: Any) -> object:
        if not isinstance(model, nn.Module) or not lacks_double(model):
            return measure(model, *args, **options)
        twin, stepper = copy_to_cpu(model, options.get("optimizer"))
        if stepper is not None:
            options["optimizer"] = stepper
        result = measure(twin, *map(on_cpu, args), **options)
        if isinstance(result, Mapping):
            return {name: _with_note(one) for name, one in result.items()}
        return _with_note(result)

    return cast(Measure, call)


def _with_note(one: object) -> object:
    if not isinstance(one, Measurement):
        return one
    return replace(one, notes=(*one.notes, ON_A_COPY))
