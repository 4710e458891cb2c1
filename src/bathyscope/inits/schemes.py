"""The schemes by name."""

from typing import Protocol, runtime_checkable

import torch
from torch import nn

from bathyscope.core.arguments import check_kind, check_name
from bathyscope.core.errors import UnknownName
from bathyscope.inits.delta_orthogonal import delta_orthogonal_
from bathyscope.inits.dirac import dirac_
from bathyscope.inits.he import he_
from bathyscope.inits.orthogonal import orthogonal_
from bathyscope.inits.small import small_
from bathyscope.inits.transformer import transformer_
from bathyscope.inits.xavier import xavier_
from bathyscope.inits.zero_branch import zero_branch_


@runtime_checkable
class Scheme(Protocol):
    """Fills a model in place and returns it."""

    def __call__(  # noqa: D102
        self, model: nn.Module, /, *, generator: torch.Generator | None = None
    ) -> nn.Module: ...


SCHEMES: dict[str, Scheme] = {
    "xavier": xavier_,
    "he": he_,
    "orthogonal": orthogonal_,
    "small": small_,
    "dirac": dirac_,
    "delta_orthogonal": delta_orthogonal_,
    "zero_branch": zero_branch_,
    "transformer": transformer_,
}


def apply_(name: str, model: nn.Module, *, generator: torch.Generator | None = None) -> nn.Module:
    """Fill a model by the scheme of that name, in place.

    Args:
        name: one of `SCHEMES`.
        model: changed in place.
        generator: source of the random numbers; torch's global one if left out.

    Returns:
        The same model.

    Raises:
        UnknownName: there is no such scheme.

    Examples:
        >>> apply_("dirac", nn.Linear(2, 2, bias=False)).weight.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    check_kind("model", model, nn.Module)
    if generator is not None:
        check_kind("generator", generator, torch.Generator)
    if check_name("The name of the scheme", name) not in SCHEMES:
        hint = f"Schemes: {', '.join(SCHEMES)}."
        raise UnknownName("initialization scheme", name, SCHEMES, hint=hint)
    return SCHEMES[name](model, generator=generator)
