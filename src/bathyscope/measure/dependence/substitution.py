"""Which positions outputs read, found by changing the input: for models that cannot be differentiated."""

import torch
from torch import Tensor, nn

from bathyscope.core.batch import run_forward
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.nested import copy_tensors, map_tensors, predictions
from bathyscope.measure.dependence.eval_pass import EvalPass
from bathyscope.measure.dependence.position_map import PositionMap, default_rows
from bathyscope.measure.dependence.sample_mixing import tolerance_of


def map_by_substitution(model: nn.Module, ran: EvalPass) -> PositionMap:
    """The map of positions, one column for each sample: its token at one position is changed.

    Entries are 1 where the output's position changes by more than rounding, else 0; columns that were not
    tried are 0. The caller protects the model. Samples must not read one another.

    Returns:
        A map with a row for each position of the output; an output without positions is one row.
    """
    main = next((one for one in ran.named if one.role in ("tokens", "values")), None)
    if main is None or main.tensor.ndim < 2 or main.tensor.shape[1 - ran.input_axis] < 2:
        return PositionMap((), torch.zeros(0, 0), (), 0, not_checked=("positions: no sequence",))
    tokens = main.tensor.movedim(ran.input_axis, 0)
    positions = tokens.shape[1]
    columns = default_rows(positions, ran.samples)
    changed = tokens.clone()
    for sample, column in enumerate(columns):
        changed[sample, column] = _other(tokens, sample, column)
    replaced = changed.movedim(0, ran.input_axis)
    given = map_tensors(ran.inputs, lambda t: replaced if t is main.tensor else t)
    try:
        with torch.no_grad():
            after = predictions(run_forward(model, copy_tensors(given)))
            if after is not None and after.numel() == ran.output.numel():
                after = after.reshape(ran.output.shape)  # samples and positions in one
    except BathyscopeError as error:
        return PositionMap((), torch.zeros(0, 0), (), 0, not_checked=(f"positions: {error}",))
    before = ran.by_sample.detach()
    if after is None or after.shape != ran.output.shape:
        return PositionMap((), torch.zeros(0, 0), (), 0, not_checked=("positions: other output",))
    apart = (after.movedim(ran.output_axis, 0) - before).abs().double().cpu()
    limit = tolerance_of(ran.output) * float(before.abs().max())
    by_row = apart.flatten(2).amax(-1) if apart.ndim > 2 else apart.amax(-1, keepdim=True)
    rows = by_row.shape[1] if by_row.shape[1] == positions else 1
    if rows == 1:
        by_row = by_row.amax(-1, keepdim=True)
    strength = torch.zeros(rows, positions, dtype=torch.float64)
    for sample, column in enumerate(columns):
        strength[:, column] = (by_row[sample] > limit).double()
    note = f"positions: found by changing {len(columns)} of {positions} tokens, without gradients"
    return PositionMap(tuple(range(rows)), strength, (0,) * rows, positions, not_checked=(note,))


def _other(tokens: Tensor, sample: int, column: int) -> Tensor:
    """Another value than the one that stands there, of those that occur."""
    here = tokens[sample, column]
    if tokens.is_floating_point():
        return here + tokens.std().clamp_min(1e-3)
    known = tokens.unique()
    others = known[known != here] if here.ndim == 0 else known
    return others[len(others) // 2].expand_as(here) if len(others) else here
