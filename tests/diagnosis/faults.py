"""Faults planted in a healthy network, each at one block. Nothing here knows the rules of diagnosis.

A fault is `(model, block, optimizer) -> None`: it changes parameters, hooks the block, or changes a
parameter group. `FAULTS` maps its name to it, with the code of the finding that should come first.
"""

from itertools import pairwise

import torch
from torch import nn

from bathyscope.core.nested import main_tensor, replace_main_tensor


def _modules(model, block):
    """Modules of the block in registration order; of a run of modules, from first to last."""
    named = list(model.named_modules())
    names = [n for n, _ in named]
    first, last = names.index(block.name), names.index(block.end)
    return [
        m for i, (n, m) in enumerate(named) if first <= i <= last or n.startswith(f"{block.name}.")
    ]


def _layers(model, block):
    """Linear and convolution layers of the block, the shortcut's projection left out."""
    named = {id(m): n for n, m in model.named_modules()}
    return [
        m
        for m in _modules(model, block)
        if isinstance(m, (nn.Linear, nn.Conv2d)) and "shortcut" not in named[id(m)]
    ]


def _on_output(model, block, change):
    def hook(module, args, output):
        return replace_main_tensor(output, change(main_tensor(output)))

    model.get_submodule(block.end).register_forward_hook(hook)


@torch.no_grad()
def nan_weight(model, block, optimizer):
    _layers(model, block)[-1].weight.view(-1)[0] = float("nan")


class _NanGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * float("nan")


def nan_gradient(model, block, optimizer):
    _on_output(model, block, _NanGradient.apply)


@torch.no_grad()
def huge_weights(model, block, optimizer):
    _layers(model, block)[0].weight.mul_(1e5)


@torch.no_grad()
def rank_one_weights(model, block, optimizer):
    weight = _layers(model, block)[0].weight
    flat = weight.flatten(1)
    u, _, v = torch.linalg.svd(flat, full_matrices=False)
    weight.copy_((flat.norm() * torch.outer(u[:, 0], v[0])).view_as(weight))


def dead_units(model, block, optimizer):
    """The unit before the block's first nonlinearity never fires."""
    norms = [m for m in _modules(model, block) if isinstance(m, nn.BatchNorm2d)]
    with torch.no_grad():
        if norms:
            norms[0].bias.fill_(-50.0)
        else:
            layer = _layers(model, block)[-2]
            layer.bias.fill_(-1e4)


@torch.no_grad()
def silent_branch(model, block, optimizer):
    if block.changes_dimension:
        raise LookupError("a transition has no branch beside an identity")
    for module in _modules(model, block):
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            module.weight.mul_(1e-5)
            if module.bias is not None:
                module.bias.zero_()
        if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
            module.weight.mul_(1e-5)
            module.bias.zero_()


def cut_graph(model, block, optimizer):
    _on_output(model, block, lambda y: y.detach())


def gain(model, block, optimizer):
    _on_output(model, block, lambda y: 300.0 * y)


def attenuation(model, block, optimizer):
    _on_output(model, block, lambda y: y / 300.0)


def same_for_all_samples(model, block, optimizer):
    _on_output(model, block, lambda y: y.mean(0, keepdim=True) + 1e-6 * y)


def few_directions(model, block, optimizer):
    """Features (channels) are projected on two directions."""

    def project(y):
        axis = 1 if y.ndim == 4 else -1
        width = y.shape[axis]
        basis = torch.linalg.qr(
            torch.randn(width, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        )[0].to(y.dtype)
        moved = y.movedim(axis, -1)
        return (moved @ basis @ basis.T).movedim(-1, axis)

    _on_output(model, block, project)


def offset(model, block, optimizer):
    _on_output(model, block, lambda y: y + 1e7)


def _own_group(model, block, optimizer, factor):
    own = {id(p) for m in _modules(model, block) for p in m.parameters(recurse=False)}
    group = optimizer.param_groups[0]
    mine = [p for p in group["params"] if id(p) in own]
    group["params"] = [p for p in group["params"] if id(p) not in own]
    optimizer.add_param_group(
        {
            **{k: v for k, v in group.items() if k != "params"},
            "params": mine,
            "lr": group["lr"] * factor,
        }
    )


def large_steps(model, block, optimizer):
    _own_group(model, block, optimizer, 1e5)


def small_steps(model, block, optimizer):
    _own_group(model, block, optimizer, 1e-9)


@torch.no_grad()
def masked_by_norm(model, block, optimizer):
    """A layer before a batch norm is so small that the norm's ε decides its scale."""
    modules = _modules(model, block)
    for layer, norm in pairwise(modules):
        if isinstance(layer, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            layer.weight.mul_(1e-5)
            return
    raise LookupError("no convolution before a batch norm")


FAULTS = {
    "nan_weight": (nan_weight, "non-finite"),
    "nan_gradient": (nan_gradient, "non-finite"),
    "huge_weights": (huge_weights, "exploding-weights"),
    "rank_one_weights": (rank_one_weights, "ill-conditioned-weights"),
    "dead_units": (dead_units, "dead-units"),
    "silent_branch": (silent_branch, "silent-branch"),
    "cut_graph": (cut_graph, "cut-gradient"),
    "gain": (gain, "not-norm-preserving"),
    "attenuation": (attenuation, "not-norm-preserving"),
    "same_for_all_samples": (same_for_all_samples, "collapsed-representation"),
    "few_directions": (few_directions, "singular-representation"),
    "offset": (offset, "precision-loss"),
    "large_steps": (large_steps, "large-update"),
    "small_steps": (small_steps, "small-update"),
    "masked_by_norm": (masked_by_norm, "batchnorm-masks"),
}
