"""Stems and heads of convolutional networks."""

from torch import nn


def activated_stem(in_channels: int, width: int) -> nn.Sequential:
    """3×3 convolution, batch normalization, ReLU."""
    return nn.Sequential(bare_stem(in_channels, width), nn.BatchNorm2d(width), nn.ReLU())


def bare_stem(in_channels: int, width: int) -> nn.Conv2d:
    """3×3 convolution alone."""
    return nn.Conv2d(in_channels, width, 3, padding=1, bias=False)


def imagenet_stem(in_channels: int, width: int) -> nn.Sequential:
    """7×7 convolution and 3×3 max pooling, each of stride 2: the image shrinks to a quarter."""
    return nn.Sequential(
        nn.Conv2d(in_channels, width, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    )


def pooled_head(width: int, num_classes: int) -> nn.Sequential:
    """Average over the image, then a linear classifier."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, num_classes))


def activated_head(width: int, num_classes: int) -> nn.Sequential:
    """Batch normalization and ReLU, which pre-activation blocks leave open, then the pooled head."""
    return nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), *pooled_head(width, num_classes))
