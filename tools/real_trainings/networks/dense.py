"""Fully connected networks: plain or residual, and autoencoders made of two of them."""

from typing import Any

from torch import Tensor, nn

from tools.real_trainings.networks.parts import ACTIVATIONS, VECTOR_NORMS


class DenseBlock(nn.Module):
    """Norm, linear layer and activation, with or without a shortcut around them."""

    def __init__(self, width: int, norm: str, activation: str, is_residual: bool) -> None:
        super().__init__()
        self.norm = VECTOR_NORMS[norm](width)
        self.linear = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]()
        self.is_residual = is_residual

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, of the same width as its input."""
        branch = self.activation(self.linear(self.norm(x)))
        return x + branch if self.is_residual else branch


class DenseNet(nn.Module):
    """An input layer, `depth` equal blocks and an output layer; inputs are flattened."""

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        *,
        width: int,
        depth: int,
        norm: str,
        activation: str,
        residual: bool,
    ) -> None:
        super().__init__()
        self.stem = nn.Linear(num_inputs, width)
        self.first = ACTIVATIONS[activation]()
        self.blocks = nn.Sequential(
            *(DenseBlock(width, norm, activation, residual) for _ in range(depth))
        )
        self.head = nn.Linear(width, num_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """One row of outputs per sample."""
        return self.head(self.blocks(self.first(self.stem(x.flatten(1)))))


class Autoencoder(nn.Module):
    """An encoder to `bottleneck` numbers and a decoder back to the input's size."""

    def __init__(self, num_inputs: int, *, bottleneck: int, **choices: Any) -> None:
        super().__init__()
        self.encoder = DenseNet(num_inputs, bottleneck, **choices)
        self.decoder = DenseNet(bottleneck, num_inputs, **choices)

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction, flat."""
        return self.decoder(self.encoder(x))


class VariationalAutoencoder(nn.Module):
    """As `Autoencoder`, with a mean and a log-variance per number of the bottleneck."""

    def __init__(self, num_inputs: int, *, bottleneck: int, **choices: Any) -> None:
        super().__init__()
        self.encoder = DenseNet(num_inputs, 2 * bottleneck, **choices)
        self.decoder = DenseNet(bottleneck, num_inputs, **choices)

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the pixels, and mean and log-variance of the code."""
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        code = mean + (0.5 * log_variance).exp() * noise
        return self.decoder(code), mean, log_variance
