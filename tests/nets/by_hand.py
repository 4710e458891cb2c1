"""Networks written a second time, plainly, as a reference: one class a kind, nothing shared with ours."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv(a, b, k, s=1, groups=1):
    return nn.Conv2d(a, b, k, s, k // 2, groups=groups, bias=False)


class PostBasic(nn.Module):
    """conv-bn-relu-conv-bn, plus shortcut, relu."""

    def __init__(self, a, b, s, *, skip="A"):
        super().__init__()
        self.c1, self.n1 = conv(a, b, 3, s), nn.BatchNorm2d(b)
        self.c2, self.n2 = conv(b, b, 3), nn.BatchNorm2d(b)
        self.skip, self.a, self.b, self.s = skip, a, b, s
        if skip == "B" and (a != b or s != 1):
            self.p, self.pn = conv(a, b, 1, s), nn.BatchNorm2d(b)

    def forward(self, x: Tensor) -> Tensor:
        y = self.n2(self.c2(F.relu(self.n1(self.c1(x)))))
        if self.skip is None:
            return F.relu(y)
        if self.a == self.b and self.s == 1:
            return F.relu(y + x)
        if self.skip == "B":
            return F.relu(y + self.pn(self.p(x)))
        small = x[:, :, :: self.s, :: self.s]
        zeros = torch.zeros(len(x), self.b - self.a, *small.shape[2:])
        return F.relu(y + torch.cat([small, zeros], 1))


class PostGrouped(nn.Module):
    """1×1, grouped 3×3, 1×1, each with bn, plus shortcut, relu."""

    def __init__(self, a, b, s, *, inner, groups):
        super().__init__()
        self.c1, self.n1 = conv(a, inner, 1), nn.BatchNorm2d(inner)
        self.c2, self.n2 = conv(inner, inner, 3, s, groups), nn.BatchNorm2d(inner)
        self.c3, self.n3 = conv(inner, b, 1), nn.BatchNorm2d(b)
        self.changes = a != b or s != 1
        if self.changes:
            self.p, self.pn = conv(a, b, 1, s), nn.BatchNorm2d(b)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.n1(self.c1(x)))
        y = F.relu(self.n2(self.c2(y)))
        y = self.n3(self.c3(y))
        return F.relu(y + (self.pn(self.p(x)) if self.changes else x))


class PreBottleneck(nn.Module):
    """bn-relu-conv three times, plus shortcut."""

    def __init__(self, a, b, s, *, skip=True, skip_norm=True):
        super().__init__()
        m = b // 4
        self.n1, self.c1 = nn.BatchNorm2d(a), conv(a, m, 1)
        self.n2, self.c2 = nn.BatchNorm2d(m), conv(m, m, 3, s)
        self.n3, self.c3 = nn.BatchNorm2d(m), conv(m, b, 1)
        self.skip, self.projects, self.skip_norm = skip, a != b or s != 1, skip_norm
        if skip and self.projects:
            self.pn = nn.BatchNorm2d(a) if skip_norm else nn.Identity()
            self.p = conv(a, b, 1, s)

    def forward(self, x: Tensor) -> Tensor:
        y = self.c1(F.relu(self.n1(x)))
        y = self.c2(F.relu(self.n2(y)))
        y = self.c3(F.relu(self.n3(y)))
        if not self.skip:
            return y
        if not self.projects:
            return y + x
        return y + self.p(F.relu(self.pn(x)) if self.skip_norm else x)


class WideBlock(nn.Module):
    """bn-relu-conv twice; where the size changes the shortcut starts after the first bn-relu."""

    def __init__(self, a, b, s):
        super().__init__()
        self.n1, self.c1 = nn.BatchNorm2d(a), conv(a, b, 3, s)
        self.n2, self.c2 = nn.BatchNorm2d(b), conv(b, b, 3)
        self.p = conv(a, b, 1, s) if a != b or s != 1 else None

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.n1(x))
        y = self.c2(F.relu(self.n2(self.c1(h))))
        return y + (x if self.p is None else self.p(h))


class ThreeStages(nn.Module):
    """stem (with bn and relu or bare), blocks, (bn and relu,) mean, classifier."""

    def __init__(self, block, n, *, stem, widths, stem_norm, head_norm):
        super().__init__()
        self.c = conv(3, stem, 3)
        self.n = nn.BatchNorm2d(stem) if stem_norm else None
        a, blocks = stem, []
        for stage, b in enumerate(widths):
            for i in range(n):
                blocks.append(block(a, b, 2 if stage and not i else 1))
                a = b
        self.blocks = nn.ModuleList(blocks)
        self.last = nn.BatchNorm2d(a) if head_norm else None
        self.fc = nn.Linear(a, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.c(x)
        x = x if self.n is None else F.relu(self.n(x))
        for block in self.blocks:
            x = block(x)
        x = x if self.last is None else F.relu(self.last(x))
        return self.fc(x.mean((2, 3)))


class ProcByHand(nn.Module):
    """A bare convolution before each stage, identity shortcuts everywhere."""

    def __init__(self, n):
        super().__init__()
        layers, a = [], 3
        for stage, b in enumerate((64, 128, 256)):
            layers.append(conv(a, b, 1, 2) if stage else conv(a, b, 3))
            layers += [PreBottleneck(b, b, 1) for _ in range(n)]
            a = b
        self.layers = nn.ModuleList(layers)
        self.last, self.fc = nn.BatchNorm2d(256), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.fc(F.relu(self.last(x)).mean((2, 3)))


def copy_in_order(source: nn.Module, target: nn.Module) -> None:
    """Load the source's tensors into the target, in the order of their state dicts."""
    tensors = list(source.state_dict().values())
    target.load_state_dict(dict(zip(target.state_dict(), tensors, strict=True)))


def randomize_norms_(model: nn.Module, *, seed: int = 0) -> None:
    """Give normalization layers weights and statistics that are not 1 and 0, so that they matter."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.5, 1.5, generator=generator)
            for tensor in (module.bias.data, module.running_mean):
                tensor.normal_(0, 0.3, generator=generator)
