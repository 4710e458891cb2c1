"""Networks on images: convolutional, patches with attention, patches with mixing, and a U-Net."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.real_trainings.networks.attention import TransformerBlock
from tools.real_trainings.networks.parts import ACTIVATIONS, IMAGE_NORMS


class ConvBlock(nn.Module):
    """A 3×3 convolution, norm and activation, with or without a shortcut around them."""

    def __init__(self, width: int, norm: str, activation: str, is_residual: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = IMAGE_NORMS[norm](width)
        self.activation = ACTIVATIONS[activation]()
        self.is_residual = is_residual

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, of the same shape as its input."""
        branch = self.activation(self.norm(self.conv(x)))
        return x + branch if self.is_residual else branch


class ConvNet(nn.Module):
    """A strided stem, blocks with a halving of the resolution after the first, mean pool, a head."""

    def __init__(
        self,
        channels: int,
        num_outputs: int,
        *,
        width: int,
        depth: int,
        norm: str,
        activation: str,
        residual: bool,
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, width, 4, stride=2, padding=1)
        blocks: list[nn.Module] = []
        for index in range(depth):
            if index == 1:
                blocks.append(nn.AvgPool2d(2))
            blocks.append(ConvBlock(width, norm, activation, residual))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(width, num_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """One row of outputs per image."""
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class ImageToImage(nn.Module):
    """Convolutions at the full resolution from image to image, without pooling."""

    def __init__(
        self,
        channels: int,
        num_outputs: int,
        *,
        width: int,
        depth: int,
        norm: str,
        activation: str,
        residual: bool,
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, width, 3, padding=1)
        self.blocks = nn.Sequential(
            *(ConvBlock(width, norm, activation, residual) for _ in range(depth))
        )
        self.head = nn.Conv2d(width, num_outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """An image of `num_outputs` channels."""
        return self.head(self.blocks(self.stem(x)))


class UNet(nn.Module):
    """Two halvings and two doublings of the resolution; skip connections by concatenation."""

    def __init__(
        self,
        channels: int,
        num_outputs: int,
        *,
        width: int,
        depth: int,
        norm: str,
        activation: str,
        residual: bool,
    ) -> None:
        super().__init__()

        def stage(inputs: int, outputs: int) -> nn.Sequential:
            blocks = (ConvBlock(outputs, norm, activation, residual) for _ in range(depth))
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), *blocks)

        self.down = nn.ModuleList([stage(channels, width), stage(width, width)])
        self.middle = stage(width, 2 * width)
        self.up = nn.ModuleList([stage(3 * width, width), stage(2 * width, width)])
        self.head = nn.Conv2d(width, num_outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """An image of `num_outputs` channels."""
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x)
        for up, skip in zip(self.up, reversed(skips), strict=True):
            x = up(torch.cat([F.interpolate(x, scale_factor=2), skip], dim=1))
        return self.head(x)


class VisionTransformer(nn.Module):
    """Patches as tokens, learned positions, transformer blocks, mean pool, a head."""

    def __init__(
        self,
        channels: int,
        num_outputs: int,
        *,
        side: int,
        patch: int,
        width: int,
        depth: int,
        heads: int,
        norm: str,
        activation: str,
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, width, patch, stride=patch)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2, width))
        self.blocks = nn.Sequential(
            *(TransformerBlock(width, heads, norm, activation) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.head = nn.Linear(width, num_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """One row of outputs per image."""
        tokens = self.stem(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(tokens)).mean(1))


class MixerBlock(nn.Module):
    """Mixing over tokens, then over channels, each after a LayerNorm and with a shortcut."""

    def __init__(self, num_tokens: int, width: int, norm: str, activation: str) -> None:
        super().__init__()
        has_norm = norm != "none"
        self.norms = nn.ModuleList(
            [nn.LayerNorm(width) if has_norm else nn.Identity() for _ in range(2)]
        )
        make = ACTIVATIONS[activation]
        self.tokens = nn.Sequential(
            nn.Linear(num_tokens, width), make(), nn.Linear(width, num_tokens)
        )
        self.channels = nn.Sequential(
            nn.Linear(width, 2 * width), make(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, of the same shape as its input."""
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


class Mixer(nn.Module):
    """Patches as tokens, mixer blocks, mean pool, a head."""

    def __init__(
        self,
        channels: int,
        num_outputs: int,
        *,
        side: int,
        patch: int,
        width: int,
        depth: int,
        norm: str,
        activation: str,
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, width, patch, stride=patch)
        num_tokens = (side // patch) ** 2
        self.blocks = nn.Sequential(
            *(MixerBlock(num_tokens, width, norm, activation) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width) if norm != "none" else nn.Identity()
        self.head = nn.Linear(width, num_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """One row of outputs per image."""
        tokens = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(tokens)).mean(1))
