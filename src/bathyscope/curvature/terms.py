"""The curvature of one batch's loss, as something that multiplies vectors.

A term holds a graph. It is kept and used many times, or made again for every product.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from bathyscope.core.batch import Batch, loss_value
from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.core.fetch import fetch
from bathyscope.curvature.objective import Objective

# Fewer vectors than this are multiplied one by one: the check of a block is a product of its own.
_SMALLEST_TOGETHER = 8
# In units of √ε: rounding lies far below, a wrong rule of torch far above.
_TOGETHER_TOLERANCE = 4.0

Vectors = Sequence[Tensor]
"""One tensor for each parameter, with b vectors stacked along its first dimension."""


@runtime_checkable
class Term(Protocol):
    """The curvature matrix of one batch, restricted to some parameters."""

    @property
    def roots(self) -> Sequence[Tensor]:
        """The tensors from which all of its graph can be reached."""
        ...

    def times(self, vectors: Vectors, *, together: bool = False) -> list[Tensor]:
        """The matrix times b vectors, in the same layout: one by one, or several `together`."""
        ...

    def restrict(self, positions: Sequence[int]) -> "Term":
        """The diagonal block of some of the parameters, on the same graph."""
        ...


class HessianTerm:
    """H v = ∂(gᵀv)/∂θ with g the gradient, kept with its graph (Pearlmutter's product).

    Parameters that the loss does not reach, or reaches linearly, give zeros.
    """

    def __init__(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
        self.parameters = parameters
        self.gradients = gradients
        self.value: Tensor | None = None
        # a gradient without a graph is constant: its row is zero
        self.curved = [i for i, g in enumerate(gradients) if g is not None and g.requires_grad]

    @classmethod
    def of(cls, objective: Objective, batch: Batch, parameters: Sequence[Tensor]) -> "HessianTerm":
        """The term of a batch."""
        value = objective.value(batch)
        # a seed that requires a gradient makes torch mark operations that have no second
        # derivative; with a constant seed it would leave their curvature out without a word
        seed = torch.ones_like(value, requires_grad=True)
        with _explained():
            gradients = torch.autograd.grad(
                value, parameters, seed, create_graph=True, allow_unused=True
            )
        term = cls(parameters, gradients)
        term.value = value
        return term

    @property
    def roots(self) -> list[Tensor]:
        """The gradients that have a graph."""
        return [g for i in self.curved if (g := self.gradients[i]) is not None]

    def times(self, vectors: Vectors, *, together: bool = False) -> list[Tensor]:
        """H times b vectors."""
        # what is multiplied by zero need not be gone through: so it is with columns of one parameter
        is_some = fetch([vectors[i].any() for i in self.curved])
        used = [i for i, (some,) in zip(self.curved, is_some, strict=True) if some]
        if not used:
            return [torch.zeros_like(v) for v in vectors]
        roots = [g for i in used if (g := self.gradients[i]) is not None]
        chosen = [vectors[i] for i in used]
        return _fill(_pull_back(roots, self.parameters, chosen, together), vectors)

    def restrict(self, positions: Sequence[int]) -> "HessianTerm":
        """The diagonal block of some parameters."""
        return HessianTerm(
            [self.parameters[i] for i in positions], [self.gradients[i] for i in positions]
        )


class GaussNewtonTerm:
    """G v = Jᵀ ∇²ℓ J v with J the Jacobian of the output and ℓ the loss as a function of it.

    J v is had from Jᵀ by differentiating uᵀJ, which is linear in u, so all three factors are
    products on kept graphs.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        output: Tensor,
        cotangent: Tensor,
        pulled: Sequence[Tensor | None],
        leaf: Tensor,
        slope: Tensor,
    ) -> None:
        self.parameters, self.output, self.cotangent = parameters, output, cotangent
        self.pulled, self.leaf, self.slope = pulled, leaf, slope
        self.reached = [i for i, p in enumerate(pulled) if p is not None]

    @classmethod
    def of(
        cls, objective: Objective, batch: Batch, parameters: Sequence[Tensor]
    ) -> "GaussNewtonTerm":
        """The term of a batch.

        Raises:
            UsageError: the model's output is not one tensor.
        """
        output = objective.output(batch)
        if not isinstance(output, Tensor):
            raise UsageError(
                f"Gauss-Newton needs a model whose output is one tensor, but it is a "
                f"{type(output).__name__}; wrap the model or use the Hessian."
            )
        objective.value(batch)  # the checks of the loss itself
        cotangent = torch.zeros_like(output, requires_grad=True)
        leaf = output.detach().requires_grad_()
        with _explained():
            pulled = torch.autograd.grad(
                output, parameters, cotangent, create_graph=True, allow_unused=True
            )
            value = loss_value(objective.loss, leaf, batch[1])
            (slope,) = torch.autograd.grad(value, leaf, create_graph=True)
        return cls(parameters, output, cotangent, pulled, leaf, slope)

    @property
    def roots(self) -> list[Tensor]:
        """The pulled-back cotangents and the loss's slope."""
        return [*(p for p in self.pulled if p is not None), self.slope]

    def times(self, vectors: Vectors, *, together: bool = False) -> list[Tensor]:
        """G times b vectors."""
        if not self.reached or not self.slope.requires_grad:
            return [torch.zeros_like(v) for v in vectors]
        pulled = [p for i in self.reached if (p := self.pulled[i]) is not None]
        like = [_zeros_like(self.leaf, vectors)]
        at = [vectors[i] for i in self.reached]
        pushed = _pull_back(pulled, [self.cotangent], at, together)
        bent = _pull_back([self.slope], [self.leaf], _fill(pushed, like), together)
        back = _pull_back([self.output], self.parameters, _fill(bent, like), together)
        return _fill(back, vectors)

    def restrict(self, positions: Sequence[int]) -> "GaussNewtonTerm":
        """The diagonal block of some parameters."""
        return GaussNewtonTerm(
            [self.parameters[i] for i in positions],
            self.output,
            self.cotangent,
            [self.pulled[i] for i in positions],
            self.leaf,
            self.slope,
        )


def _zeros_like(leaf: Tensor, vectors: Vectors) -> Tensor:
    return leaf.new_zeros(1).expand(len(vectors[0]), *leaf.shape)


def _fill(result: Sequence[Tensor | None], like: Vectors) -> list[Tensor]:
    return [
        torch.zeros_like(v) if f is None else f.detach() for f, v in zip(result, like, strict=True)
    ]


def _pull_back(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Vectors, together: bool
) -> Sequence[Tensor | None]:
    """∂(outputs·cotangents)/∂inputs for b stacked cotangents, with the graph kept."""
    num = len(cotangents[0])
    with _explained():
        if together and num >= _SMALLEST_TOGETHER:
            result = _pull_back_together(outputs, inputs, cotangents)
            if result is not None:
                return result
        each = [_pull_back_one(outputs, inputs, [c[i] for c in cotangents]) for i in range(num)]
    if num == 1:  # a stack would be a copy
        return [None if part is None else part[None] for part in each[0]]
    return [
        None if parts[0] is None else torch.stack([p for p in parts if p is not None])
        for parts in zip(*each, strict=True)
    ]


def _pull_back_one(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangent: Vectors
) -> Sequence[Tensor | None]:
    return torch.autograd.grad(outputs, inputs, cotangent, retain_graph=True, allow_unused=True)


def _pull_back_together(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Vectors
) -> Sequence[Tensor | None] | None:
    """All cotangents in one go, or None where torch cannot, or does it wrongly.

    torch's rules for a whole block of vectors are missing for some operations and wrong for others
    (GroupNorm). The map is linear, so the sum of the block's answers with random signs must be the
    answer to the sum of its cotangents with the same signs (Freivalds' check): one more product.
    """
    try:
        result = torch.autograd.grad(
            outputs,
            inputs,
            list(cotangents),
            retain_graph=True,
            allow_unused=True,
            is_grads_batched=True,
        )
    except (RuntimeError, IndexError):
        return None
    num = len(cotangents[0])
    draw = torch.randint(0, 2, (num,), generator=torch.Generator().manual_seed(num), device="cpu")

    def mix(block: Tensor) -> Tensor:
        signs = (2 * draw - 1).to(block.device, block.dtype)
        return (signs @ block.reshape(num, -1)).reshape(block.shape[1:])

    alone = _pull_back_one(outputs, inputs, [mix(c) for c in cotangents])
    for block, answer in zip(result, alone, strict=True):
        if (block is None) != (answer is None):
            return None
        if block is None or answer is None:
            continue
        if block.shape[1:] != answer.shape:
            return None
        allowed = _TOGETHER_TOLERANCE * torch.finfo(block.dtype).eps ** 0.5
        size = torch.linalg.vector_norm(block)
        if not bool(torch.linalg.vector_norm(mix(block) - answer) <= allowed * size):
            return None
    return result


class _explained:  # noqa: N801 - reads as a command phrase: with _explained()
    """Turn torch's errors about second derivatives into one sentence."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, RuntimeError) or isinstance(error, BathyscopeError):
            return
        text = str(error).splitlines()[0] if str(error) else ""
        signs = (
            "not implemented",
            "twice",
            "once_differentiable",
            "checkpoint",
            "inplace operation",
        )
        if any(sign in text for sign in signs):
            raise UsageError(
                f"A part of this loss has no second derivative: {text.rstrip('.')}. Replace that "
                "operation by one that torch can differentiate twice."
            ) from error
