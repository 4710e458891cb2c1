"""What the claims on nonlinear estimators share: networks, data, local minima and saddles."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from scipy.optimize import minimize
from torch import Tensor, nn

from bathyscope.certificates import Certificate, certify
from bathyscope.claims.draws import normal
from bathyscope.core.batch import LossFn
from bathyscope.core.errors import UsageError
from bathyscope.core.records import Assumption
from bathyscope.nets import ResNEst, resnest

Loss = Literal["squared", "cross_entropy"]
Pair = tuple[Tensor, Tensor]
INPUTS, OUTPUTS, FEATURES = 6, 2, (4, 4, 4, 4)
ENOUGH = INPUTS + sum(FEATURES[:-1])  # Σ_{i<L} K_i, what the bottleneck condition asks of M
ROOMY = ENOUGH + 2  # with just enough, x_{L−1} is close to singular and minima are slow to find
SAMPLES = 60
_CRITICAL = 1e-7  # ε of a critical point is then below 1e-6 of the constant predictor's risk


def problem(
    seed: int, *, loss: Loss = "squared", outputs: int = OUTPUTS, samples: int = SAMPLES
) -> Pair:
    """Inputs with numbers to predict, or with three classes that overlap."""
    generator = torch.Generator().manual_seed(seed)
    x = normal(generator, samples, INPUTS)
    score = (x @ normal(generator, INPUTS, 8)).sin() @ normal(generator, 8, max(outputs, 3))
    score = score + normal(generator, samples, max(outputs, 3))
    return (x, score.argmax(dim=1)) if loss == "cross_entropy" else (x, score[:, :outputs])


def estimator(
    *,
    width: int,
    outputs: int = OUTPUTS,
    inputs: int = INPUTS,
    features: tuple[int, ...] = FEATURES,
) -> ResNEst:
    """A ResNEst in float64 with random weights, without intercept so that K_0 = N_in.

    The functions are steep, so that features are far from linear, and where there is room the
    columns of W_0, …, W_{L−1} are orthonormal: the minima of the prediction weights are then well
    conditioned, and can be found to many digits.
    """
    network = resnest(
        inputs, outputs, width=width, feature_sizes=features, intercept=False, activation=nn.Tanh
    ).double()
    with torch.no_grad():
        enough = inputs + sum(features[:-1])
        columns = torch.randn(width, enough, dtype=torch.float64) / width**0.5
        if width >= enough:
            columns = torch.linalg.qr(columns).Q
        parts = columns.split([inputs, *features[:-1]], dim=1)
        assert isinstance(network.expansion, nn.Linear)
        network.expansion.weight.copy_(parts[0])
        for block, part in zip(network.blocks[:-1], parts[1:], strict=True):
            assert isinstance(block.mix, nn.Linear)
            block.mix.weight.copy_(part)
        for block in network.blocks:
            for parameter in block.function.parameters():
                parameter.normal_(std=0.7)
    return network


def network_and_pair(
    model: nn.Module | None, data: Iterable[object] | None, *, seed: int, width: int
) -> tuple[ResNEst, Pair]:
    """The user's ResNEst and data, or ours.

    Raises:
        UsageError: the network is not a ResNEst on vectors, or comes without data.
    """
    if model is None:
        if data is not None:
            raise UsageError("Data of your own need a network: give a ResNEst as the model.")
        return estimator(width=width), problem(seed)
    if (
        not isinstance(model, ResNEst)
        or not isinstance(model.expansion, nn.Linear)
        or not all(isinstance(block.mix, nn.Linear) for block in model.blocks)
    ):
        raise UsageError(
            f"This claim speaks of ResNEsts on vectors whose W_i are nn.Linear layers "
            f"(bathyscope.nets.resnest), not of this {type(model).__name__}."
        )
    if data is None:
        raise UsageError("A network of your own needs data: a pair (inputs, targets).")
    return deepcopy(model).double(), given_pair(model, data)


def given_pair(model: nn.Module, data: Iterable[object]) -> Pair:
    """The user's inputs and targets in float64, such that a certificate can be made of them.

    Raises:
        UsageError: they do not fit the network, all targets are equal, or the convex problem of the
            bound is not solved on them.
    """
    x, y = (torch.as_tensor(part) for part in data)
    pair = x.double(), y.double() if y.is_floating_point() else y
    result = certify(model, pair, blocks=False, curvature=False)
    if bool((y == y[:1]).all()):
        raise UsageError("All targets are equal, so that a constant predicts them; give others.")
    if not result.bound_applies:
        raise UsageError(f"The bound cannot be had on these data: {result.decided_by}.")
    return pair


def prediction_parameters(network: ResNEst) -> list[Tensor]:
    """W_L and W_{L+1}, the weights that change no feature, and the output's bias where there is one."""
    mix, output = network.blocks[-1].mix, network.output
    assert isinstance(mix, nn.Linear)
    return [mix.weight, output.weight, *([] if output.bias is None else [output.bias])]


def mean_loss(targets: Tensor) -> LossFn:
    """The mean square for numbers, cross-entropy for labels."""
    return F.mse_loss if targets.is_floating_point() else F.cross_entropy


def learn_features_(network: nn.Module, pair: Pair, *, steps: int = 30) -> None:
    """A few quasi-Newton steps in all weights, so that the features are worth having, in place."""
    x, y = pair
    loss = mean_loss(y)
    optimizer = torch.optim.LBFGS(
        network.parameters(), max_iter=steps, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(network(x), y)
        value.backward()
        return value

    optimizer.step(closure)


def minimum_of(risk: Callable[[Tensor], Tensor], start: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
    """A point where the gradient vanishes and no curvature is negative, by trust-region Newton.

    It may end before: whoever says that it is a critical point looks at the gradient first.
    """
    gradient, curvature = torch.func.grad(risk), torch.func.hessian(risk)
    result = minimize(
        lambda v: float(risk(torch.from_numpy(v))),
        start.numpy(),
        jac=lambda v: gradient(torch.from_numpy(v)).numpy(),
        hess=lambda v: curvature(torch.from_numpy(v)).numpy(),
        method="trust-exact",
        options={"gtol": 1e-10, "maxiter": 400},
    )
    # The method ends where the risk can no longer distinguish two points; gradients still can.
    point, slope = torch.from_numpy(result.x), gradient(torch.from_numpy(result.x))
    for _ in range(5):
        step = torch.linalg.lstsq(curvature(point), slope[:, None], driver="gelsd").solution[:, 0]
        lower = gradient(point - step)
        if not lower.norm() < slope.norm():
            break
        point, slope = point - step, lower
    return point


def local_minimum(network: ResNEst, pair: Pair, *, seed: int) -> tuple[ResNEst, Assumption]:
    """A copy whose prediction weights, begun at random, stand at a local minimum (problem P_φ).

    Newton's method works on W̃ = T W_L S⁻¹ and B̃ = W_{L+1} T⁻¹ with T and S that whiten x_{L−1} and v_L:
    ŷ = B̃ (T x_{L−1} + W̃ S v_L) is the same map, T and S have inverses, and so the minima are the same;
    only the valleys are no longer narrow.

    Returns:
        The network, and whether its gradient in (W_L, W_{L+1}) vanishes: no statement about critical
        points can be tested where it does not.
    """
    network = deepcopy(network)
    x, y = pair
    loss = mean_loss(y)
    parameters = prediction_parameters(network)
    shapes = [parameter.shape for parameter in parameters]
    sizes = [shape.numel() for shape in shapes]
    with torch.no_grad():
        last, feature = network.representations(x)[-2], network.features(x)[-1]
    T, S = _whitening(last), _whitening(feature)
    white_last, white_feature = last @ T.T, feature @ S.T

    def risk(flat: Tensor) -> Tensor:
        parts = flat.split(sizes)
        mix, out, *bias = (part.view(shape) for part, shape in zip(parts, shapes, strict=True))
        return loss(F.linear(white_last + white_feature @ mix.T, out, *bias), y)

    generator = torch.Generator().manual_seed(seed)
    start = [shape[-1] ** -0.5 * normal(generator, *shape).flatten() for shape in shapes]
    result = minimum_of(risk, torch.cat(start))
    mix, out, *bias = (
        part.view(shape) for part, shape in zip(result.split(sizes), shapes, strict=True)
    )
    with torch.no_grad():
        for parameter, value in zip(
            parameters, [T.inverse() @ mix @ S, out @ T, *bias], strict=True
        ):
            parameter.copy_(value)
    # The gradient in the whitened weights has the loss's own scale, whatever the features'.
    left = float(torch.func.grad(risk)(result).norm() / risk(torch.zeros_like(result)))
    return network, Assumption(
        statement="a critical point was found (gradient in (W_L, W_{L+1}) over the risk at zero)",
        holds=left <= _CRITICAL,
        value=left,
    )


def _whitening(features: Float[Tensor, " n k"]) -> Float[Tensor, " k k"]:
    """A matrix with an inverse that gives the features unit second moments, where they have any."""
    values, vectors = torch.linalg.eigh(features.T @ features / len(features))
    sizes = values.clamp_min(0).sqrt()
    sizes = torch.where(sizes > 1e-7 * sizes[-1], sizes, sizes[-1])
    result: Tensor = vectors @ (vectors / sizes).T
    return result


def saddle(network: ResNEst, pair: Pair) -> ResNEst:
    """A copy at a critical point with W_{L+1} = 0: W_L makes x_L uncorrelated with the targets.

    With B = 0 the gradient in W_L vanishes, and that in W_{L+1}, −(2/n) Σ y (x_{L−1} + W_L v_L)ᵀ, does
    for W_Lᵀ = −(Σ y v_Lᵀ)⁺ Σ y x_{L−1}ᵀ, if N_o ≤ K_L.
    """
    network = deepcopy(network)
    x, y = pair
    with torch.no_grad():
        last = network.representations(x)[-2]
        feature = network.features(x)[-1]
        mix, output = prediction_parameters(network)[:2]
        mix.copy_(-(torch.linalg.pinv(y.T @ feature) @ (y.T @ last)).T)
        output.zero_()
    return network


def assumptions_of(certificate: Certificate, *numbers: int) -> tuple[Assumption, ...]:
    """The assumptions of the paper by their numbers, as the certificate found them."""
    result = [certificate.assumption(number) for number in numbers]
    assert all(assumption is not None for assumption in result)
    return tuple(assumption for assumption in result if assumption is not None)


def certificate_of(network: nn.Module, pair: Pair, *, blocks: bool = False) -> Certificate:
    """The certificate of a network on data."""
    return certify(network, pair, blocks=blocks)
