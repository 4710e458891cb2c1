"""Convex losses of an output and a target, with the derivatives that Newton's method needs.

A loss is averaged over the samples by their weights; everything here is one value, or one row, a
sample. Outputs are `(n, c)` in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot, softplus

from bathyscope.core.batch import LossFn, loss_value
from bathyscope.core.errors import UnknownName, UsageError, in_a_line, shorten

LossName = Literal["squared", "cross_entropy", "logistic"]
Rows = Float[Tensor, " n c"]
Weights = Float[Tensor, " n"]


@runtime_checkable
class ConvexLoss(Protocol):
    """ℓ(ŷ, y), differentiable and convex in ŷ (assumption 2), and its first two derivatives."""

    @property
    def name(self) -> str:
        """How the loss is called in a certificate."""
        ...

    @property
    def is_shift_invariant(self) -> bool:
        """Whether a number added to all outputs of a sample changes nothing, as for softmax."""
        ...

    def mean(self, outputs: Rows, weights: Weights) -> float:
        """Σ_n w_n ℓ(ŷ_n, y_n) for weights that sum to one."""
        ...

    def gradients(self, outputs: Rows) -> Rows:
        """∂ℓ/∂ŷ."""
        ...

    def curvature(self, outputs: Rows) -> Callable[[Rows], Rows]:
        """The map t ↦ (∂²ℓ/∂ŷ²) t, row by row."""
        ...

    def curvature_diagonal(self, outputs: Rows) -> Rows:
        """The diagonal of ∂²ℓ/∂ŷ²."""
        ...


@dataclass(frozen=True)
class Squared:
    """ℓ = ‖ŷ − y‖² / c, so that its mean is that of `torch.nn.functional.mse_loss`."""

    targets: Rows
    name: str = "squared"
    is_shift_invariant: bool = False

    def mean(self, outputs: Rows, weights: Weights) -> float:
        """Σ_n w_n ‖ŷ_n − y_n‖² / c."""
        return float(weights @ (outputs - self.targets).square().mean(dim=1))

    def gradients(self, outputs: Rows) -> Rows:
        """2 (ŷ − y) / c."""
        return 2 * (outputs - self.targets) / outputs.shape[1]

    def curvature(self, outputs: Rows) -> Callable[[Rows], Rows]:
        """t ↦ 2 t / c."""
        return lambda t: 2 * t / outputs.shape[1]

    def curvature_diagonal(self, outputs: Rows) -> Rows:
        """2 / c."""
        return torch.full_like(outputs, 2 / outputs.shape[1])


@dataclass(frozen=True)
class CrossEntropy:
    """ℓ = −log softmax(ŷ)_y for class labels y."""

    targets: Int[Tensor, " n"]
    name: str = "cross_entropy"
    is_shift_invariant: bool = True

    def mean(self, outputs: Rows, weights: Weights) -> float:
        """−Σ_n w_n log softmax(ŷ_n)_{y_n}."""
        return float(weights @ cross_entropy(outputs, self.targets, reduction="none"))

    def gradients(self, outputs: Rows) -> Rows:
        """p − e_y, with p = softmax(ŷ)."""
        return outputs.softmax(dim=1) - one_hot(self.targets, outputs.shape[1])

    def curvature(self, outputs: Rows) -> Callable[[Rows], Rows]:
        """t ↦ (diag p − p pᵀ) t."""
        p = outputs.softmax(dim=1)
        return lambda t: p * (t - (p * t).sum(dim=1, keepdim=True))

    def curvature_diagonal(self, outputs: Rows) -> Rows:
        """p (1 − p)."""
        p = outputs.softmax(dim=1)
        return p * (1 - p)


@dataclass(frozen=True)
class Logistic:
    """ℓ = Σ_j log(1 + exp(−(2y_j − 1) ŷ_j)) for labels y_j of 0 or 1, each output on its own."""

    targets: Rows
    name: str = "logistic"
    is_shift_invariant: bool = False

    def mean(self, outputs: Rows, weights: Weights) -> float:
        """Σ_n w_n Σ_j log(1 + exp(−(2y_j − 1) ŷ_j))."""
        return float(weights @ softplus((1 - 2 * self.targets) * outputs).sum(dim=1))

    def gradients(self, outputs: Rows) -> Rows:
        """p − y, with p = 1 / (1 + exp(−ŷ)), without cancellation where p is close to 1."""
        sign = 1 - 2 * self.targets
        return sign * torch.sigmoid(sign * outputs)

    def curvature(self, outputs: Rows) -> Callable[[Rows], Rows]:
        """t ↦ p (1 − p) t."""
        diagonal = self.curvature_diagonal(outputs)
        return lambda t: diagonal * t

    def curvature_diagonal(self, outputs: Rows) -> Rows:
        """p (1 − p)."""
        return torch.sigmoid(outputs) * torch.sigmoid(-outputs)


@dataclass(frozen=True)
class Differentiable:
    """A mean loss of the user's own, differentiated by autograd.

    Args:
        function: a mean over the samples of a loss of outputs and targets, twice differentiable.
        targets: what the function takes beside the outputs.
    """

    function: LossFn
    targets: Tensor
    is_shift_invariant: bool = False

    @property
    def name(self) -> str:
        """The function's own name."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def mean(self, outputs: Rows, weights: Weights) -> float:
        """The function's value; its samples count equally.

        Raises:
            UsageError: the weights are not equal.
        """
        if float(weights.max() - weights.min()) > 1e-12 / len(weights):
            raise UsageError(
                f"Sample weights need a loss known by name; {self.name} is a function."
            )
        return float(self._value(outputs)[0].detach())

    def _value(self, outputs: Rows) -> tuple[Tensor, Rows]:
        """The value with its graph, and the outputs that it can be differentiated by."""
        with torch.enable_grad():
            z = outputs.detach().requires_grad_()
            return loss_value(self.function, z, self.targets), z

    def gradients(self, outputs: Rows) -> Rows:
        """∂ℓ/∂ŷ."""
        (gradient,) = torch.autograd.grad(*self._value(outputs))
        return gradient * len(outputs)

    def curvature(self, outputs: Rows) -> Callable[[Rows], Rows]:
        """t ↦ (∂²ℓ/∂ŷ²) t by a second backward pass."""

        def product(t: Rows) -> Rows:
            value, z = self._value(outputs)
            with torch.enable_grad():
                (gradient,) = torch.autograd.grad(value, z, create_graph=True)
                if not gradient.requires_grad:  # linear in the outputs
                    return torch.zeros_like(t)
                (second,) = torch.autograd.grad(gradient, z, t)
            return second * len(outputs)

        return product

    def curvature_diagonal(self, outputs: Rows) -> Rows:
        """The diagonal, one product for each output."""
        product = self.curvature(outputs)
        columns = []
        for j in range(outputs.shape[1]):
            unit = torch.zeros_like(outputs)
            unit[:, j] = 1
            columns.append(product(unit)[:, j])
        return torch.stack(columns, dim=1)


def convex_loss(loss: str | LossFn | None, targets: Tensor, *, num_outputs: int) -> ConvexLoss:
    """The loss by its name, by its torch function, or by the kind of the targets.

    Args:
        loss: a name; `mse_loss`, `cross_entropy` or `binary_cross_entropy_with_logits` of torch,
            which are known by identity; any other function of outputs and targets, a mean over the
            samples; None takes cross-entropy for whole-number labels and squared loss otherwise.
        targets: labels `(n,)`, or values `(n,)` or `(n, c)`.
        num_outputs: c.

    Raises:
        UsageError: the targets do not fit the loss or the outputs, or a function is not such a loss.
    """
    functions: dict[object, LossName] = {
        torch.nn.functional.mse_loss: "squared",
        torch.nn.functional.cross_entropy: "cross_entropy",
        torch.nn.functional.binary_cross_entropy_with_logits: "logistic",
    }
    if loss is None:
        loss = "squared" if targets.is_floating_point() else "cross_entropy"
    if callable(loss):
        if loss not in functions:
            return _check_function(loss, targets, num_outputs)
        loss = functions[loss]
    if not isinstance(loss, str):
        raise UnknownName("loss", shorten(loss), ("squared", "cross_entropy", "logistic"))
    if loss == "cross_entropy":
        return CrossEntropy(_check_labels(targets, num_outputs))
    if loss not in ("squared", "logistic"):
        raise UnknownName("loss", str(loss), ("squared", "cross_entropy", "logistic"))
    rows = targets.double().reshape(len(targets), -1)
    if rows.shape[1] != num_outputs:
        raise UsageError(
            f"The targets have {rows.shape[1]} values per sample, but the network has {num_outputs} "
            f"outputs; for the {loss} loss they must agree."
        )
    if loss == "logistic" and not bool(((rows == 0) | (rows == 1)).all()):
        raise UsageError("The logistic loss takes targets of 0 and 1; others were given.")
    return Squared(rows) if loss == "squared" else Logistic(rows)


def _check_function(function: LossFn, targets: Tensor, num_outputs: int) -> Differentiable:
    """The function with its targets, tried once on outputs of zero.

    Raises:
        UsageError: it takes other arguments, gives no scalar, or cannot be differentiated twice.
    """
    result = Differentiable(function, targets.double() if targets.is_floating_point() else targets)
    zeros = torch.zeros(len(targets), num_outputs, dtype=torch.float64)
    try:
        result.curvature(zeros)(torch.ones_like(zeros))
    except RuntimeError as error:
        raise UsageError(
            f"The loss {result.name} cannot be differentiated twice, which the best predictors need: "
            f"{in_a_line(error)}."
        ) from error
    return result


def _check_labels(targets: Tensor, num_outputs: int) -> Tensor:
    if targets.ndim != 1 or targets.is_floating_point():
        raise UsageError(
            f"Cross-entropy takes one whole-number label per sample, but the targets have shape "
            f"{tuple(targets.shape)} and dtype {targets.dtype}; use loss='squared' for values."
        )
    labels = targets.long()
    if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= num_outputs):
        raise UsageError(
            f"Labels run from {int(labels.min())} to {int(labels.max())}, but there are "
            f"{num_outputs} outputs; labels must lie in 0 to {num_outputs - 1}."
        )
    return labels
