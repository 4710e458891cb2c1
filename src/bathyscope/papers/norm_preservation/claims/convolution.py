"""Theorem 3, equations 5 to 7 and the factor for ReLU: a convolution as a map of gradients."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most, equal
from bathyscope.core.records import Assumption
from bathyscope.linalg import conv_singular_values, convolution_of, polar_factor
from bathyscope.linalg.padded_operator import PaddedOperator
from bathyscope.remedies.gradient_energy import GradientEnergy

_CASES = ((2, 3, 3, 6), (3, 2, 3, 5), (2, 2, 2, 4))  # channels in and out, kernel, image
_EXACT = 1e-10
# Of a given network: this many kernels, and images so small that a matrix has no more entries.
_MOST_KERNELS, _MOST_ENTRIES = 4, 2**20


def measure_theorem_3(seed: int, *, model: nn.Module | None = None) -> Measured:
    """Fourier values against the explicit matrix of drawn kernels, or of those of a given network.

    The theorem speaks of any image: the network's kernels are tested on the smallest even one that
    holds them. One tap has the same matrix at every frequency, and is left out.
    """
    if model is not None:
        return _theorem_3_of(model)
    generator = torch.Generator().manual_seed(seed)
    cases = [(normal(generator, d, c, k, k), n, 1) for c, d, k, n in _CASES]
    return Measured(numbers=_errors(cases), settings={"cases (c, d, k, n)": _CASES})


def _theorem_3_of(model: nn.Module) -> Measured:
    cases: list[tuple[Tensor, int, int]] = []
    names, wide = [], []
    for name, layer in model.named_modules():
        if not isinstance(layer, nn.Conv2d) or max(layer.kernel_size) == 1:
            continue
        n = 2 * math.ceil(max(max(layer.kernel_size), 4) / 2)
        weight = layer.weight.detach().double()
        if layer.in_channels * layer.out_channels * n**4 > _MOST_ENTRIES * layer.groups:
            wide.append(name)
        elif len(cases) < _MOST_KERNELS:
            cases.append((weight, n, layer.groups))
            names.append(name)
    form = Assumption(
        statement="the network has 2-D convolutions of several taps whose matrix can be written "
        f"down ({len(names)} are tested, {len(wide)} are too wide)",
        holds=bool(cases),
        value=len(cases),
    )
    if not cases:
        return Measured(numbers={}, assumptions=(form,))
    return Measured(
        numbers=_errors(cases), assumptions=(form,), settings={"layers": names, "too_wide": wide}
    )


def _errors(cases: list[tuple[Tensor, int, int]]) -> dict[str, dict[str, float]]:
    """The largest error, relative to the largest value, for each padding and stride."""
    errors = {"circular": 0.0, "zero padding": 0.0, "stride 2": 0.0}
    for weight, n, groups in cases:
        fourier = conv_singular_values(weight, n, padding="circular", groups=groups).values
        layers = {
            "circular": convolution_of(weight, padding="circular", groups=groups),
            "zero padding": convolution_of(weight, padding="zeros", groups=groups),
            "stride 2": convolution_of(weight, padding="circular", stride=2, groups=groups),
        }
        for name, conv in layers.items():
            if name == "stride 2" and n % 2:
                continue
            true = torch.linalg.svdvals(PaddedOperator(conv, (n, n)).dense())
            true = torch.cat([true, true.new_zeros(len(fourier) - len(true))])
            errors[name] = max(errors[name], float((fourier - true).abs().max() / fourier[0]))
    return {"errors": errors}


def theorem_3(numbers: Numbers) -> list[Relation]:
    """The Fourier values are those of the layer, whatever its padding and stride."""
    return [at_most(f"{name}: error", e, _EXACT) for name, e in numbers["errors"].items()]


def theorem_3_on_torus(numbers: Numbers) -> list[Relation]:
    """They are, on a torus at stride 1; elsewhere they differ visibly."""
    errors = numbers["errors"]
    return [
        at_most("circular: error", errors["circular"], _EXACT),
        at_least("zero padding: error", errors["zero padding"], 1e-3),
        at_least("stride 2: error", errors["stride 2"], 1e-3),
    ]


THEOREM_3 = Claim(
    name="norm_preservation.theorem_3",
    statement="The singular values of a convolution on n × n images are those of the Fourier "
    "transforms of its kernel at all n² frequencies.",
    tested="Against the singular values of the explicit matrix, for circular padding, zero "
    "padding and stride 2, on drawn kernels or on those of a given network.",
    measure=measure_theorem_3,
    law=theorem_3,
    under="circular padding and stride 1",
    law_under=theorem_3_on_torus,
    takes=("model",),
)


def measure_equation_5(seed: int) -> Measured:
    """The gradient at the input of a convolution, three ways."""
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular", bias=False).double()
    x = normal(generator, 1, 2, 5, 5).requires_grad_()
    out = layer(x)
    back = normal(generator, *out.shape)
    (gradient,) = torch.autograd.grad(out, x, back)
    matrix = PaddedOperator(convolution_of(layer), (5, 5)).dense().detach()
    U, sizes, Vh = torch.linalg.svd(matrix.T, full_matrices=False)
    y = back.flatten()
    return Measured(
        numbers={
            "matrix_error": float((gradient.flatten() - matrix.T @ y).abs().max()),
            "svd_error": float((gradient.flatten() - U @ (sizes * (Vh @ y))).abs().max()),
            "svd_error_with_squares": float(
                (gradient.flatten() - U @ (sizes.square() * (Vh @ y))).abs().max()
            ),
        }
    )


def equation_5(numbers: Numbers) -> list[Relation]:
    """Both forms give what automatic differentiation gives."""
    return [
        at_most("Δx = Ŵ Δy: difference", numbers["matrix_error"], _EXACT),
        at_most("Δx = Σ σ u ⟨Δy, v⟩: difference", numbers["svd_error"], _EXACT),
    ]


EQUATION_5 = Claim(
    name="norm_preservation.equation_5",
    statement="The gradient at the input of a convolution is a linear map of that at its "
    "output, Δx = Ŵ Δy, and Δx = Σ σ_j u_j ⟨Δy, v_j⟩ (equation 6).",
    tested="Automatic differentiation against the explicit matrix of the layer and its SVD.",
    definition="an identity of the implementation",
    measure=measure_equation_5,
    law=equation_5,
)


def _pointwise(c: int, d: int, sigma: float, generator: torch.Generator) -> nn.Conv2d:
    """A 1 × 1 convolution all of whose nonzero singular values are σ."""
    layer = nn.Conv2d(c, d, 1, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(sigma * polar_factor(normal(generator, d, c))[..., None, None])
    return layer


def _gain(model: nn.Module, x: Tensor, gradient: Tensor) -> float:
    """√(‖∂E/∂x‖²/‖∂E/∂y‖²) for a loss whose gradient at the output is the one given."""
    x = x.clone().requires_grad_()
    (into,) = torch.autograd.grad((model(x) * gradient).sum(), x)
    return float(into.norm() / gradient.norm())


def anisotropic(generator: torch.Generator, *shape: int) -> Float[Tensor, " n d h w"]:
    """Gradients whose size falls from channel to channel by a factor of 100."""
    scales = torch.logspace(0, -2, shape[1], dtype=torch.float64)
    return normal(generator, *shape) * scales[:, None, None]


def measure_equation_7(seed: int) -> Measured:
    """Gain of a layer with σ from its own gradients, and with the isotropic value."""
    generator = torch.Generator().manual_seed(seed)
    c, d = 4, 12
    layer = _pointwise(c, d, 1.0, generator)
    x, gradient = normal(generator, 16, c, 4, 4), anisotropic(generator, 16, d, 4, 4)
    energy = GradientEnergy(layer, rank_fraction=c / d, rank=c)
    (layer(x) * gradient).sum().backward()
    energy.update()
    energy.remove()
    assert energy.target is not None
    bare = _gain(layer, x, gradient)
    isotropic = math.sqrt(d / min(d, c))
    with torch.no_grad():
        layer.weight.mul_(energy.target)
    return Measured(
        numbers={
            "sigma": energy.target,
            "isotropic_sigma": isotropic,
            "gain_at_one": bare,
            "gain": _gain(layer, x, gradient),
            "gain_with_isotropic_sigma": bare * isotropic,
        },
        settings={"c": c, "d": d},
    )


def equation_7(numbers: Numbers) -> list[Relation]:
    """With σ of equation 7 the gain is one."""
    return [equal("gain of the gradient's mean square, its root", numbers["gain"], 1.0, slack=1e-6)]


EQUATION_7 = Claim(
    name="norm_preservation.equation_7",
    statement="Setting all nonzero singular values to σ² = E‖Δy‖² / (the part outside the null "
    "space) preserves the mean square of the gradient.",
    tested="A layer with equal singular values under anisotropic gradients; σ from "
    "the layer's own gradients, then the ratio measured; beside it the value for isotropic "
    "ones.",
    measure=measure_equation_7,
    law=equation_7,
)


def measure_relu(seed: int) -> Measured:
    """Gains of convolution and ReLU together, with the factor √2 and without, isotropic gradients."""
    generator = torch.Generator().manual_seed(seed)
    rows: list[dict[str, object]] = []
    for c, d in ((16, 16), (16, 48), (48, 16)):
        model = nn.Sequential(_pointwise(c, d, math.sqrt(2 * d / min(d, c)), generator), nn.ReLU())
        x = normal(generator, 64, c, 8, 8)
        gain = _gain(model, x, normal(generator, 64, d, 8, 8))
        rows.append({"c": c, "d": d, "gain": gain, "gain_without_factor": gain / math.sqrt(2)})
    return Measured(numbers={"layers": rows})


def relu(numbers: Numbers) -> list[Relation]:
    """The gain is one up to sampling."""
    return [
        equal(f"gain, {row['c']} → {row['d']}", row["gain"], 1.0, slack=0.04)
        for row in numbers["layers"]
    ]


SECTION_3_RELU = Claim(
    name="norm_preservation.section_3_relu",
    statement="For a convolution followed by ReLU, singular values √(2d/min(d, c)) preserve "
    "the mean square of the gradient.",
    assumptions=("gradients that spread evenly over all directions",),
    tested="Gradient-norm ratios of such layers with isotropic gradients, for several c and d.",
    links=(
        Link(
            to="norm_preservation.figure_2",
            check="projection brings",
            difference="the claim takes gradients that are isotropic; the figure the gradients of a "
            "training network, of which one cell in eight misses",
        ),
    ),
    measure=measure_relu,
    law=relu,
)
