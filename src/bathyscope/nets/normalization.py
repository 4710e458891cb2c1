"""Networks without their normalization."""

from torch import nn


def without_normalization_(model: nn.Module) -> nn.Module:
    """Replace every batch normalization by the identity, in place.

    Examples:
        >>> without_normalization_(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()))[0]
        Identity()
    """
    for name, child in model.named_children():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            setattr(model, name, nn.Identity())
        else:
            without_normalization_(child)
    return model
