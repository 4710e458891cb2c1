"""Networks without their normalisation."""

from torch import nn


def without_normalisation_(model: nn.Module) -> nn.Module:
    """Replace every batch normalisation by the identity, in place.

    Examples:
        >>> without_normalisation_(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()))[0]
        Identity()
    """
    for name, child in model.named_children():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            setattr(model, name, nn.Identity())
        else:
            without_normalisation_(child)
    return model
