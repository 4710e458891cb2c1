"""Losses and gradients of many runs of one network, all parameters of a run being one row of θ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from bathyscope.training.layer_program import Instruction, layer_program
from bathyscope.training.stacked_forward import StackedForward, stacked_forward

Losses = Callable[[Tensor, Tensor], Tensor]
"""Outputs and targets of all runs to the loss of each."""

# Bytes of one layer's activations for the runs that go through the network together. With more the
# activations of all layers fall out of the cache, with less the calls cost more than the sums
# (measured with 1,000 samples, width 10, depth 64: 160 kB is 1.6 times faster than 2 MB).
_BYTES_AT_ONCE = 160_000


@runtime_checkable
class StackedGradient(Protocol):
    """From θ (runs × parameters), inputs and targets of all runs to the losses of the runs."""

    def __call__(self, theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Losses, outputs, and ∂loss_r/∂θ_r as rows; the rows are valid until the next call."""
        ...


def stacked_gradient(
    network: nn.Module,
    losses: Losses,
    theta: Tensor,
    *,
    x: Tensor,
    y: Tensor,
) -> StackedGradient:
    """The quickest gradient that is right for this network; that it is right is found out by trying.

    Args:
        network: whose parameters, flattened in their order, are a row of θ.
        losses: of all runs.
        theta: to try with.
        x: inputs of all runs, to try with.
        y: their targets.
    """
    shapes = {name: p.shape for name, p in network.named_parameters()}
    general = _Differentiated(network, losses, shapes, theta, x)
    program = layer_program(network, x[0, :2])
    if program is None or theta.device.type != "cpu":
        return general
    quick = _Tape(program, losses, shapes)
    expected, found = general(theta, x, y), quick(theta, x, y)
    scales = [e.abs().amax() if e.isfinite().all() else e.new_ones(()) for e in expected]
    same = all(
        f.shape == e.shape and torch.allclose(f, e, rtol=1e-4, atol=1e-4 * float(s), equal_nan=True)
        for f, e, s in zip(found, expected, scales, strict=True)
    )
    return quick if same else general


def as_parameters(theta: Tensor, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """The rows as stacked parameters by name: views."""
    parts = theta.split([shape.numel() for shape in shapes.values()], dim=1)
    named = zip(shapes.items(), parts, strict=True)
    return {name: part.view(-1, *shape) for (name, shape), part in named}


class _Differentiated:
    """The backward pass is torch's own, of the sum of all losses, whose gradient in one run's row is
    that of its own loss."""

    def __init__(
        self,
        network: nn.Module,
        losses: Losses,
        shapes: Mapping[str, torch.Size],
        theta: Tensor,
        x: Tensor,
    ) -> None:
        self.losses, self.shapes = losses, shapes
        self.outputs: StackedForward = stacked_forward(network, as_parameters(theta, shapes), x)

    def __call__(self, theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        theta = theta.detach().requires_grad_()
        outputs = self.outputs(as_parameters(theta, self.shapes), x)
        losses = self.losses(outputs, y)
        (gradient,) = torch.autograd.grad(losses.sum(), theta)
        return losses.detach(), outputs.detach(), gradient


class _Tape:
    """Forward and backward pass of a layer program, written out, a few runs at a time.

    Values lie as (runs, features, samples), so that samples are contiguous for the matrix products,
    in memory that every group of runs and every step uses again: fresh memory for each value costs
    more than the products.
    """

    def __init__(
        self, program: list[Instruction], losses: Losses, shapes: Mapping[str, torch.Size]
    ) -> None:
        self.program, self.losses, self.shapes = program, losses, shapes
        self.features = {layer.out: shapes[layer.weight][0] for layer in program}
        self.features[0] = shapes[program[0].weight][1]
        self._rooms: dict[int, _Room] = {}
        self._gradient = torch.empty(0)
        self._bound: tuple[int, torch.Size] = (0, torch.Size())
        self._groups: list[_Group] = []

    def __call__(self, theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            self._bind(theta, x)
            found = [
                self._group_pass(group, x[group.rows], y[group.rows]) for group in self._groups
            ]
        losses, outputs = (torch.cat(parts) for parts in zip(*found, strict=True))
        return losses, outputs, self._gradient

    def _bind(self, theta: Tensor, x: Tensor) -> None:
        """Views of θ and of its gradient; made anew when θ has moved or the batch has another size."""
        state = (theta.data_ptr(), torch.Size([*theta.shape, x.shape[1]]))
        if state == self._bound:
            return
        self._bound = state
        self._gradient = torch.empty_like(theta)
        widest = max(self.features.values()) * x.shape[1] * theta.element_size()
        at_once = max(1, _BYTES_AT_ONCE // widest)
        self._rooms, self._groups = {}, []
        for start in range(0, len(theta), at_once):
            rows = slice(start, min(start + at_once, len(theta)))
            runs = rows.stop - rows.start
            if runs not in self._rooms:
                self._rooms[runs] = _Room.of(theta, runs, x.shape[1], self.features, self.shapes)
            parameters = as_parameters(theta[rows], self.shapes)
            self._groups.append(_Group(rows=rows, parameters=parameters, room=self._rooms[runs]))

    def _group_pass(self, group: "_Group", x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        values, last = group.room.values, self.program[-1].out
        values[0].copy_(x.transpose(1, 2))
        for layer in self.program:
            self._forward(layer, group.parameters, values)
        outputs = values[last].transpose(1, 2).clone()
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            losses = self.losses(leaf, y)
            (slope,) = torch.autograd.grad(losses.sum(), leaf)
        slopes = {last: group.room.take(values[last]).copy_(slope.transpose(1, 2))}
        for layer in reversed(self.program):
            self._backward(layer, group, slopes)
        torch.cat(group.room.flat_gradients, dim=1, out=self._gradient[group.rows])
        return losses.detach(), outputs

    @staticmethod
    def _forward(
        layer: Instruction, parameters: Mapping[str, Tensor], values: Mapping[int, Tensor]
    ) -> None:
        weight, source, out = parameters[layer.weight], values[layer.source], values[layer.out]
        if layer.addend is None:
            torch.bmm(weight, source, out=out)
        else:
            torch.baddbmm(values[layer.addend], weight, source, out=out)
        if layer.bias is not None:
            out.add_(parameters[layer.bias][:, :, None])
        if layer.relu:
            out.relu_()

    @staticmethod
    def _backward(layer: Instruction, group: "_Group", slopes: dict[int, Tensor]) -> None:
        """With g = ∂/∂v_out: ∂W = g v_sourceᵀ, ∂v_source += Wᵀ g, ∂v_addend += g."""
        room = group.room
        g, source = slopes.pop(layer.out), room.values[layer.source]
        if layer.relu:
            out = room.values[layer.out]
            torch.ops.aten.threshold_backward.grad_input(g, out, 0, grad_input=g)
        torch.bmm(g, source.transpose(1, 2), out=room.gradients[layer.weight])
        if layer.bias is not None:
            torch.sum(g, dim=2, out=room.gradients[layer.bias])
        if layer.source:  # nobody asks for the slope of the input
            weight = group.parameters[layer.weight].transpose(1, 2)
            if layer.source in slopes:
                slopes[layer.source].baddbmm_(weight, g)
            else:
                slopes[layer.source] = torch.bmm(weight, g, out=room.take(source))
        if not layer.addend:
            room.give(g)
        elif layer.addend in slopes:
            slopes[layer.addend].add_(g)
            room.give(g)
        else:
            slopes[layer.addend] = g


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """Memory for a pass of so many runs: values, gradients, and slopes that may be overwritten.

    Gradients lie apart, one tensor a parameter: a batched product into rows of one matrix would be
    done run by run.
    """

    values: Mapping[int, Tensor]
    gradients: Mapping[str, Tensor]
    flat_gradients: list[Tensor]
    free: dict[torch.Size, list[Tensor]]

    @classmethod
    def of(
        cls,
        like: Tensor,
        runs: int,
        samples: int,
        features: Mapping[int, int],
        shapes: Mapping[str, torch.Size],
    ) -> "_Room":
        gradients = {name: like.new_zeros(runs, *shape) for name, shape in shapes.items()}
        return cls(
            values={v: like.new_empty(runs, width, samples) for v, width in features.items()},
            gradients=gradients,
            flat_gradients=[g.flatten(1) for g in gradients.values()],
            free={},
        )

    def take(self, like: Tensor) -> Tensor:
        free = self.free.get(like.shape)
        return free.pop() if free else torch.empty_like(like)

    def give(self, slope: Tensor) -> None:
        self.free.setdefault(slope.shape, []).append(slope)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Some rows of θ that go through the network together."""

    rows: slice
    parameters: Mapping[str, Tensor]
    room: _Room
