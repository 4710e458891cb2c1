"""The optimizer of a configuration."""

from collections.abc import Iterable

from torch import nn, optim

from bathyscope.training.config import TrainingConfig


def optimizer_of(config: TrainingConfig, parameters: Iterable[nn.Parameter]) -> optim.Optimizer:
    """The optimizer that the configuration names, over the parameters that are trained.

    Examples:
        >>> layer = nn.Linear(2, 2)
        >>> optimizer_of(TrainingConfig(lr=0.3), layer.parameters()).param_groups[0]["lr"]
        0.3
    """
    trained = [p for p in parameters if p.requires_grad]
    # One kernel for all parameters, on a CPU too: for small networks the step costs a quarter.
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in trained)
    if config.optimizer == "sgd":
        return optim.SGD(
            trained,
            lr=config.lr,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            nesterov=config.nesterov,
            fused=fused,
        )
    result: optim.Optimizer = {"adam": optim.Adam, "adamw": optim.AdamW}[config.optimizer](
        trained,
        lr=config.lr,
        betas=(config.momentum, 0.999),
        weight_decay=config.weight_decay,
        fused=fused,
    )
    return result
