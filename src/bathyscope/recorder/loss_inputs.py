"""What losses are given: probabilities where they take logits, and terms that have no gradient."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bathyscope.core.nested import tensors_in
from bathyscope.recorder.tape import TapeCall, leaves_in

_FEWEST = 16
"""Numbers below which logits may lie between 0 and 1 by chance."""


def misread_input(calls: Sequence[TapeCall]) -> tuple[str, str] | None:
    """The first loss function that is given something other than it takes, and what that is.

    Examples:
        >>> p = torch.randn(8, 3).softmax(1)
        >>> call = TapeCall(torch.nn.functional.cross_entropy, (p, None), {}, None, True)
        >>> misread_input([call])
        ('cross_entropy', 'probabilities')
    """
    makers = {id(call.output): getattr(call.func, "__name__", "") for call in calls}
    for call in calls:
        if call.is_module or not call.with_grad:
            continue
        given = call.args[0] if call.args else call.kwargs.get("input")
        name = getattr(call.func, "__name__", "")
        if isinstance(given, Tensor) and given.is_floating_point() and given.numel() >= _FEWEST:
            what = _misread(name, given.detach(), made_by=makers.get(id(given), ""))
            if what is not None:
                return name, what
    return None


def _misread(name: str, given: Tensor, *, made_by: str) -> str | None:
    if name in ("kl_div", "nll_loss") and bool((given > 1e-3).any()):
        return "probabilities" if _is_distribution(given) else "logits"
    if (
        name == "cross_entropy"
        and given.ndim > 1
        and given.shape[1] > 1
        and _is_distribution(given)
    ):
        return "probabilities"
    # logits of a fresh network may lie between 0 and 1, so that these do not show what they are
    if name == "binary_cross_entropy_with_logits" and made_by in ("sigmoid", "softmax"):
        return "probabilities"
    return None


def _is_distribution(given: Tensor) -> bool:
    """Whether the second axis sums to one, of numbers from 0 to 1."""
    axis = 1 if given.ndim > 1 else 0
    sums = given.float().sum(axis)
    return bool((given >= 0).all()) and bool(
        torch.isclose(sums, torch.ones_like(sums), atol=1e-2).all()
    )


_SUMS = ("add", "sub", "rsub", "__add__", "__radd__", "__sub__", "__rsub__", "add_", "sub_")


def constant_term(calls: Sequence[TapeCall], root: Tensor) -> tuple[float, float] | None:
    """The first summand of a loss that was computed from a model's output and has no gradient, and the loss.

    Args:
        calls: up to the loss, those of models among them.
        root: the loss.

    Examples:
        >>> from bathyscope.recorder.tape import Tape
        >>> layer = torch.nn.Linear(2, 1)
        >>> with Tape() as tape:
        ...     tape.start()
        ...     y = layer(torch.ones(3, 2))
        ...     tape.add(layer, (), {}, y)
        ...     loss = y.mean() + y.square().mean().detach()
        >>> constant_term(tape.calls, loss) is not None
        True
    """
    if not root.requires_grad:
        return None
    follow: set[int] = set()
    for call in calls:
        if call.is_module or any(
            id(leaf) in follow for leaf in leaves_in((call.args, call.kwargs))
        ):
            follow |= {id(t) for t in tensors_in(call.output)}
    wanted = {id(root)}
    for call in reversed(calls):
        name = getattr(call.func, "__name__", "")
        made = [t for t in tensors_in(call.output) if id(t) in wanted]
        if not made or call.is_module:
            continue
        given = [t for t in tensors_in(call.args) if t.numel() == 1]
        if name in _SUMS and len(given) == 2 and made[0].numel() == 1:
            for term, other in (given, given[::-1]):
                is_constant = id(term) in follow and not term.requires_grad
                if is_constant and other.requires_grad and float(term.detach()) != 0:
                    return float(term.detach()), float(root.detach())
        if name in (*_SUMS, "mul", "div", "__mul__", "__rmul__", "__truediv__", "mean", "sum"):
            wanted |= {id(t) for t in given}
    return None
