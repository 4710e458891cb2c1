"""The optimizer of a configuration."""

from collections.abc import Iterable

from torch import nn, optim

from bathyscope.training.config import TrainingConfig


def optimizer_of(config: TrainingConfig, parameters: Iterable[nn.Parameter]) -> optim.Optimizer:
    """The optimizer that the configuration names, over the parameters that are trained.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> optimizer_of(TrainingConfig(lr=0.3), layer.parameters()).param_groups[0]["lr"]
        0.3
    """
    trained = [p for p in parameters if p.requires_grad]
    if config.optimizer == "sgd":
        return optim.SGD(
            trained,
            lr=config.lr,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            nesterov=config.nesterov,
        )
    kind = {"adam": optim.Adam, "adamw": optim.AdamW}[config.optimizer]
    return kind(
        trained, lr=config.lr, betas=(config.momentum, 0.999), weight_decay=config.weight_decay
    )
