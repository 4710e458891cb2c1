"""Optimizers by name, as `torch.optim` has them; fused or foreach, which is faster here."""

from collections.abc import Callable, Iterable

from torch import nn, optim

from tools.real_trainings.case import Setting

Make = Callable[[Iterable[nn.Parameter], float, float], optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p, rate, decay: optim.SGD(p, lr=rate, weight_decay=decay, fused=True),
    "momentum": lambda p, rate, decay: optim.SGD(
        p, lr=rate, momentum=0.9, weight_decay=decay, fused=True
    ),
    "adam": lambda p, rate, decay: optim.Adam(p, lr=rate, weight_decay=decay, fused=True),
    "adamw": lambda p, rate, decay: optim.AdamW(p, lr=rate, weight_decay=decay, fused=True),
    "rmsprop": lambda p, rate, decay: optim.RMSprop(p, lr=rate, weight_decay=decay, foreach=True),
}


def make_optimizer(parameters: Iterable[nn.Parameter], setting: Setting) -> optim.Optimizer:
    """The optimizer of a setting, at its largest learning rate."""
    return OPTIMIZERS[setting.optimizer](parameters, setting.learning_rate, setting.weight_decay)
