"""What a user could notice of a model before and after: values, identities, hooks, modes, random numbers."""

import os
import random

import numpy as np
import torch


def state_of(model):
    """Everything a user could notice: values, identities, gradients, flags, hooks, modes, RNG.

    Python's own generator is compared only without type checks, which draw from it.
    """
    parameters = [
        (
            name,
            id(p),
            p.data_ptr(),
            p.detach().clone(),
            p.requires_grad,
            id(p.grad),
            None if p.grad is None else p.grad.clone(),
            dict(p._backward_hooks or {}),
        )
        for name, p in model.named_parameters()
    ]
    buffers = [(name, id(b), b.clone()) for name, b in model.named_buffers()]
    modules = [
        (
            name,
            m.training,
            dict(m._forward_hooks),
            dict(m._forward_pre_hooks),
            dict(m._backward_hooks),
        )
        for name, m in model.named_modules()
    ]
    python = None if "BATHYSCOPE_TYPECHECK" in os.environ else random.getstate()
    rng = (torch.get_rng_state(), np.random.get_state()[1].tolist(), python)
    return parameters, buffers, modules, rng


def assert_same(before, after):
    for old, new in zip(before[0] + before[1], after[0] + after[1], strict=True):
        for a, b in zip(old, new, strict=True):
            if isinstance(a, torch.Tensor):
                assert torch.equal(a, b), old[0]
            else:
                assert a == b, old[0]
    assert before[2] == after[2]
    assert torch.equal(before[3][0], after[3][0])
    assert before[3][1:] == after[3][1:]
