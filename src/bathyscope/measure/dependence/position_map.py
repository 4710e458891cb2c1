"""Which positions of a sequence read which: by gradients, by changed tokens, and through the first heads."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.batch import Batch, run_forward
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.nested import copy_tensors, map_tensors, predictions
from bathyscope.core.preserve import preserve_model
from bathyscope.measure.dependence.eval_pass import (
    EvalPass,
    InputInGraph,
    NotMeasurable,
    few_in_eval_pass,
)
from bathyscope.measure.dependence.sample_mixing import random_weights, tolerance_of

Pattern = Literal["causal", "anticausal", "bidirectional", "banded", "diagonal", "none"]

READ = 1e-7
"""Of the largest entry of a row: below it a position is not read, to rounding in float32.

A mask of −∞, or of −10⁴ and less, leaves exactly 0; a convolution's gradient outside its field is exactly 0.
"""
UNSURE = (1e-10, 1e-5)
"""Around that threshold a row is computed again in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class PositionMap:
    """How strongly chosen positions of the output read each position of the input.

    Attributes:
        rows: the output's positions.
        strength: (rows, positions of the input), ‖∂⟨w, y_row⟩/∂x_position‖ with random weights w over the
            output's features; one sample for each row.
        samples: the sample of each row.
        positions: of the input.
        is_exact: whether it was computed in float64.
        not_checked: what was left out, and why.
    """

    rows: tuple[int, ...]
    strength: Float[Tensor, " rows positions"]
    samples: tuple[int, ...]
    positions: int
    is_exact: bool = False
    not_checked: tuple[str, ...] = ()

    @property
    def reads(self) -> Tensor:
        """(rows, positions): whether the row reads the position."""
        if not len(self.strength):
            return torch.zeros(self.strength.shape, dtype=torch.bool, device="cpu")
        largest = self.strength.amax(1, keepdim=True)
        return (self.strength > READ * largest) & (largest > 0)

    @property
    def back(self) -> int | None:
        """How many positions back the furthest read one lies; None where no row has one before it."""
        reach = [row - int(self.reads[i].nonzero().min()) for i, row in self._reading()]
        return max([0, *reach]) if any(self.rows) and reach else None

    @property
    def ahead(self) -> int | None:
        """How many positions ahead the furthest read one lies; None where no row has one after it."""
        reach = [int(self.reads[i].nonzero().max()) - row for i, row in self._reading()]
        inner = any(row < self.positions - 1 for row in self.rows)
        return max([0, *reach]) if inner and reach else None

    def _reading(self) -> list[tuple[int, int]]:
        return [(i, row) for i, row in enumerate(self.rows) if bool(self.reads[i].any())]

    @property
    def pattern(self) -> Pattern | None:
        """What kind of map it is; None where too little of it is known."""
        back, ahead = self.back, self.ahead
        if self.rows and not bool(self.reads.any()):
            return "none"
        if back is None or ahead is None:
            return None
        if not back and not ahead:
            return "diagonal"
        if not ahead:
            return "causal"
        if not back:
            return "anticausal"
        most_back = max(self.rows)
        most_ahead = self.positions - 1 - min(self.rows)
        return "banded" if back < most_back and ahead < most_ahead else "bidirectional"


def default_rows(positions: int, samples: int) -> tuple[int, ...]:
    """Output positions that distinguish the patterns: inner ones, then the ends.

    Examples:
        >>> default_rows(12, 4)
        (4, 8, 0, 11)
    """
    wanted = (positions // 3, 2 * positions // 3, 0, positions - 1, positions // 2, 1)
    return tuple(dict.fromkeys(p for p in wanted if 0 <= p < positions))[:samples]


def position_map(
    model: nn.Module, batch: Batch, *, rows: tuple[int, ...] | None = None, axis: int = 0
) -> PositionMap:
    """Which positions of the input chosen positions of the output read, in eval mode.

    Several samples are run together, and each is asked for another position of its output: one backward
    pass gives as many rows of the map as there are samples.

    Args:
        model: any module, left as it was.
        batch: inputs and targets.
        rows: positions of the output; by default as many as samples are run, spread over the sequence.
        axis: the samples' axis of the inputs.

    Returns:
        The map; without rows, and with the reason, where output and input have no common positions.

    Examples:
        >>> conv = nn.Conv1d(2, 2, 3, padding=1)
        >>> found = position_map(conv, (torch.randn(4, 2, 9), None))
        >>> found.pattern, found.back, found.ahead
        ('banded', 1, 1)
    """
    model = unwrap(model)
    with preserve_model(model, copy_parameters=False):
        try:
            ran, _ = few_in_eval_pass(model, batch[0], axis=axis)
            return map_of_pass(ran, rows=rows)
        except NotMeasurable as error:
            return _empty(f"positions: {error}")


def _empty(why: str) -> PositionMap:
    return PositionMap((), torch.zeros(0, 0, device="cpu"), (), 0, not_checked=(why,))


def output_positions(ran: EvalPass, source: InputInGraph) -> tuple[int, ...] | None:
    """The axes of the output, samples first, whose positions are those of the input; None without any."""
    output = ran.by_sample
    if output.ndim < 3 or source.kind == "table":
        return None
    inputs = source.tensor.movedim(source.sample_axis, 0)
    grid = (
        (source.positions,)
        if source.kind == "tokens"
        else tuple(inputs.shape[a] for a in source.position_axes)
    )
    if len(grid) == 1:
        fits = [a for a in range(1, output.ndim) if output.shape[a] == grid[0]]
        if not fits:
            return None
        # positions stand where the input has them; (samples, positions, features) where both would do
        wanted = source.position_axes[0]
        return (wanted,) if wanted in fits else (fits[0],)
    last = tuple(range(output.ndim - len(grid), output.ndim))
    if tuple(output.shape[a] for a in last) == grid:
        return last
    first = tuple(range(1, 1 + len(grid)))
    return first if tuple(output.shape[a] for a in first) == grid else None


def map_of_pass(
    ran: EvalPass,
    *,
    rows: tuple[int, ...] | None = None,
    at: tuple[int, ...] | None = None,
    source_number: int = 0,
) -> PositionMap:
    """As `position_map`, from a pass that was run.

    Args:
        ran: the pass; its samples must not read one another.
        rows: positions of the output.
        at: the sample to ask for each row; by default they take turns.
        source_number: of the source whose positions are read; a decoder's are not the first.

    Raises:
        NotMeasurable: an operation has no derivative.
    """
    source = ran.sources[source_number] if ran.sources else None
    if source is None:
        return _empty("positions: no input that can be differentiated was found")
    axes = output_positions(ran, source)
    if axes is None:
        shapes = f"{tuple(ran.output.shape)} for {source.positions} positions"
        return _empty(f"positions: the output has none of the input's ({shapes})")
    output = ran.by_sample
    rest = [a for a in range(1, output.ndim) if a not in axes]
    grid = [output.shape[a] for a in axes]
    wanted = default_rows(math.prod(grid), ran.samples) if rows is None else rows
    chosen = tuple(i % ran.samples for i in range(len(wanted))) if at is None else at
    strength = torch.zeros(len(wanted), source.positions, dtype=torch.float64, device="cpu")
    for group in _groups(chosen):
        weights = random_weights(output)
        # samples, positions, features: a row of the map is one entry of the second axis
        flat = weights.permute(0, *axes, *rest).reshape(ran.samples, math.prod(grid), -1)
        seed = torch.zeros_like(flat)
        for number in group:
            seed[chosen[number], wanted[number]] = flat[chosen[number], wanted[number]]
        shaped = seed.reshape(ran.samples, *grid, *(output.shape[a] for a in rest))
        back = sorted(range(1 + len(axes) + len(rest)), key=[0, *axes, *rest].__getitem__)
        gradients = ran.gradients(shaped.permute(back))
        result = source.strengths(gradients[source_number]).cpu()
        for number in group:
            strength[number] = result[chosen[number]]
    return PositionMap(
        rows=wanted,
        strength=strength,
        samples=chosen,
        positions=source.positions,
        is_exact=ran.output.dtype == torch.float64,
    )


def _groups(chosen: tuple[int, ...]) -> list[list[int]]:
    """Rows that can be asked for in one backward pass: of different samples."""
    groups: list[list[int]] = []
    used: list[set[int]] = []
    for number, sample in enumerate(chosen):
        free = next((g for g, samples in enumerate(used) if sample not in samples), None)
        if free is None:
            groups.append([])
            used.append(set())
            free = len(groups) - 1
        groups[free].append(number)
        used[free].add(sample)
    return groups


def is_unsure(result: PositionMap) -> bool:
    """Whether an entry lies so near the threshold that float64 should decide."""
    if not len(result.strength) or result.is_exact:
        return False
    largest = result.strength.amax(1, keepdim=True).clamp_min(1e-300)
    relative = result.strength / largest
    return bool(((relative > UNSURE[0]) & (relative < UNSURE[1])).any())


@dataclass(frozen=True, slots=True)
class HeadSplit:
    """What a query of the first attention reads of the input.

    Attributes:
        heads: how many.
        query: the position of the query that was asked.
        reads: the position that it reads most.
        reads_itself: whether it reads its own position at all.
        crosses_positions: whether it reads what a `view(samples, heads, positions, -1)` of
            (samples, positions, heads × features) puts there, and not its own.
    """

    heads: int
    query: int
    reads: int
    reads_itself: bool
    crosses_positions: bool


def head_split(ran: EvalPass) -> HeadSplit | None:
    """What the last query of the first head reads; None without attention over the input's positions.

    With L positions and H heads, `view` where `transpose` is needed gives head h at position l the features
    of position ⌊(hL + l)/H⌋. The query of head 0 at the last position then reads ⌊(L − 1)/H⌋, and itself not
    at all.

    Raises:
        NotMeasurable: an operation has no derivative.
    """
    source = ran.main
    if ran.queries is None or source is None or len(source.position_axes) != 1:
        return None
    queries = ran.queries.tensor
    samples, heads, length, _ = queries.shape
    if samples != ran.samples or length != source.positions or heads < 2 or length < 2 * heads:
        return None
    last = length - 1
    seed = torch.zeros_like(queries)
    if ran.queries.are_scores:
        seed[:, 0, last, last] = 1.0  # of query and key at one position
    else:
        seed[:, 0, last] = (
            1.0 + torch.arange(queries.shape[-1], device="cpu").to(seed) / queries.shape[-1]
        )
    (gradient,) = torch.autograd.grad(
        queries, [source.tensor], seed, retain_graph=True, allow_unused=True
    )
    if gradient is None:
        return None
    strength = source.strengths(gradient)[0].cpu()
    most = int(strength.argmax())
    itself = float(strength[last]) > 0
    return HeadSplit(
        heads=heads,
        query=last,
        reads=most,
        reads_itself=itself,
        crosses_positions=not itself and most == last // heads,
    )


def map_by_substitution(model: nn.Module, ran: EvalPass) -> PositionMap:
    """The map of positions, one column for each sample: its token at one position is changed.

    Entries are 1 where the output's position changes by more than rounding, else 0; columns that were not
    tried are 0. The caller protects the model. Samples must not read one another.

    Returns:
        A map with a row for each position of the output; an output without positions is one row.
    """
    main = next((one for one in ran.named if one.role in ("tokens", "values")), None)
    if main is None or main.tensor.ndim < 2 or main.tensor.shape[1 - ran.input_axis] < 2:
        return PositionMap(
            (), torch.zeros(0, 0, device="cpu"), (), 0, not_checked=("positions: no sequence",)
        )
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
        return PositionMap(
            (), torch.zeros(0, 0, device="cpu"), (), 0, not_checked=(f"positions: {error}",)
        )
    before = ran.by_sample.detach()
    if after is None or after.shape != ran.output.shape:
        return PositionMap(
            (), torch.zeros(0, 0, device="cpu"), (), 0, not_checked=("positions: other output",)
        )
    apart = (after.movedim(ran.output_axis, 0) - before).abs().double().cpu()
    limit = tolerance_of(ran.output) * float(before.abs().max())
    by_row = apart.flatten(2).amax(-1) if apart.ndim > 2 else apart.amax(-1, keepdim=True)
    rows = by_row.shape[1] if by_row.shape[1] == positions else 1
    if rows == 1:
        by_row = by_row.amax(-1, keepdim=True)
    strength = torch.zeros(rows, positions, dtype=torch.float64, device="cpu")
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
