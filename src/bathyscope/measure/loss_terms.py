"""The terms that a loss adds up, and how strongly each pulls at the parameters that they share."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node

from bathyscope.core.batch import Batch, LossFn, loss_value, run_forward
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.nested import copy_tensors, first_samples, tensors_in
from bathyscope.core.preserve import preserve_model
from bathyscope.measure.graph import operation

_SAMPLES = 16
_MOST_TERMS = 4


@dataclass(frozen=True, slots=True)
class LossTerms:
    """How a loss is put together.

    Attributes:
        number: of the terms that are added up.
        fits: for each term, whether it is made from the first tensor of the output.
        norms: for each term, the norm of its gradient over the parameters that all terms reach.
        not_checked: what was left out, and why.
    """

    number: int
    fits: tuple[bool, ...] = ()
    norms: tuple[float, ...] = ()
    not_checked: tuple[str, ...] = ()

    @property
    def outweighs(self) -> float | None:
        """Gradient of the terms that do not see the first output over that of those that do."""
        fit = [n for n, fits in zip(self.norms, self.fits, strict=True) if fits]
        rest = [n for n, fits in zip(self.norms, self.fits, strict=True) if not fits]
        return max(rest) / max(fit) if fit and rest and max(fit) > 0 else None


def term_edges(value: Tensor) -> list[tuple[GradientEdge, float]]:
    """The scalars that a loss is the sum of, as edges of the graph, each with its sign or factor.

    Examples:
        >>> w = torch.ones(3, requires_grad=True)
        >>> len(term_edges(w.sum() + 0.1 * w.square().sum() - w.prod()))
        3
    """
    return list(_terms(value.grad_fn, value.output_nr, 1.0))


def _terms(node: Node | None, number: int, factor: float) -> Iterator[tuple[GradientEdge, float]]:
    if node is None:
        return
    name = operation(node)
    following = [n for n, _ in node.next_functions]
    if name in ("View", "Alias", "Squeeze") and following[0] is not None:
        yield from _terms(following[0], node.next_functions[0][1], factor)
        return
    if name in ("Add", "Sub") and len(following) == 2 and all(following):
        alpha = float(getattr(node, "_saved_alpha", 1.0)) * (-1.0 if name == "Sub" else 1.0)
        for (after, location), own in zip(node.next_functions, (1.0, alpha), strict=True):
            yield from _terms(after, location, factor * own)
        return
    yield GradientEdge(node, number), factor


def loss_terms(model: nn.Module, batch: Batch, *, loss: LossFn) -> LossTerms:
    """Gradient norms of the terms of a loss over the parameters that they share, on few samples.

    Args:
        model: any module, left as it was and run in the mode in which it is.
        batch: inputs and targets.
        loss: a scalar from output and targets.

    Examples:
        >>> class Coder(nn.Sequential):
        ...     def forward(self, x):
        ...         code = self[0](x)
        ...         return self[1](code), code
        >>> loss = lambda y, x: (y[0] - x).square().mean() + 1000 * y[1].square().sum()
        >>> x = torch.randn(8, 6)
        >>> loss_terms(Coder(nn.Linear(6, 2), nn.Linear(2, 6)), (x, x), loss=loss).outweighs > 1000
        True
    """
    model = unwrap(model)
    few = first_samples((batch[0], batch[1]), _SAMPLES)
    with preserve_model(model, copy_parameters=False), torch.enable_grad():
        try:
            output = run_forward(model, copy_tensors(few[0]))
            value = loss_value(loss, output, few[1])
        except BathyscopeError as error:
            return LossTerms(0, not_checked=(f"loss terms: {error}",))
        return _norms(model, output, value)


def _norms(model: nn.Module, output: object, value: Tensor) -> LossTerms:
    terms = term_edges(value)
    if not 2 <= len(terms) <= _MOST_TERMS:
        return LossTerms(len(terms))
    main = next(
        (t for t in tensors_in(output) if t.is_floating_point() and t.ndim and t.grad_fn), None
    )
    if main is None:
        return LossTerms(len(terms))
    parameters = [p for p in model.parameters() if p.requires_grad]
    fits, gradients = [], []
    for edge, factor in terms:
        seed = torch.full((), factor, dtype=value.dtype, device=value.device)
        try:
            result = torch.autograd.grad(
                [edge], [main, *parameters], [seed], retain_graph=True, allow_unused=True
            )
        except RuntimeError as error:  # a term that is not a scalar, or a node that cannot be asked
            return LossTerms(len(terms), not_checked=(f"loss terms: {error}",))
        fits.append(result[0] is not None)
        gradients.append(result[1:])
    shared = [i for i in range(len(parameters)) if all(g[i] is not None for g in gradients)]
    norms = [
        float(sum(float(g[i].double().square().sum()) for i in shared) ** 0.5) for g in gradients
    ]
    return LossTerms(len(terms), tuple(fits), tuple(norms))
