"""Weights drawn from a generator on the CPU, the same on any device.

The functions of this file are printed as they stand by `Recipe.code()`: they use `torch`, `nn` and one
another, and nothing else.
"""

import torch
from torch import nn


@torch.no_grad()
def draw_(weight: torch.Tensor, scheme: str, gain: float, generator: torch.Generator) -> None:
    """Fill one weight: normal, orthogonal, or orthogonal at a kernel's middle tap alone."""
    drawn = torch.empty(weight.shape, device=generator.device)
    if scheme == "normal":
        drawn.normal_(std=gain / weight[0].numel() ** 0.5, generator=generator)
    elif scheme == "orthogonal" or weight.ndim == 2:
        nn.init.orthogonal_(drawn, gain, generator=generator)
    else:
        tap = drawn.zero_()
        for size in weight.shape[2:]:
            tap = tap.select(2, size // 2)
        tap.copy_(nn.init.orthogonal_(torch.empty_like(tap), gain, generator=generator))
    weight.copy_(drawn)


@torch.no_grad()
def reinitialize_(
    modules: list[nn.Module], scheme: str, gain: float, generator: torch.Generator
) -> None:
    """Draw linear maps, convolutions, attention and tables; biases are zero, norms are one and zero."""
    maps = (nn.Linear, nn.modules.conv._ConvNd, nn.MultiheadAttention)
    for module in modules:
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            if isinstance(module, maps) and parameter.ndim > 1 and parameter.numel():
                draw_(parameter, scheme, gain, generator)
            elif isinstance(module, maps):
                nn.init.zeros_(parameter)
            elif isinstance(module, nn.Embedding):
                drawn = torch.empty(parameter.shape, device=generator.device)
                parameter.copy_(drawn.normal_(std=0.02, generator=generator))  # as GPT-2's
                if module.padding_idx is not None:
                    parameter[module.padding_idx] = 0
            elif "Norm" in type(module).__name__ and name in ("weight", "bias"):
                nn.init.constant_(parameter, float(name == "weight"))
        if isinstance(module, nn.modules.batchnorm._NormBase):
            module.reset_running_stats()


@torch.no_grad()
def draw_recurrence_(model: nn.Module, forget_bias: float, generator: torch.Generator) -> None:
    """Make the recurrence of every gate orthogonal, and open the forget gate of an LSTM."""
    for module in model.modules():
        if not isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
            continue
        size = module.hidden_size
        for name, parameter in module.named_parameters(recurse=False):
            if name.startswith("weight"):
                scheme = "orthogonal" if name.startswith("weight_hh") else "normal"
                for gate in parameter.split(size):
                    draw_(gate, scheme, 1.0, generator)
            elif name.startswith("bias"):
                parameter.zero_()
                if name.startswith("bias_ih") and isinstance(module, (nn.LSTM, nn.LSTMCell)):
                    parameter[size : 2 * size] = forget_bias
