"""One layer of each kind that an initializer meets."""

from torch import nn

LAYERS = {
    "linear": lambda: nn.Linear(6, 10),
    "linear, fewer outputs": lambda: nn.Linear(10, 6),
    "1×1": lambda: nn.Conv2d(6, 10, 1),
    "3×3": lambda: nn.Conv2d(6, 10, 3),
    "3×3, fewer outputs": lambda: nn.Conv2d(10, 6, 3),
    "grouped": lambda: nn.Conv2d(8, 16, 3, groups=4),
    "depthwise": lambda: nn.Conv2d(8, 8, 3, groups=8),
    "1d": lambda: nn.Conv1d(4, 6, 5),
    "3d": lambda: nn.Conv3d(4, 6, 3),
    "transposed": lambda: nn.ConvTranspose2d(6, 10, 3),
    "transposed, grouped": lambda: nn.ConvTranspose2d(8, 16, 3, groups=2),
}
