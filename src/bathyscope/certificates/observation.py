"""What a network does on data, in float64: its outputs, features and representations."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.batch import check_batch, check_values, run_forward
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import UsageError, in_a_line
from bathyscope.nets.nest import AugmentedResNEst, DenseNEst, NEst, ResNEst

_ROWS = 512  # samples evaluated at once


@dataclass(frozen=True, eq=False)
class Observation:
    """A network's answers on data.

    `inputs` are all values of the input in one row per sample. `features` are v_0, …, v_L without the
    constant, which `intercept` stands for; outside the family there are none. `last` holds x_{L−1}
    of a ResNEst on vectors. `sizes` are the values per sample of each feature before pooling, and
    `room` those of x_{L−1}.
    """

    network: nn.Module
    inputs: Float[Tensor, " n d"]
    outputs: Float[Tensor, " n c"]
    targets: Tensor
    features: tuple[Float[Tensor, " n _"], ...]
    intercept: bool
    last: Float[Tensor, " n m"] | None = None
    sizes: tuple[int, ...] = ()
    room: int = 0
    on_images: bool = False

    @property
    def in_family(self) -> bool:
        """Whether the network is a ResNEst, an augmented ResNEst or a DenseNEst."""
        return isinstance(self.network, NEst)


def observe(model: object, data: object) -> Observation:
    """Run a float64 copy of the model, in eval mode, over the data.

    Args:
        model: any module from one tensor to one output `(n, c)`; it is not touched.
        data: a pair (inputs, targets), or an iterable of such pairs such as a loader.

    Raises:
        UsageError: the model is none, the data are not pairs, the model cannot take them, or
            something is non-finite.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"A certificate is of a torch module, but a {type(model).__name__} was given."
        )
    check_values(unwrap(model))
    network = _copy_in_float64(unwrap(model))
    for name, parameter in network.named_parameters():
        _check_finite(parameter, f"the parameter {name}", "there is nothing to certify")
    inputs, targets = _join(network, data)
    _check_finite(targets, "the targets", "clean the data")
    inputs = inputs.double()
    rows = [_row(network, part) for part in inputs.split(_ROWS)]
    outputs = torch.cat([row.outputs for row in rows])
    if outputs.ndim != 2:
        raise UsageError(
            f"A certificate speaks of one output vector a sample, but the outputs have shape "
            f"{tuple(outputs.shape)}."
        )
    features = tuple(torch.cat(parts) for parts in zip(*(r.features for r in rows), strict=True))
    intercept = network.has_intercept if isinstance(network, NEst) else True
    if isinstance(network, NEst) and intercept:
        features = (features[0][:, :-1], *features[1:])
    for values in (outputs, *features):
        _check_finite(values, "the features and outputs", "weights or inputs are too large")
    lasts = [row.last for row in rows if row.last is not None]
    return Observation(
        network,
        inputs.reshape(len(inputs), -1),
        outputs,
        targets,
        features,
        intercept,
        last=torch.cat(lasts) if lasts else None,
        sizes=rows[0].sizes,
        room=rows[0].room,
        on_images=inputs.ndim > 2,
    )


def _copy_in_float64(model: nn.Module) -> nn.Module:
    try:
        copy = deepcopy(model)
    except Exception as error:  # a module of the user's may hold anything
        raise UsageError(
            f"A certificate is computed on a copy of the network, and {type(model).__name__} cannot "
            f"be copied ({in_a_line(error)})."
        ) from error
    return copy.to("cpu", torch.float64).eval()


@dataclass(frozen=True, eq=False)
class _Row:
    outputs: Tensor
    features: tuple[Tensor, ...]
    last: Tensor | None = None
    sizes: tuple[int, ...] = ()
    room: int = 0


@torch.no_grad()
def _row(network: nn.Module, x: Tensor) -> _Row:
    outputs = run_forward(network, x)
    if not isinstance(outputs, Tensor):
        raise UsageError(
            f"A certificate needs a network whose output is one tensor, not a "
            f"{type(outputs).__name__}."
        )
    outputs = outputs.cpu()  # hooks of a model over several devices carry it elsewhere
    if not isinstance(network, NEst):
        return _Row(outputs, ())
    if isinstance(network, DenseNEst):
        return _Row(outputs, network.features(x))
    return _residual_row(network, x, outputs)


def _residual_row(network: ResNEst | AugmentedResNEst, x: Tensor, outputs: Tensor) -> _Row:
    """Features of a residual form, with what decides assumption 4."""
    features = network.features(x)
    if isinstance(network, AugmentedResNEst):
        return _Row(outputs, features)
    maps = [x]
    representation = last = network.expansion(x)
    for block in network.blocks:
        last, representation = representation, block(representation, maps)
    sizes = [v[0].numel() for v in maps]
    if getattr(network.expansion, "bias", None) is not None:
        sizes[0] += 1
    return _Row(
        outputs,
        features,
        last=last if x.ndim == 2 else None,
        sizes=tuple(sizes),
        room=last[0].numel(),
    )


def _join(network: nn.Module, data: Any) -> tuple[Tensor, Tensor]:
    """All inputs and all targets, each one tensor on the CPU."""
    if not hasattr(data, "__iter__") or getattr(data, "ndim", 1) == 0:
        raise UsageError(
            f"The data are a pair (inputs, targets) or an iterable of pairs, but "
            f"{type(data).__name__} was given."
        )
    is_pair = isinstance(data, (tuple, list)) and len(data) == 2
    pairs = [data] if is_pair and not isinstance(data[0], (tuple, list)) else list(data)
    if not pairs:
        raise UsageError("There are no data to certify on; pass a pair (inputs, targets).")
    checked = []
    for pair in pairs:
        if isinstance(pair, (tuple, list)) and len(pair) == 2:
            pair = tuple(_tensor(part) for part in pair)
        inputs, targets = check_batch(network, pair)
        if not isinstance(targets, Tensor) or not isinstance(inputs, Tensor) or not targets.ndim:
            raise UsageError("A certificate needs a tensor of inputs and a tensor of targets.")
        if len(inputs) != len(targets):
            raise UsageError(
                f"There are {len(inputs)} inputs but {len(targets)} targets; give one for each."
            )
        checked.append((inputs, targets))
    first = checked[0]
    for pair in checked:
        if any(a.shape[1:] != b.shape[1:] for a, b in zip(pair, first, strict=True)):
            raise UsageError(
                f"The batches do not fit together: {_sample_shapes(first)} a sample in the first, "
                f"{_sample_shapes(pair)} in another."
            )
    return torch.cat([x for x, _ in checked]), torch.cat([y for _, y in checked])


def _tensor(part: object) -> Tensor:
    try:
        return torch.as_tensor(part).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"A certificate needs a tensor of inputs and a tensor of targets, but "
            f"{type(part).__name__} was given."
        ) from error


def _sample_shapes(pair: tuple[Tensor, Tensor]) -> str:
    inputs, targets = (tuple(part.shape[1:]) for part in pair)
    return f"inputs of {inputs} and targets of {targets}"


def _check_finite(values: Tensor, of: str, consequence: str) -> None:
    bad = int((~torch.isfinite(values)).sum())
    if bad:
        raise UsageError(
            f"{bad} of {values.numel()} values of {of} are NaN or infinite; {consequence}."
        )
