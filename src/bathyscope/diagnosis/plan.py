"""What a diagnosis would cost, from the shapes alone: no weight is made, no sample is measured.

The network stands on the meta device, where tensors have shapes and no values, so that one of
billions of parameters is planned on any machine. One forward pass of two samples there counts the
operations and what the graph keeps for the way back; the rest follows from the shapes of blocks and
weights.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from bathyscope.core.arguments import check_count, check_number
from bathyscope.core.batch import check_parameters, run_forward
from bathyscope.core.blocks import Blocks, blocks_of
from bathyscope.core.calls import unwrap
from bathyscope.core.devices import available_bytes, readable_size
from bathyscope.core.errors import UsageError
from bathyscope.core.nested import first_samples, map_tensors, tensors_in
from bathyscope.core.probe import make_differentiable
from bathyscope.core.records import Block
from bathyscope.diagnosis.scope import sample_blocks
from bathyscope.measure.layers import layers_of
from bathyscope.measure.representations import LARGEST_SIDE

_GIB = 2**30
_FRACTION = 0.8  # of the free memory, where no ceiling is given
_PAIR = 2  # samples of the counting pass: BatchNorm in train mode needs two
# Both in the time of a product in float32, measured on one core at sides of 256 to 1,024: eigenvalues of
# an s × s matrix in float64 as many operations as 14 s³, a Gram matrix in float64 twice its own.
_EIGENVALUES, _IN_DOUBLE = 14.0, 2.0
_MOST_STEPS = 5.0  # training steps that the spectra may bring a diagnosis to; fewer blocks beyond
_DOUBLE = 8
# Kept at once while the optimizer steps on a copy in float64: parameters, their values before, their
# gradients, the difference; and what the optimizer itself keeps.
_STEP_COPIES = 4
_STATE_COPIES = {"sgd": 1, "adam": 2, "adamw": 2}


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """What one part of a diagnosis takes.

    Attributes:
        name: of the part.
        passes: forward passes over the batch; a backward pass counts two.
        operations: floating-point operations.
        memory: bytes at its peak, beside the weights and the batch.
    """

    name: str
    passes: float
    operations: float
    memory: int


@dataclass(frozen=True, slots=True)
class DiagnosisPlan:
    """What a diagnosis of a network would cost, and what of it fits under a ceiling.

    Attributes:
        parameters: how many there are.
        weights: bytes of parameters and buffers.
        samples: of the batch that fit, of those asked for.
        asked: samples asked for.
        blocks: to measure, of those there are.
        total_blocks: there are.
        ceiling: bytes that measuring may take.
        step: operations of one training step on those samples.
        rate: operations per second, tried on this machine by a product of matrices.
        probes: the parts, in order.
    """

    parameters: int
    weights: int
    samples: int
    asked: int
    blocks: int
    total_blocks: int
    ceiling: int
    step: float
    rate: float
    probes: tuple[ProbeCost, ...]

    @property
    def memory(self) -> int:
        """Bytes at the peak, beside the weights and the batch."""
        return max(probe.memory for probe in self.probes)

    @property
    def operations(self) -> float:
        """Floating-point operations in all."""
        return sum(probe.operations for probe in self.probes)

    @property
    def steps(self) -> float:
        """Cost in training steps on the same samples."""
        return self.operations / self.step

    @property
    def seconds(self) -> float:
        """Time on this machine, roughly: at the rate of a product of matrices."""
        return self.operations / self.rate

    def __str__(self) -> str:
        fewer = "" if self.samples == self.asked else f" of {self.asked}"
        some = "" if self.blocks == self.total_blocks else f" of {self.total_blocks}, spread evenly"
        return (
            f"{self.parameters:,} parameters ({readable_size(self.weights)}): measuring "
            f"{self.samples}{fewer} samples and {self.blocks}{some} blocks takes about "
            f"{readable_size(self.memory)} beside them (the ceiling is "
            f"{readable_size(self.ceiling)}), {self.steps:.1f} training steps, "
            f"{self.seconds:.0f} s on this machine."
        )


def plan_diagnosis(
    model: nn.Module,
    inputs: object,
    *,
    optimizer: str | None = None,
    probes: str = "standard",
    memory: float | None = None,
    blocks: Blocks | None = None,
) -> DiagnosisPlan:
    """Say what `diagnose` would cost in memory, operations and passes, and choose what fits.

    Args:
        model: on the meta device (`nets.skeleton`, or built within `torch.device("meta")`), or with
            its weights, which are not looked at.
        inputs: as of a batch; only their shapes and dtypes count.
        optimizer: sgd, adam or adamw where the size of steps is to be judged.
        probes: `standard`, or `full` for the look-ahead and the curvature too.
        memory: GiB that measuring may take; four fifths of what is free by default.
        blocks: of the model, where they are known; without them one more pass finds them.

    Raises:
        UsageError: the model cannot take the inputs, or not even two samples fit.

    Examples:
        >>> from bathyscope import nets
        >>> plan = plan_diagnosis(nets.skeleton("resnet-110"), torch.zeros(64, 3, 32, 32))
        >>> plan.parameters, plan.samples, plan.total_blocks
        (1727962, 64, 54)
    """
    check_parameters(model, with_values=False)
    if memory is not None:
        memory = check_number("memory", memory, low=0.0, open_low=True)
    ceiling = int(memory * _GIB) if memory is not None else int(
        _FRACTION * available_bytes(torch.device("cpu"))
    )  # fmt: skip
    inner = _on_meta(unwrap(model))
    given = map_tensors(inputs, lambda t: t.to("meta"))
    asked = check_count("samples", next(len(t) for t in tensors_in(given)), minimum=1)
    if blocks is None:
        blocks = blocks_of(inner, first_samples(given, _PAIR))
    forward, graph, largest = _count_pass(inner, first_samples(given, min(_PAIR, asked)))
    pair = min(_PAIR, asked)
    trained = sum(p.numel() * p.element_size() for p in inner.parameters() if p.requires_grad)
    fixed = trained + _fixed_bytes(inner, optimizer, probes)
    each = (graph + 2 * largest) / pair * (1 if probes == "standard" else 3)
    samples = min(asked, int((ceiling - fixed) / max(each, 1.0)))
    if samples < min(_PAIR, asked):
        raise UsageError(
            f"Measuring two samples of this network takes about "
            f"{readable_size(int(fixed + 2 * each))}, more than {readable_size(ceiling)}, the "
            "ceiling; raise the memory, or share the model out (fully_shard)."
        )
    scale = samples / pair
    one_pass = forward * scale
    costs = tuple(
        _costs(inner, blocks, samples, one_pass=one_pass, graph=int(each * samples), optimizer=optimizer,
               probes=probes, trained=trained, fixed=fixed)
    )  # fmt: skip
    kept = _blocks_that_fit(costs, len(blocks), 3 * one_pass)
    if kept < len(blocks):
        some = sample_blocks(blocks, kept)
        costs = tuple(
            _costs(inner, some, samples, one_pass=one_pass, graph=int(each * samples),
                   optimizer=optimizer, probes=probes, trained=trained, fixed=fixed)
        )  # fmt: skip
    return DiagnosisPlan(
        parameters=sum(p.numel() for p in inner.parameters()),
        weights=sum(t.nbytes for t in (*inner.parameters(), *inner.buffers())),
        samples=samples,
        asked=asked,
        blocks=kept,
        total_blocks=len(blocks),
        ceiling=ceiling,
        step=3 * one_pass,
        rate=_rate(),
        probes=costs,
    )


def _on_meta(model: nn.Module) -> nn.Module:
    """The model itself where it has no values; else a copy of its form without them."""
    if all(p.is_meta for p in model.parameters()):
        return model
    import copy

    memo: dict[int, object] = {}
    for parameter in model.parameters():
        shape = parameter.detach().to("meta")
        memo[id(parameter)] = nn.Parameter(shape, requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.to("meta")
    return copy.deepcopy(model, memo)


def _count_pass(model: nn.Module, inputs: object) -> tuple[float, int, int]:
    """Operations of a forward pass, bytes that its graph keeps, and the largest of the tensors."""
    own = {p.untyped_storage()._cdata for p in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def count(tensor: Tensor) -> torch.UntypedStorage:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage
        return storage

    def never(storage: torch.UntypedStorage) -> Tensor:
        raise AssertionError("the counting pass has no backward pass")

    counter = FlopCounterMode(display=False)
    with (
        torch.random.fork_rng(devices=[]),
        torch.autograd.graph.saved_tensors_hooks(count, never),
        torch.enable_grad(),
        counter,
    ):
        run_forward(model, make_differentiable(inputs)[0])
    sizes = [storage.nbytes() for storage in kept.values()]
    return float(counter.get_total_flops()), sum(sizes), max(sizes, default=0)


def _fixed_bytes(model: nn.Module, optimizer: str | None, probes: str) -> int:
    """What does not grow with the batch, beside the gradients: the step on a copy, the copy itself."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    single = sum(p.nbytes for p in model.parameters())
    step = 0
    if optimizer is not None:
        step = trained * _DOUBLE * (_STEP_COPIES + _STATE_COPIES.get(optimizer.lower(), 2))
    full = 4 * single if probes == "full" else 0
    return max(step, full)


def _costs(
    model: nn.Module,
    blocks: Blocks,
    samples: int,
    *,
    one_pass: float,
    graph: int,
    optimizer: str | None,
    probes: str,
    trained: int,
    fixed: int,
) -> Iterator[ProbeCost]:
    outputs = sum(_spectra(_with_samples(block, samples)) for block in blocks)
    widest = max((math.prod(_with_samples(block, samples)) for block in blocks), default=0)
    weights = [layer.weight.shape for block in blocks for layer in layers_of(model, block)]
    of_weights = sum(map(_spectra, weights))
    yield ProbeCost("finding the blocks", 1, one_pass, 4 * widest)
    yield ProbeCost("one pass forward and back", 3, 3 * one_pass, graph + trained)
    yield ProbeCost("spectra of representations and gradients", 0, 1.5 * outputs, graph + trained)
    side = min(LARGEST_SIDE, max((min(s) for s in weights), default=1))
    yield ProbeCost("spectra of weights", 0, of_weights, trained + 3 * _DOUBLE * side**2)
    if optimizer is not None:
        yield ProbeCost(
            "the optimizer's step and its ranks", 1, one_pass + of_weights, fixed + trained
        )
    if probes == "full":
        droppable = sum(block.droppable for block in blocks)
        yield ProbeCost("deletion of blocks", 1 + droppable, (1 + droppable) * one_pass, graph)
        yield ProbeCost(
            "look-ahead and forecast", 3 * 40, 3 * 40 * one_pass, fixed + graph + trained
        )
        yield ProbeCost("curvature", 6 * 30, 6 * 30 * one_pass, fixed + 3 * graph)


def _with_samples(block: Block, samples: int) -> tuple[int, ...]:
    return (samples, *block.out_shape[1:])


def _spectra(shape: tuple[int, ...]) -> float:
    """Operations of the Gram matrix and its eigenvalues in every mode that is decomposed.

    A matrix and its transpose have one spectrum.
    """
    total = math.prod(shape)
    sides = [min(size, total // size) for size in shape if size][: 1 if len(shape) == 2 else None]
    return sum(
        _IN_DOUBLE * 2.0 * side * total + _EIGENVALUES * side**3
        for side in sides
        if side <= LARGEST_SIDE
    )


def _blocks_that_fit(costs: tuple[ProbeCost, ...], number: int, step: float) -> int:
    """How many blocks may be measured before spectra bring the cost above the limit."""
    spectra = sum(c.operations for c in costs if "spectra" in c.name or "ranks" in c.name)
    rest = sum(c.operations for c in costs) - spectra
    room = _MOST_STEPS * step - min(rest, 3 * step)
    if spectra <= room or not spectra:
        return number
    return max(_PAIR, int(number * room / spectra))


def _rate() -> float:
    """Operations a second of a product of matrices on this machine, the best of a few."""
    a = torch.ones(512, 512, device="cpu")
    best = math.inf
    for _ in range(5):
        began = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - began)
    return 2 * 512**3 / best
