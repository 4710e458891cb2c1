"""The batch before any pass: the scale of its inputs, its labels, and whether they are related."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.core.losses import IGNORED
from bathyscope.core.nested import tensors_in
from bathyscope.core.records import Measurement, Number
from bathyscope.measure.dependence.input_roles import named_inputs
from bathyscope.measure.flipped_targets import flipped_fraction


def inputs_measurement(inputs: object) -> Measurement:
    """The measurement `inputs`: one set of numbers for the batch, in `settings`.

    largest: the largest absolute value; deviation: of all values; column_range: the largest
    deviation of a column (of a table) or channel over the smallest that is not zero; wide_column and
    narrow_column: which; offset: |mean| of a column or channel over its deviation, the median of those
    that vary; constant_columns: how many; repeated_columns: how many, of those that vary,
    equal one before them in every sample of a table; repeated_samples: fraction of samples that occurred
    before; zero: whether all values are. Of the first floating tensor; where another one is larger, its name
    as larger_input, and its largest, deviation, offset and column_range. Of tokens, where there is none,
    only frequent_token, the one that occurs most often, and token_fraction: its fraction, 0 where it
    stands only in runs at one end of the sequences, as padding does.

    Examples:
        >>> found = inputs_measurement(torch.tensor([[1.0, 500.0], [2.0, 0.0]]))
        >>> found.settings["largest"], found.settings["column_range"]
        (500.0, 500.0)
    """
    x = next((t for t in tensors_in(inputs) if t.is_floating_point() and t.ndim >= 2), None)
    numbers: dict[str, object] = {}
    if x is not None and len(x):
        numbers = _input_numbers(x.detach()) | _larger_input(inputs, x)
    elif x is None:
        numbers = _token_numbers(inputs)
    return Measurement(name="inputs", blocks=(), columns={}, settings=numbers)


def _input_numbers(x: Tensor) -> dict[str, object]:
    largest = max(abs(bound.item()) for bound in x.aminmax())
    rows = x.reshape(len(x), -1)
    table = x.ndim == 2
    # columns of a table; else the second axis, which for images is the channels
    columns = rows if table else x.movedim(1, -1).reshape(-1, x.shape[1])
    deviations = _deviations(columns)
    varied = torch.where(deviations > 0, deviations, math.inf)
    spread = float(deviations.max()), float(varied.min())
    result: dict[str, object] = {
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
        "offset": _offset(columns, deviations),
    }
    if rows.numel() <= 2**20:
        result["repeated_samples"] = 1 - len(torch.unique(rows, dim=0)) / len(rows)
        if table:
            varying = rows[:, deviations > 0]
            result["repeated_columns"] = varying.shape[1] - torch.unique(varying, dim=1).shape[1]
    return result


def _larger_input(inputs: object, first: Tensor) -> dict[str, object]:
    """Name and size of an input of numbers that is larger than the first; masks and the like left out."""
    others = [
        one
        for one in named_inputs(inputs)
        if one.role == "values" and one.tensor is not first and one.tensor.ndim >= 2
        and one.tensor.is_floating_point() and one.tensor.numel()
    ]  # fmt: skip
    if not others:
        return {}
    largest = max(others, key=lambda one: float(one.tensor.abs().max()))
    if float(largest.tensor.abs().max()) <= float(first.abs().max()):
        return {}
    numbers = _input_numbers(largest.tensor.detach())
    kept = ("largest", "deviation", "offset", "column_range", "wide_column", "narrow_column")
    return {"larger_input": largest.name} | {name: numbers[name] for name in kept}


def _token_numbers(inputs: object) -> dict[str, object]:
    tokens = next(
        (t for t in tensors_in(inputs) if t.dtype in (torch.int64, torch.int32) and t.ndim == 2),
        None,
    )
    if tokens is None or tokens.shape[1] < 4 or not tokens.numel():
        return {}
    token = int(tokens.mode(1).values.mode().values)
    same = tokens == token
    at_left, at_right = same.cumprod(1).bool(), same.flip(1).cumprod(1).flip(1).bool()
    is_padding = torch.equal(same, at_left) or torch.equal(same, at_right)
    fraction = 0.0 if is_padding else float(same.double().mean())
    return {"frequent_token": token, "token_fraction": fraction}


def _offset(columns: Float[Tensor, " n d"], deviations: Float[Tensor, " d"]) -> float:
    """Median over the columns that vary of |mean| / deviation; 0 for one sample."""
    varies = deviations > 0
    if len(columns) == 1 or not bool(varies.any()):
        return 0.0
    return float((columns[:, varies].double().mean(0).abs() / deviations[varies]).median())


def _deviations(columns: Float[Tensor, " n d"]) -> Float[Tensor, " d"]:
    """Deviation of every column, divided by n; of one sample, its distance from zero."""
    if len(columns) == 1:
        return columns[0].double().abs()
    return columns.double().std(0, correction=0)


def labels_measurement(inputs: object, targets: object) -> Measurement:
    """The measurement `labels`, in `settings`.

    number: of target values; ignored: fraction of class indices that are −100; different: how many
    values there are among the others, for targets of numbers the different rows; relation: how many
    deviations inputs and targets are more alike than shuffled ones; flipped: fraction of the masks that fit
    their pictures better when mirrored. Targets are those of the batch,
    or `labels` among named inputs.

    Examples:
        >>> labels_measurement(torch.randn(4, 2), torch.tensor([1, 1, -100, 1])).settings["different"]
        1
    """
    if targets is None and isinstance(inputs, Mapping):
        targets = inputs.get("labels")
    numbers: dict[str, Number] = {}
    if isinstance(targets, Tensor) and targets.numel():
        numbers = _label_numbers(targets.detach())
        x = next(tensors_in(inputs), None)
        if x is not None and targets.ndim in (3, 4):
            numbers["flipped"] = flipped_fraction(x, targets)
        if x is not None and _can_be_related(x, targets):
            numbers["relation"] = relation_score(x, targets)
    return Measurement(name="labels", blocks=(), columns={}, settings=numbers)


def _can_be_related(x: Tensor, targets: Tensor) -> bool:
    """Whether both are samples of numbers, of a size that can be compared in no time."""
    if not (x.is_floating_point() and x.ndim > 1 and targets.ndim and len(x) == len(targets)):
        return False
    return targets[0].numel() <= 64 and bool(torch.isfinite(targets.double()).all())


def _label_numbers(targets: Tensor) -> dict[str, Number]:
    result: dict[str, Number] = {"number": targets.numel()}
    if targets.is_floating_point():
        rows = targets.reshape(len(targets), -1) if targets.ndim else targets.reshape(1, 1)
        result["different"] = 1 + int(bool((rows != rows[:1]).any()))
        result["samples"] = len(rows)
        result["non_finite"] = 1 - float(torch.isfinite(targets).float().mean())
        return result
    known = targets[targets != IGNORED] if targets.dtype != torch.bool else targets
    result["samples"] = known.numel()
    result["ignored"] = 1 - known.numel() / targets.numel()
    result["different"] = len(torch.unique(known.flatten()[:100_000]))
    return result


LARGEST_SAMPLE = 256
"""Samples compared: the test costs the square of their number."""


def relation_score(inputs: Tensor, targets: Tensor) -> float | None:
    """How many deviations the cosine similarity of inputs and targets lies above that of shuffled targets.

    It is ⟨A, B⟩ with A and B the centered matrices of similarity of the samples by input and
    by target (the Hilbert-Schmidt independence criterion); its mean and variance over all
    permutations of the targets are known in closed form (Kazi-Aoual et al. 1995), so nothing is
    drawn. Fewer than eight samples, or targets that do not differ, give no number.

    Args:
        inputs: samples along the first axis.
        targets: class indices of shape (samples,), or numbers with samples along the first axis.

    Examples:
        >>> x = torch.arange(32.0).unsqueeze(1)
        >>> relation_score(x, 2 * x) > 5
        True
    """
    number = min(len(inputs), LARGEST_SAMPLE)
    if number < 8 or len(targets) != len(inputs):
        return None
    first = _centered(_similarity(inputs[:number]))
    second = _centered(_target_similarity(targets[:number]))
    deviation = math.sqrt(max(0.0, permutation_variance(first, second)))
    if not deviation > 1e-12 * float(first.norm() * second.norm()):
        return None
    mean = float(first.trace() * second.trace()) / (number - 1)
    return (float((first * second).sum()) - mean) / deviation


def permutation_variance(first: Float[Tensor, " n n"], second: Float[Tensor, " n n"]) -> float:
    """Variance of ⟨A, P B Pᵀ⟩ over all permutations P, for centered symmetric A and B.

    Examples:
        >>> eye = torch.eye(4) - 0.25
        >>> abs(permutation_variance(eye, eye)) < 1e-12
        True
    """
    n = len(first)
    terms = [(float(m.trace()), float(m.square().sum()), float(m.diagonal().square().sum()))
             for m in (first.double(), second.double())]  # fmt: skip
    (t1, s1, d1), (t2, s2, d2) = terms
    pairs = 2 * ((n - 1) * s1 - t1**2) * ((n - 1) * s2 - t2**2)
    pairs /= (n - 1) ** 2 * (n + 1) * (n - 2)
    diagonals = (n * (n + 1) * d1 - (n - 1) * (t1**2 + 2 * s1)) * (
        n * (n + 1) * d2 - (n - 1) * (t2**2 + 2 * s2)
    )
    return pairs + diagonals / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))


def _similarity(x: Tensor) -> Float[Tensor, " n n"]:
    """exp(−d²/m) of the squared distances d² of standardized samples, with m their median."""
    rows = x.detach().reshape(len(x), -1).double()
    deviations = rows.std(0, correction=0)
    rows = (rows - rows.mean(0)) / torch.where(deviations > 0, deviations, 1.0)
    squares = torch.cdist(rows, rows).square()
    off = squares[~torch.eye(len(rows), dtype=torch.bool, device=rows.device)]
    return torch.exp(-squares / off.median().clamp_min(1e-12))


def _target_similarity(targets: Tensor) -> Float[Tensor, " n n"]:
    if targets.is_floating_point():
        return _similarity(targets)
    rows = targets.reshape(len(targets), -1)
    return (rows.unsqueeze(0) == rows.unsqueeze(1)).double().mean(2)


def _centered(matrix: Float[Tensor, " n n"]) -> Float[Tensor, " n n"]:
    return matrix - matrix.mean(0) - matrix.mean(1, keepdim=True) + matrix.mean()
