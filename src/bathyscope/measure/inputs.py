"""The scale and variety of what goes into a network, as a whole and by column or channel."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.core.nested import tensors_in
from bathyscope.core.records import Measurement


def inputs_measurement(inputs: object) -> Measurement:
    """The measurement `inputs`: one set of numbers for the batch, in `settings`.

    largest: the greatest absolute value; deviation: of all values; column_range: the greatest
    deviation of a column (of a table) or channel over the smallest that is not zero; wide_column and
    narrow_column: which; constant_columns: how many; repeated_columns: how many, of those that vary,
    equal one before them in every sample of a table; repeated_samples: share of samples that occurred
    before; zero: whether all values are. Of the first floating tensor; without one (tokens) there is
    nothing.

    Examples:
        >>> found = inputs_measurement(torch.tensor([[1.0, 500.0], [2.0, 0.0]]))
        >>> found.settings["largest"], found.settings["column_range"]
        (500.0, 500.0)
    """
    x = next((t for t in tensors_in(inputs) if t.is_floating_point() and t.ndim >= 2), None)
    numbers: dict[str, object] = {}
    if x is not None and len(x):
        numbers = _numbers(x.detach())
    return Measurement(name="inputs", blocks=(), columns={}, settings=numbers)


def _numbers(x: Tensor) -> dict[str, object]:
    largest = max(abs(bound.item()) for bound in x.aminmax())
    rows = x.reshape(len(x), -1)
    table = x.ndim == 2
    # columns of a table; else the second axis, which for images is the channels
    columns = rows if table else x.movedim(1, -1).reshape(-1, x.shape[1])
    deviations = _deviations(columns)
    varied = torch.where(deviations > 0, deviations, math.inf)
    spread = float(deviations.max()), float(varied.min())
    found: dict[str, object] = {
        "largest": largest,
        "deviation": float(rows.double().std(correction=0)),
        "zero": largest == 0,
        "table": table,
        "samples": len(x),
        "columns": columns.shape[1],
        "column_range": spread[0] / spread[1] if spread[0] > 0 else 1.0,
        "wide_column": int(deviations.argmax()),
        "narrow_column": int(varied.argmin()),
        "constant_columns": int((deviations == 0).sum()),
    }
    if rows.numel() <= 2**20:
        found["repeated_samples"] = 1 - len(torch.unique(rows, dim=0)) / len(rows)
        if table:
            varying = rows[:, deviations > 0]
            found["repeated_columns"] = varying.shape[1] - torch.unique(varying, dim=1).shape[1]
    return found


def _deviations(columns: Float[Tensor, " n d"]) -> Float[Tensor, " d"]:
    """Deviation of every column, divided by n; of one sample, its distance from zero."""
    if len(columns) == 1:
        return columns[0].double().abs()
    return columns.double().std(0, correction=0)
