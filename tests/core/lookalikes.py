"""Hand-written networks in the manner of the libraries people use."""

from collections import OrderedDict
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


class BasicBlock(nn.Module):
    """As torchvision writes it: one in-place ReLU module used twice, an optional `downsample`."""

    def __init__(self, c, d, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(c, d, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(d)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(d, d, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(d)
        self.downsample = None
        if stride != 1 or c != d:
            self.downsample = nn.Sequential(
                nn.Conv2d(c, d, 1, stride, bias=False), nn.BatchNorm2d(d)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)


class TorchvisionLike(nn.Module):
    def __init__(self, blocks_in_layer=2):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.layer1 = nn.Sequential(*[BasicBlock(8, 8) for _ in range(blocks_in_layer)])
        self.layer2 = nn.Sequential(
            BasicBlock(8, 16, 2), *[BasicBlock(16, 16) for _ in range(blocks_in_layer - 1)]
        )
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        x = self.layer2(self.layer1(F.relu(self.conv1(x), inplace=True)))
        return self.fc(x.mean((2, 3)))


class DenseLayer(nn.Module):
    def __init__(self, c, growth):
        super().__init__()
        self.norm = nn.BatchNorm2d(c)
        self.conv = nn.Conv2d(c, growth, 3, padding=1)

    def forward(self, features):
        return self.conv(F.relu(self.norm(torch.cat(features, 1))))


class DenseBlock(nn.ModuleDict):
    def __init__(self, c, growth, layers):
        super().__init__()
        for i in range(layers):
            self.add_module(f"denselayer{i + 1}", DenseLayer(c + i * growth, growth))

    def forward(self, x):
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class Transition(nn.Sequential):
    def __init__(self, c, d):
        super().__init__(
            OrderedDict(norm=nn.BatchNorm2d(c), conv=nn.Conv2d(c, d, 1), pool=nn.AvgPool2d(2))
        )


class DenseNetLike(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict(
                conv0=nn.Conv2d(3, 8, 3, padding=1),
                denseblock1=DenseBlock(8, 4, 3),
                transition1=Transition(20, 10),
                denseblock2=DenseBlock(10, 4, 3),
            )
        )
        self.classifier = nn.Linear(22, 5)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class SelfAttention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(F.scaled_dot_product_attention(q, k, v)), None


class TupleBlock(nn.Module):
    """As Hugging Face writes it: keyword arguments in, a tuple out."""

    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.attention = SelfAttention(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, hidden_states=None, attention_mask=None):
        hidden_states = hidden_states + self.attention(self.norm(hidden_states))[0]
        return (hidden_states + self.mlp(hidden_states), None)


@dataclass
class ModelOutput:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


class HuggingFaceLike(nn.Module):
    def __init__(self, d=8, layers=3):
        super().__init__()
        self.embeddings = nn.Embedding(11, d)
        self.layer = nn.ModuleList([TupleBlock(d) for _ in range(layers)])
        self.head = nn.Linear(d, 4)

    def forward(self, input_ids, attention_mask=None, labels=None):
        x = self.embeddings(input_ids)
        for layer in self.layer:
            x = layer(hidden_states=x, attention_mask=attention_mask)[0]
        logits = self.head(x.mean(1))
        return ModelOutput(logits, None if labels is None else F.cross_entropy(logits, labels))


class StochasticDepth(nn.Module):
    """Blocks are skipped at random in training."""

    def __init__(self, skip_all=True):
        super().__init__()
        self.skip_all = skip_all
        self.blocks = nn.ModuleList([BasicBlock(3, 3) for _ in range(4)])
        self.head = nn.Linear(3, 5)

    def forward(self, x):
        for block in self.blocks:
            if self.training and self.skip_all:
                continue
            x = block(x)
        return self.head(x.mean((2, 3)))


class SharedTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = BasicBlock(3, 3)
        self.other = BasicBlock(3, 3)
        self.head = nn.Linear(3, 5)

    def forward(self, x):
        return self.head(self.block(self.other(self.block(x))).mean((2, 3)))


class HandWritten(nn.Module):
    """Layers called one by one from the model's own forward, with functions between them."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.relu(self.a(x))) + x))


class MixerBlock(nn.Module):
    """Two networks of one kind in a block, the tensor transposed and added to between them."""

    def __init__(self, tokens, d):
        super().__init__()
        self.mlp_tokens, self.mlp_channels = Mlp(tokens), Mlp(d)

    def forward(self, x):
        x = x + self.mlp_tokens(x.transpose(1, 2)).transpose(1, 2)
        return x + self.mlp_channels(x)


class Mlp(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.one, self.two = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


class MixerLike(nn.Module):
    def __init__(self, tokens=5, d=8, blocks=3):
        super().__init__()
        self.blocks = nn.Sequential(*[MixerBlock(tokens, d) for _ in range(blocks)])
        self.head = nn.Linear(d, 4)

    def forward(self, x):
        return self.head(self.blocks(x).mean(1))


class Unit(nn.Module):
    def __init__(self, d, activation):
        super().__init__()
        self.map, self.norm, self.activation = nn.Linear(d, d), nn.LayerNorm(d), activation

    def forward(self, x):
        return self.activation(self.norm(self.map(x)))


class EqualUnits(nn.Module):
    """Equal units one after the other, their input added, and an activation of the sum."""

    def __init__(self, d, ending, units):
        super().__init__()
        # of more than two, units that end in a function could be residual blocks of a stage
        activation = torch.tanh if units == 2 else nn.Tanh()
        self.units = nn.Sequential(*[Unit(d, activation) for _ in range(units)])
        self.ending = ending
        self.activation = nn.ReLU(inplace=ending == "in place")

    def forward(self, x):
        out = self.units(x)
        if self.ending == "in place":
            out += x
            return self.activation(out)
        return self.activation(x + out) if self.ending == "module" else torch.tanh(x + out)


class UnitsLike(nn.Module):
    def __init__(self, ending, blocks=3, d=8, units=2):
        super().__init__()
        self.blocks = nn.Sequential(*[EqualUnits(d, ending, units) for _ in range(blocks)])
        self.head = nn.Linear(d, 4)

    def forward(self, x):
        return self.head(self.blocks(x))


class Stage(nn.Module):
    """Two blocks one after the other."""

    def __init__(self, c):
        super().__init__()
        self.first, self.second = BasicBlock(c, c), BasicBlock(c, c)

    def forward(self, x):
        return self.second(self.first(x))


class PoolingStage(nn.Module):
    """Three layers with their activations, one after the other, and a pooling by a function."""

    def __init__(self, c):
        super().__init__()
        self.layers = nn.Sequential(*[ConvUnit(c) for _ in range(3)])

    def forward(self, x):
        return F.max_pool2d(self.layers(x), 2)


class ConvUnit(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv, self.activation = nn.Conv2d(c, c, 3, padding=1), nn.ReLU()

    def forward(self, x):
        return self.activation(self.conv(x))


class StagesLike(nn.Module):
    def __init__(self, stages=2):
        super().__init__()
        self.stages = nn.Sequential(*[Stage(3) for _ in range(stages)])

    def forward(self, x):
        return self.stages(x).mean((2, 3))


class ListOfSequentials(nn.Module):
    """Layer, norm and activation in one `nn.Sequential`, called one by one beside direct layers."""

    def __init__(self, depth=3, c=4, *, activation=nn.ReLU):
        super().__init__()
        self.stem = nn.Conv2d(1, c, 3, padding=1)
        self.layers = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), activation()
                )
                for _ in range(depth)
            ]
        )
        self.head = nn.Linear(c, 4)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean((2, 3)))
