"""Two models that should do the same: the first step and block at which they part."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope.core.arguments import check_count
from bathyscope.core.batch import Batch, LossFn, check_batch, check_parameters, loss_value
from bathyscope.core.blocks import Blocks, blocks_of
from bathyscope.core.calls import Members, unwrap
from bathyscope.core.errors import UsageError, in_a_line
from bathyscope.core.global_state import (
    measuring,
    one_at_a_time,
    preserve_random_state,
    seed_generators,
)
from bathyscope.core.nested import forward, map_tensors, tensors_in
from bathyscope.core.probe import Observer, probe
from bathyscope.core.records import Block
from bathyscope.measure.layers import parameters_of

if TYPE_CHECKING:
    import pandas as pd

OptimizerOf = Callable[[Iterable[Tensor]], torch.optim.Optimizer]

MARGIN = 8.0
"""Kernels may round this many times worse than a perturbation of all weights by one rounding."""

PERTURBATIONS = 2


@dataclass(frozen=True, slots=True)
class Parting:
    """One quantity of one block at one step, in both models.

    Attributes:
        step: counted from 0; before it the weights have taken as many steps.
        what: `weights`, `input`, `output`, `loss`, `gradient` (at a block's output) or
            `parameter gradient`.
        block: the block's label; empty for the model as a whole.
        difference: norm of the difference over the norm.
        allowed: the largest that rounding explains.
    """

    step: int
    what: str
    block: str
    difference: float
    allowed: float

    @property
    def is_apart(self) -> bool:
        """Whether rounding does not explain the difference."""
        return not self.difference <= self.allowed  # NaN is one


@dataclass(frozen=True, slots=True)
class Twin:
    """The answer of `twin`.

    Attributes:
        first: where the two part first, in the order of computation; None where they do the same.
        rows: every comparison, in that order.
        notes: what could not be compared.
    """

    first: Parting | None
    rows: tuple[Parting, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def is_same(self) -> bool:
        """Whether rounding explains every difference."""
        return self.first is None

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        if self.first is None:
            steps = len({row.step for row in self.rows})
            return f"Both do the same over {steps} step{'s' * (steps != 1)}, up to rounding."
        one = self.first
        where = f" of block {one.block}" if one.block else ""
        return (
            f"They part at step {one.step} in the {one.what}{where}: they differ by "
            f"{one.difference:.2g}, and rounding explains {one.allowed:.2g}."
        )

    @property
    def table(self) -> "pd.DataFrame":
        """The rows as a table."""
        import pandas as pd

        return pd.DataFrame(
            [(r.step, r.what, r.block, r.difference, r.allowed, r.is_apart) for r in self.rows],
            columns=["step", "what", "block", "difference", "allowed", "is_apart"],
        )

    def __str__(self) -> str:
        return "\n".join([self.sentence, *self.notes])


@one_at_a_time()
def twin(
    a: nn.Module,
    b: nn.Module,
    batch: object,
    *,
    other_batch: object = None,
    loss: LossFn = F.cross_entropy,
    other_loss: LossFn | None = None,
    optimizer: OptimizerOf | None = None,
    steps: int = 2,
    blocks: str | Sequence[str] | None = None,
) -> Twin:
    """Run the same training steps with two models, and say where they first part by more than rounding.

    Eager and compiled, float32 and bfloat16, before and after a refactoring: load the same weights into
    both. Each step compares weights, input, the output of every block, the loss, the gradient at the
    output of every block from the last one to the first, and the gradients of its parameters. What
    rounding explains is measured: all weights and inputs of `a` are changed by one rounding of the
    coarser dtype. Both models are copied, and draw the same random numbers.

    Args:
        a: one of the two. Blocks are compared by name, or by order where there are as many; inside of a
            compiled model no block is seen, and the gradients of parameters stand for them.
        b: the other one.
        batch: inputs and targets; floating inputs are given to each model in its own dtype.
        other_batch: for `b`, where its data should be the same and may not be, as on another rank.
        loss: a scalar from output and targets.
        other_loss: for `b`, where it is another piece of code that should do the same.
        optimizer: makes an optimizer of parameters; SGD with learning rate 0.01 by default.
        steps: to compare.
        blocks: a name or glob, or several, that override the blocks found.

    Raises:
        UsageError: a model or a batch does not fit, or a model cannot be copied.

    Examples:
        >>> one = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3))
        >>> other = copy.deepcopy(one)
        >>> other[1].eps = 0.1
        >>> batch = torch.randn(16, 4), torch.randint(3, (16,))
        >>> found = twin(one, other, batch)
        >>> (found.first.step, found.first.what, found.first.block), twin(one, one, batch).is_same
        ((0, 'output', '0'), True)
    """
    steps = check_count("steps", steps, minimum=1)
    for model in (a, b):
        check_parameters(model)
    batches = [check_batch(unwrap(a), batch)]
    batches.append(batches[0] if other_batch is None else check_batch(unwrap(b), other_batch))
    make = optimizer or plain_sgd
    with measuring(), preserve_random_state():
        first = TwinSide.of(a, batches[0], loss, blocks, make)
        second = TwinSide.of(b, batches[1], other_loss or loss, blocks, make)
        rows: list[Parting] = []
        for step in range(steps):
            new = list(_compare(step, first, second))
            rows += new
            if any(row.is_apart for row in new) or step == steps - 1:
                break
            first.take_step()
            second.take_step()
    return Twin(
        next((r for r in rows if r.is_apart), None), tuple(rows), tuple(_notes(first, second))
    )


def plain_sgd(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """The optimizer where none is given."""
    return torch.optim.SGD(parameters, lr=0.01)


@dataclass(slots=True, eq=False)
class _Seen:
    """What one pass of one model showed, in float64."""

    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]
    parameters: dict[str, Tensor]
    loss: Tensor
    eps: float


class _Keeper(Observer):
    """Keeps outputs and their gradients."""

    def __init__(self) -> None:
        self.outputs: dict[str, Tensor] = {}
        self.gradients: dict[str, Tensor] = {}
        self.eps = 0.0

    def on_output(self, block: Block, x: Tensor) -> None:
        self.outputs[block.label] = wide(x)
        if x.is_floating_point():
            self.eps = max(self.eps, torch.finfo(x.dtype).eps)

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        self.gradients[block.label] = wide(gradient)


@dataclass(slots=True, eq=False)
class TwinSide:
    """A copy of one of the two, with its optimizer."""

    model: nn.Module
    called: nn.Module
    batch: Batch
    loss: LossFn
    blocks: Blocks
    optimizer: torch.optim.Optimizer

    @classmethod
    def of(
        cls,
        model: nn.Module,
        batch: Batch,
        loss: LossFn,
        blocks: str | Sequence[str] | None,
        make: OptimizerOf,
    ) -> "TwinSide":
        """A copy of a model with all that it needs for steps of its own."""
        inner = unwrap(model)
        try:
            copied = copy.deepcopy(inner)
        except Exception as error:  # a user's own module may raise anything
            raise UsageError(
                f"{type(inner).__name__} cannot be copied: {in_a_line(error)}."
            ) from error
        is_compiled = hasattr(model, "_orig_mod")
        called: Any = torch.compile(copied, backend=_backend_of(model)) if is_compiled else copied
        dtype = next((p.dtype for p in copied.parameters() if p.is_floating_point()), None)
        inputs = map_tensors(
            batch[0], lambda t: t.to(dtype) if t.is_floating_point() and dtype is not None else t
        )
        every = blocks_of(copied, inputs, blocks=_wanted(blocks))
        trained = [p for p in copied.parameters() if p.requires_grad]
        return cls(copied, called, (inputs, batch[1]), loss, every, make(trained))

    @property
    def is_compiled(self) -> bool:
        """Whether its own code does not run."""
        return self.called is not self.model

    def look(self, *, noise: float = 0.0, seed: int = 0, draws: int = 1) -> _Seen:
        """One pass; with noise, at weights and inputs changed by so much; `draws` seeds the model's own."""
        model, inputs = self.model, self.batch[0]
        if noise:
            model = copy.deepcopy(model)
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for p in model.parameters():
                    if p.is_floating_point():
                        p.mul_(_around_one(p, noise, generator))
            inputs = map_tensors(
                inputs,
                lambda t: t * _around_one(t, noise, generator) if t.is_floating_point() else t,
            )
        seed_generators(draws)
        if self.is_compiled and not noise:
            return self._look_at_compiled()
        keeper = _Keeper()
        result = probe(
            model, (inputs, self.batch[1]), loss=self.loss, blocks=self.blocks, observers=(keeper,)
        )
        by_name = {name: wide(g) for name, g in result.gradients.items()}
        value = torch.tensor(result.loss, dtype=torch.float64, device="cpu")
        return _Seen(keeper.outputs, keeper.gradients, by_name, value, keeper.eps)

    def _look_at_compiled(self) -> _Seen:
        self.model.zero_grad()
        output = forward(self.called, self.batch[0])
        value = loss_value(self.loss, output, self.batch[1])
        value.backward()
        named = self.model.named_parameters()
        gradients = {n: wide(p.grad) for n, p in named if p.grad is not None}
        kinds = [t.dtype for t in tensors_in(output) if t.is_floating_point()]
        eps = max((torch.finfo(kind).eps for kind in kinds), default=0.0)
        self.model.zero_grad()
        return _Seen({}, {}, gradients, wide(value), eps)

    def take_step(self) -> None:
        """One step of training, in place."""
        self.optimizer.zero_grad()
        seed_generators(1)
        loss_value(self.loss, forward(self.called, self.batch[0]), self.batch[1]).backward()
        self.optimizer.step()


def _compare(step: int, a: TwinSide, b: TwinSide) -> Iterator[Parting]:
    """Every comparison of one step, in the order of computation."""
    here, there = a.look(), b.look()
    eps = max(here.eps, there.eps)
    shaken = [a.look(noise=eps, seed=i + 1) for i in range(PERTURBATIONS)]
    names = _parameter_names(a, b)
    labels = _labels(a.blocks, b.blocks)

    def row(
        what: str, block: str, ours: Tensor, theirs: Tensor, others: Sequence[Tensor]
    ) -> Parting:
        noise = max((distance(ours, other) for other in others), default=0.0)
        allowed = MARGIN * max(noise, eps)
        return Parting(step, what, block, distance(ours, theirs), allowed)

    weights, others = dict(a.model.named_parameters()), dict(b.model.named_parameters())
    for name, other in names.items():
        yield row("weights", block_of(name, a), wide(weights[name]), wide(others[other]), ())
    pairs = zip(tensors_in(a.batch), tensors_in(b.batch), strict=False)
    for ours, theirs in pairs:
        yield row("input", "", wide(ours), wide(theirs), ())
    for label, other in labels.items():
        if label in here.outputs and other in there.outputs:
            yield row("output", label, here.outputs[label], there.outputs[other],
                      [s.outputs[label] for s in shaken])  # fmt: skip
    yield row("loss", "", here.loss, there.loss, [s.loss for s in shaken])
    for label, other in reversed(labels.items()):
        if label in here.gradients and other in there.gradients:
            yield row("gradient", label, here.gradients[label], there.gradients[other],
                      [s.gradients[label] for s in shaken])  # fmt: skip
    for name, other in reversed(names.items()):
        if name in here.parameters and other in there.parameters:
            yield row("parameter gradient", block_of(name, a), here.parameters[name],
                      there.parameters[other], [s.parameters[name] for s in shaken])  # fmt: skip


def _labels(a: Blocks, b: Blocks) -> dict[str, str]:
    """Blocks of one, and which of the other's each is."""
    ours, theirs = [block.label for block in a], [block.label for block in b]
    if set(ours) == set(theirs):
        return {label: label for label in ours}
    return dict(zip(ours, theirs, strict=True)) if len(ours) == len(theirs) else {}


def _parameter_names(a: TwinSide, b: TwinSide) -> dict[str, str]:
    """The same for parameters, whose shapes say whether they may be the same."""
    ours, theirs = dict(a.model.named_parameters()), dict(b.model.named_parameters())
    shared = {n: n for n, p in ours.items() if n in theirs and theirs[n].shape == p.shape}
    if shared and (len(shared) == len(ours) or len(shared) == len(theirs)):
        return shared
    if [p.shape for p in ours.values()] == [p.shape for p in theirs.values()]:
        return dict(zip(ours, theirs, strict=True))
    return shared


def block_of(name: str, side: TwinSide) -> str:
    """The block that holds a parameter; its own name where none does."""
    members = Members(side.model)
    for block in (*side.blocks, *side.blocks.around):
        if name in parameters_of(members, block):
            label: str = block.label
            return label
    return name


def _notes(a: TwinSide, b: TwinSide) -> Iterator[str]:
    if a.is_compiled or b.is_compiled:
        yield "Outputs of blocks were not compared: compiled code shows none."
    elif not _labels(a.blocks, b.blocks):
        yield (
            f"Outputs of blocks were not compared: one model has {len(a.blocks)} of them and the other "
            f"{len(b.blocks)}; name those to compare with blocks=."
        )
    if len(_parameter_names(a, b)) < len(dict(a.model.named_parameters())):
        yield "Some parameters have no counterpart of their name and shape, and were not compared."


def _backend_of(model: nn.Module) -> Any:
    """With what `torch.compile` was asked to compile a model."""
    backend: Any = getattr(getattr(model, "dynamo_ctx", None), "callback", None)
    while inner := getattr(backend, "_torchdynamo_orig_backend", None):
        backend = inner
    return backend or "inductor"


def _wanted(blocks: str | Sequence[str] | None) -> Sequence[str] | None:
    return [blocks] if isinstance(blocks, str) else blocks


def _around_one(tensor: Tensor, size: float, generator: torch.Generator) -> Tensor:
    draws = torch.rand(tensor.shape, generator=generator, dtype=torch.float64, device="cpu")
    return (1 + size * (2 * draws - 1)).to(tensor)


def wide(tensor: Tensor) -> Tensor:
    """A copy on the processor, in float64."""
    return tensor.detach().to("cpu", torch.float64, copy=True)


def distance(a: Tensor, b: Tensor) -> float:
    """Norm of the difference over the larger norm; infinite for unlike shapes."""
    if a.shape != b.shape:
        if a.numel() != b.numel():
            return float("inf")
        b = b.reshape(a.shape)
    size = max(float(torch.linalg.vector_norm(a)), float(torch.linalg.vector_norm(b)))
    return float(torch.linalg.vector_norm(a - b)) / size if size else 0.0
