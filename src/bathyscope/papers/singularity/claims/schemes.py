"""Section VII: Dirac and delta-orthogonal starts in training, and highway networks with open gates."""

import torch
from torch import nn

from bathyscope import nets
from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.inits import delta_orthogonal_
from bathyscope.linalg import conv_singular_values
from bathyscope.nets import DiracConv2d, Gates

_STEPS, _RATE, _CHANNELS = 20, 0.05, 8


def _train(model: nn.Module, generator: torch.Generator) -> None:
    """A few steps of gradient descent on a random regression."""
    x, y = (normal(generator, 16, _CHANNELS, 6, 6) for _ in range(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        (model(x) - y).square().sum(dim=(1, 2, 3)).mean().div(72).backward()
        optimizer.step()


def measure_dirac(seed: int) -> Measured:
    """The kernel of a Dirac layer against diag(a) I + W, and how far a moves in training."""
    generator = torch.Generator().manual_seed(seed)
    layers = [
        DiracConv2d(_CHANNELS, _CHANNELS, 3, normalized=False, padding=1, bias=False).double()
        for _ in range(3)
    ]
    first = layers[0]
    x = normal(generator, 4, _CHANNELS, 6, 6)
    with torch.no_grad():
        first.a.copy_(normal(generator, _CHANNELS))
        by_hand = nn.functional.conv2d(x, first.weight, padding=1)
        skip = first.a[:, None, None] * x
        error = float((first(x) - (skip + by_hand)).abs().max())
        without = float((first(x) - by_hand).abs().max())
        first.a.fill_(1)
    _train(nn.Sequential(*layers), generator)
    moved = max(float((layer.a.detach() - 1).abs().max()) for layer in layers)
    return Measured(
        numbers={"error": error, "error_without_skip": without, "largest_move_of_a": moved},
        settings={"steps": _STEPS, "learning rate": _RATE},
    )


def equation_39(numbers: Numbers) -> list[Relation]:
    """The kernel is as stated, and a leaves one."""
    return [
        at_most("difference of the outputs", numbers["error"], 1e-10),
        at_least("largest |a − 1| after training", numbers["largest_move_of_a"], 1e-3),
    ]


EQUATION_39 = Claim(
    name="singularity.equation_39",
    formula=r"\hat W = \operatorname{diag}(a)\,I + W",
    statement="The Dirac parametrization is W = diag(a) I + W (with equation 40), and a, "
    "being free, leaves "
    "the identity in training.",
    tested="The kernel that a Dirac layer applies, and a after steps of gradient descent.",
    measure=measure_dirac,
    law=equation_39,
)


def measure_delta_orthogonal(seed: int) -> Measured:
    """Spread of the singular values of the layers before and after training, on a torus."""
    generator = torch.Generator().manual_seed(seed)
    convolutions = [
        nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1, padding_mode="circular", bias=False).double()
        for _ in range(3)
    ]
    model = nn.Sequential(*(part for conv in convolutions for part in (conv, nn.Tanh())))
    delta_orthogonal_(model, generator=generator)
    before = _spread(convolutions)
    _train(model, generator)
    return Measured(
        numbers={"spread_before": before, "spread_after": _spread(convolutions)},
        settings={"steps": _STEPS, "learning rate": _RATE},
    )


def _spread(convolutions: list[nn.Conv2d]) -> float:
    """Largest over the layers of σ_max/σ_min − 1."""
    return max(conv_singular_values(conv, 6).condition_number - 1 for conv in convolutions)


def delta_orthogonal(numbers: Numbers) -> list[Relation]:
    """Orthogonal at the start, no longer after training."""
    return [
        at_most("σ_max/σ_min − 1 at the start", numbers["spread_before"], 1e-6),
        at_least("σ_max/σ_min − 1 after training", numbers["spread_after"], 1e-3),
    ]


SECTION_7_DELTA_ORTHOGONAL = Claim(
    name="singularity.section_7_delta_orthogonal",
    statement="Delta-orthogonal starts lose their orthogonality in training, and such "
    "networks without skips generalize poorly.",
    tested="Orthogonality of a layer before and after steps of gradient descent, lost at once. "
    "The second half needs long training on CIFAR-10.",
    undecided=(
        "that such networks generalize poorly, 80 % and 77 % of test images at 32 and 128 layers on "
        "CIFAR-10: these numbers are quoted from other work, whose trainings are not run here",
    ),
    measure=measure_delta_orthogonal,
    law=delta_orthogonal,
)


def measure_highway(seed: int) -> Measured:
    """Outputs of a highway network, before and after opening its gates, and of a residual network."""
    generator = torch.Generator().manual_seed(seed)
    highway = nets.build("highway-8", gates="independent", seed=seed).double().eval()
    residual = nets.build("resnet-8", seed=seed).double().eval()
    missing = residual.load_state_dict(highway.state_dict(), strict=False).missing_keys
    x = normal(generator, 4, 3, 8, 8)
    with torch.no_grad():
        closed = float((highway(x) - residual(x)).abs().max())
        for module in highway.modules():
            if isinstance(module, Gates):
                module.open_()
        opened = float((highway(x) - residual(x)).abs().max())
    return Measured(
        numbers={"difference": opened, "difference_before": closed, "missing": len(missing)}
    )


def highway(numbers: Numbers) -> list[Relation]:
    """With both gates at one there is no difference."""
    return [
        at_most("weights of the residual network without a counterpart", numbers["missing"], 0),
        at_most("difference of the outputs", numbers["difference"], 1e-9),
    ]


SECTION_7_HIGHWAY = Claim(
    name="singularity.section_7_highway",
    statement="A highway network with both gates at one is a residual network.",
    tested="Outputs of both with the same weights.",
    definition="an identity of the implementation",
    measure=measure_highway,
    law=highway,
)
