"""One forward pass of a few samples in eval mode, kept with its graph so that outputs can be traced back."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from bathyscope.core.batch import run_forward
from bathyscope.core.errors import BathyscopeError, in_a_line
from bathyscope.core.nested import map_tensors, predictions, tensors_in
from bathyscope.core.walks import named_modules
from bathyscope.measure.dependence.components import watch_norms
from bathyscope.measure.dependence.function_capture import Embedded, FunctionCapture, Queries
from bathyscope.measure.dependence.input_roles import (
    InputKind,
    NamedInput,
    kind_of_values,
    named_inputs,
)

_DECODER = re.compile(r"decoder|tgt|target|labels", re.IGNORECASE)
FEW_SAMPLES = 3
"""Samples of a pass: two that are asked and one that should not be read; 5 where another axis has 3."""


class NotMeasurable(BathyscopeError):
    """A pass of this model cannot be traced back; the message says why."""


class SquareOutput(NotMeasurable):
    """As many outputs as samples: classes, or a matrix of pairs of samples."""


@dataclass(frozen=True, slots=True, eq=False)
class InputInGraph:
    """A tensor of the graph that stands for an input: the input itself, or its embeddings.

    Attributes:
        name: of the input.
        tensor: in the graph.
        kind: tokens, sequence, image or table.
        sample_axis: of the tensor.
        position_axes: of the tensor with the samples moved to axis 0.
        columns: the input's positions to which those of the tensor belong; all of them where it is None.
        positions: how many the input has.
    """

    name: str
    tensor: Tensor
    kind: InputKind
    sample_axis: int
    position_axes: tuple[int, ...]
    columns: tuple[int, ...] | None
    positions: int
    is_flat: bool = False

    def strengths(self, gradient: Tensor | None) -> Tensor:
        """‖∂/∂x_p‖ for every sample and position p: the norm over channels or features.

        Returns:
            (samples, positions), zero where the graph has no path; positions of an image are its pixels.
        """
        result = torch.zeros_like(self.tensor) if gradient is None else gradient
        if self.is_flat:
            result = result.reshape(-1, self.positions, result.shape[-1])
        rows = result.detach().movedim(self.sample_axis, 0).double()
        rest = [a for a in range(1, rows.ndim) if a not in self.position_axes]
        moved = rows.permute(0, *self.position_axes, *rest)
        grid = math.prod(moved.shape[1 : 1 + len(self.position_axes)])
        strength: Tensor = torch.linalg.vector_norm(moved.reshape(len(rows), grid, -1), dim=-1)
        if self.columns is not None:  # a model that reads a part of the sequence
            whole: Tensor = strength.new_zeros(len(strength), self.positions)
            whole[:, list(self.columns)] = strength
            return whole
        return strength


@dataclass(frozen=True, slots=True, eq=False)
class EvalPass:
    """A pass in eval mode: the inputs, what stands for them in the graph, and the output with its graph.

    Attributes:
        inputs: as given to the model.
        named: the same, by role.
        sources: what can be differentiated; empty where nothing can.
        output: the predictions.
        samples: how many.
        input_axis: the samples' axis of the inputs.
        output_axis: that of the output.
        leaves: tensors of the graph that stand for inputs, and are not parameters.
        dropout: largest probability of a dropout that is on in eval mode.
        result: all that the model gave.
        capture: what the functions of the pass have shown.
    """

    inputs: object
    named: tuple[NamedInput, ...]
    sources: tuple[InputInGraph, ...]
    output: Tensor
    samples: int
    input_axis: int
    output_axis: int
    queries: Queries | None
    norm_inputs: tuple[Tensor, ...]
    leaves: tuple[Tensor, ...]
    dropout: float = 0.0
    result: object = None
    capture: FunctionCapture | None = None

    @property
    def main(self) -> InputInGraph | None:
        """The first of the sources."""
        return self.sources[0] if self.sources else None

    @property
    def decoder(self) -> int | None:
        """The source, by its number, whose positions are those of the output beside a first that is read."""
        names = [source.name for source in self.sources]
        fits = [i for i, name in enumerate(names) if i and _DECODER.search(name)]
        if not fits and len(names) == 2 and self.by_sample.ndim > 2:
            lengths = [source.positions for source in self.sources]
            fits = [1] if self.by_sample.shape[1] == lengths[1] != lengths[0] else []
        return fits[0] if fits and self.sources[fits[0]].kind == "tokens" else None

    @property
    def by_sample(self) -> Tensor:
        """The output with the samples on axis 0."""
        return self.output.movedim(self.output_axis, 0)

    def gradients(self, seed: Tensor) -> list[Tensor | None]:
        """∂⟨seed, output⟩/∂source, for every source; the seed has the samples on axis 0.

        Raises:
            NotMeasurable: an operation has no derivative, or forbids this way of asking for it.
        """
        at_output = seed.movedim(0, self.output_axis).to(self.output.dtype)
        sources = [source.tensor for source in self.sources]
        try:
            with torch.enable_grad():
                # to check the shape of a gradient that is given torch imports sympy
                scalar = (self.output * at_output).sum()
            return list(torch.autograd.grad(scalar, sources, retain_graph=True, allow_unused=True))
        except RuntimeError as error:
            raise NotMeasurable(f"no gradient from output to input: {in_a_line(error)}") from error


def few_of(
    inputs: object, *, axis: int = 0, most: int = FEW_SAMPLES, first: Sequence[int] = ()
) -> tuple[object, list[int]]:
    """A few samples of every tensor that has as many entries on that axis as the first one.

    Their number is one that no other axis of the first tensor has, so that the output's axis of the
    samples can be known by its length.

    Args:
        inputs: of a batch.
        axis: the samples' axis.
        most: samples to take, or a few more.
        first: the samples to begin with; the others follow in order.

    Returns:
        The inputs of these samples, and which they are.
    """
    chosen, whole = _chosen(inputs, axis, most, first)
    return select_samples(inputs, chosen, axis=axis, whole=whole), chosen


def _chosen(inputs: object, axis: int, most: int, first: Sequence[int]) -> tuple[list[int], int]:
    main = next((t for t in tensors_in(inputs) if t.ndim > axis), None)
    if main is None:
        return [], 0
    whole = main.shape[axis]
    others = {*main.shape[:axis], *main.shape[axis + 1 :]}
    wanted = [n for n in (most, most + 2, most + 1, most + 4) if n not in others]
    fits = [n for n in wanted if n <= whole]
    count = fits[0] if fits else min(whole, most)
    return list(dict.fromkeys([*first, *range(whole)]))[:count], whole


def select_samples(
    inputs: object, chosen: Sequence[int], *, axis: int = 0, whole: int | None = None
) -> object:
    """These samples, in this order, of every tensor that has all of them on that axis."""
    first = next((t for t in tensors_in(inputs) if t.ndim > axis), None)
    number = whole if whole is not None else (first.shape[axis] if first is not None else 0)

    def pick(tensor: Tensor) -> Tensor:
        if (
            tensor.layout is not torch.strided
            or tensor.ndim <= axis
            or tensor.shape[axis] != number
        ):
            return tensor
        return tensor.index_select(axis, torch.tensor(list(chosen), device=tensor.device))

    return map_tensors(inputs, pick)


@contextmanager
def without_fused_recurrence(model: nn.Module) -> Iterator[None]:
    """cuDNN's recurrent layers have no backward pass in eval mode: run torch's own inside."""
    recurrent = any(isinstance(m, nn.RNNBase) for m in named_modules(model).values())
    with torch.backends.cudnn.flags(enabled=not recurrent and torch.backends.cudnn.enabled):
        yield


def eval_pass(model: nn.Module, inputs: object, *, axis: int = 0) -> EvalPass:
    """Run the model once in eval mode with a graph from what stands for its inputs to its output.

    The caller protects the model (`preserve_model`) and chooses the samples (`few_of`).

    Args:
        model: its mode is set to eval.
        inputs: of few samples.
        axis: the samples' axis of the inputs.

    Raises:
        NotMeasurable: the model fails in eval mode or on so few samples, or its output holds no tensor of
            predictions for them.
    """
    model.eval()
    known = named_inputs(inputs)
    tokens = [one for one in known if one.role == "tokens"]
    given = [one for one in known if one.role == "labels" and one.tensor.ndim == 2]
    leaves: dict[int, Tensor] = {}
    number = -1

    def prepare(tensor: Tensor) -> Tensor:
        nonlocal number
        number += 1
        role = known[number].role if number < len(known) else "other"
        if role != "values" or not tensor.is_floating_point():
            return tensor.clone()
        leaves[number] = tensor.detach().requires_grad_()
        return leaves[number].clone()  # the model may overwrite its input in place

    capture = FunctionCapture(model, tokens, given)
    norms = watch_norms(model, capture.components)
    with torch.enable_grad(), without_fused_recurrence(model), norms, capture:
        prepared = map_tensors(inputs, prepare)
        try:
            result = run_forward(model, prepared)
        except BathyscopeError as error:
            raise NotMeasurable(f"{error} (in eval mode, on few samples)") from error
    output = predictions(result)
    if output is None:
        raise NotMeasurable(
            f"the output ({type(result).__name__}) holds no floating tensor of predictions"
        )
    first = next(t for t in tensors_in(inputs) if t.ndim > axis)
    samples = first.shape[axis]
    output = _unflattened(output, first, axis)
    output_axis = _output_axis(output, samples, axis)
    of_values = [_value_source(model, known[n], leaf, axis) for n, leaf in leaves.items()]
    of_tokens = [_token_source(one, known, axis) for one in _main_tables(capture.embedded)]
    outcome = EvalPass(
        inputs=inputs,
        named=known,
        sources=tuple(
            [*of_tokens, *of_values]
            if tokens and known[0].role == "tokens"
            else [*of_values, *of_tokens]
        ),
        output=output,
        samples=samples,
        input_axis=axis,
        output_axis=output_axis,
        queries=capture.queries,
        norm_inputs=tuple(capture.norm_inputs),
        leaves=(*leaves.values(), *capture.leaves),
        dropout=capture.dropout,
        result=result,
        capture=capture,
    )
    return outcome if output.requires_grad else replace(outcome, sources=())


def few_in_eval_pass(
    model: nn.Module, inputs: object, *, axis: int = 0, first: Sequence[int] = ()
) -> tuple[EvalPass, list[int]]:
    """As `eval_pass`, of a few samples of a batch, and which they are.

    A model that takes one size of batch only is run on the whole of it. Where there are as many outputs as
    samples, another number of samples shows classes from pairs of samples.

    Raises:
        NotMeasurable: as `eval_pass`.
    """
    whole = next((t.shape[axis] for t in tensors_in(inputs) if t.ndim > axis), 0)
    few, chosen = few_of(inputs, axis=axis, first=first)
    try:
        return eval_pass(model, few, axis=axis), chosen
    except SquareOutput:
        other = len(chosen) + 2 if whole >= len(chosen) + 2 else len(chosen) - 1
        if other < 2:
            raise
        few, chosen = few_of(inputs, axis=axis, first=first, most=other)
        return eval_pass(model, few, axis=axis), chosen
    except NotMeasurable as error:
        if "cannot take" not in str(error) or len(chosen) == whole:
            raise
        return eval_pass(model, inputs, axis=axis), list(range(whole))


def _main_tables(embedded: Sequence[Embedded]) -> list[Embedded]:
    """The first look-up of each input: a second table (of the same tokens) would count them twice."""
    return list({one.name: one for one in reversed(embedded)}.values())[::-1]


def _unflattened(output: Tensor, first: Tensor, axis: int) -> Tensor:
    """(samples × positions, …) as (samples, positions, …), where the model has flattened them."""
    if axis != 0 or first.ndim < 2 or first.shape[0] == output.shape[0]:
        return output
    whole = first.shape[0] * first.shape[1]
    return output.unflatten(0, tuple(first.shape[:2])) if output.shape[0] == whole else output


def _output_axis(output: Tensor, samples: int, axis: int) -> int:
    fits = [a for a, n in enumerate(output.shape) if n == samples]
    if not fits:
        raise NotMeasurable(
            f"the output of shape {tuple(output.shape)} has no axis of the {samples} samples"
        )
    if len(output.shape) == 2 and len(fits) == 2 and samples > 1:
        raise SquareOutput(
            f"the output of shape {tuple(output.shape)} may compare every sample with every other"
        )
    return axis if axis in fits else fits[0]


def _value_source(model: nn.Module, known: NamedInput, leaf: Tensor, axis: int) -> InputInGraph:
    moved = known.tensor.movedim(axis, 0)
    kind, positions = kind_of_values(model, moved)
    size = math.prod(moved.shape[position] for position in positions)
    return InputInGraph(known.name, leaf, kind, axis, positions, None, size)


def _token_source(one: Embedded, known: Sequence[NamedInput], axis: int) -> InputInGraph:
    name = one.name.removesuffix(", shifted")
    tokens = next(k.tensor for k in known if k.name == name)
    positions = tokens.shape[1 - axis] if tokens.ndim == 2 else 1
    sample_axis = 1 - axis if one.arrangement == "transposed" else axis
    if tokens.ndim != 2:
        return InputInGraph(one.name, one.tensor, "tokens", 0, (), None, 1)
    return InputInGraph(
        one.name, one.tensor, "tokens", sample_axis if one.arrangement != "flat" else 0, (1,),
        one.columns, positions, is_flat=one.arrangement == "flat" and axis == 0,
    )  # fmt: skip
