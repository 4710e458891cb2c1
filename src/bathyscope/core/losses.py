"""Losses by name, and that of networks that answer at every token."""

import math
from functools import partial
from types import CodeType, FunctionType, ModuleType

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from bathyscope.core.batch import LossFn
from bathyscope.core.errors import UnknownName

IGNORED = -100
"""A label that losses leave out: torch's default `ignore_index`."""


def token_cross_entropy(
    output: Float[Tensor, " *n v"], targets: Int64[Tensor, " *n"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy over all tokens that have a target (others have −100).

    `F.cross_entropy` wants the classes on the second axis; transformers have them on the last. With
    one label per sample both are the same.

    Examples:
        >>> import torch
        >>> value = token_cross_entropy(torch.zeros(2, 3, 4), torch.zeros(2, 3).long())
        >>> round(float(value), 4)  # ln 4
        1.3863
    """
    return F.cross_entropy(output.flatten(0, -2), targets.flatten())


LOSSES: dict[str, LossFn] = {
    "cross-entropy": F.cross_entropy,
    "token-cross-entropy": token_cross_entropy,
    "mse": F.mse_loss,
    "mae": F.l1_loss,
    "huber": F.smooth_l1_loss,
    "bce": F.binary_cross_entropy_with_logits,
    "nll": F.nll_loss,
}


def keeps_no_tensor(loss: object) -> bool:
    """Whether a loss is made of torch's functions and of numbers alone, and so works on any device.

    So are torch's own losses without class weights, and functions of a line or two over `torch.nn.functional`
    that close over nothing. Of any other it is not known what it holds, and on which device.

    Examples:
        >>> import torch
        >>> keeps_no_tensor(F.mse_loss), keeps_no_tensor(nn.CrossEntropyLoss(torch.ones(3)))
        (True, False)
        >>> keeps_no_tensor(lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten()))
        True
    """
    if isinstance(loss, partial):
        given = (*loss.args, *loss.keywords.values())
        return keeps_no_tensor(loss.func) and all(isinstance(v, (int, float, str)) for v in given)
    if isinstance(loss, nn.Module):
        own = type(loss).__module__ == "torch.nn.modules.loss"
        hooks = loss._forward_hooks or loss._forward_pre_hooks
        return own and not hooks and not list(loss.parameters()) and not list(loss.buffers())
    if not isinstance(loss, FunctionType):
        return False
    if loss.__module__ in ("torch.nn.functional", __name__):
        return True
    code = loss.__code__
    if loss.__closure__ or loss.__defaults__ or loss.__kwdefaults__:
        return False
    if any(isinstance(constant, CodeType) for constant in code.co_consts):
        return False
    read = [loss.__globals__[name] for name in code.co_names if name in loss.__globals__]
    return all(isinstance(v, ModuleType) and v.__name__.split(".")[0] == "torch" for v in read)


_NEVER_NEGATIVE = (
    F.cross_entropy,
    token_cross_entropy,
    F.mse_loss,
    F.l1_loss,
    F.smooth_l1_loss,
    F.huber_loss,
    F.binary_cross_entropy,
    F.binary_cross_entropy_with_logits,
    F.hinge_embedding_loss,
    F.multi_margin_loss,
)
_NEVER_NEGATIVE_MODULES = (
    nn.CrossEntropyLoss,
    nn.MSELoss,
    nn.L1Loss,
    nn.SmoothL1Loss,
    nn.HuberLoss,
    nn.BCELoss,
    nn.BCEWithLogitsLoss,
    nn.HingeEmbeddingLoss,
    nn.MultiMarginLoss,
)


def lowest_loss(loss: object, targets: object) -> float:
    """The lowest value that a loss can have: 0 where it is known, else −∞.

    Zero of torch's own distances and cross-entropies, and of any other loss whose targets are whole
    numbers, which mostly is a likelihood of classes. `nll_loss` falls without bound where its input has
    no logarithm. A caller that has seen a negative loss knows better.

    Examples:
        >>> import torch
        >>> lowest_loss(nn.MSELoss(), torch.randn(3)), lowest_loss(F.nll_loss, torch.tensor([0, 1]))
        (0.0, -inf)
    """
    while isinstance(loss, partial):
        loss = loss.func
    if loss is F.nll_loss or isinstance(loss, nn.NLLLoss):
        return -math.inf
    if any(loss is one for one in _NEVER_NEGATIVE) or isinstance(loss, _NEVER_NEGATIVE_MODULES):
        return 0.0
    is_labels = isinstance(targets, Tensor) and not targets.is_floating_point()
    return 0.0 if is_labels else -math.inf


def loss_named(name: str) -> LossFn:
    """A loss by name, with a hyphen or an underscore.

    Raises:
        UnknownName: there is none of that name.

    Examples:
        >>> loss_named("cross_entropy") is F.cross_entropy
        True
    """
    known = name.replace("_", "-")
    if known not in LOSSES:
        own = "For a model that computes its own loss give loss=None."
        other = "Or give a function of output and targets; loss=None for a model's own loss."
        raise UnknownName(
            "loss", name, LOSSES, hint=own if known.lower() in ("none", "own", "model") else other
        )
    return LOSSES[known]
