"""Every public call on a model, and what must be true of its answer and of the model afterwards."""

import copy
import random
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import bathyscope as bs
from bathyscope import training
from bathyscope.curvature import gauss_newton, hessian
from bathyscope.recorder import autopsy_of_weights
from benchmarks.fuzzing.odd import OddModel


class Wrong(Exception):
    """An answer that is not the one of a slow and obvious computation."""


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(list(model.parameters()), lr=0.01)


def _diagnose(case: OddModel, **options: Any) -> None:
    result = bs.diagnose(case.model, case.batch, loss=case.loss, **options)
    assert len(result.table) == len(result.blocks.rows)


def _full(case: OddModel) -> None:
    _diagnose(case, probes="full", steps=1)


def _measure(name: str) -> Callable[[OddModel], None]:
    def call(case: OddModel) -> None:
        options: dict[str, Any] = {} if name == "weights" else {"loss": case.loss}
        if name == "updates":
            options["optimizer"] = _optimizer(case.model)
        getattr(bs.measure, name)(case.model, case.batch, **options)

    return call


def _product(case: OddModel) -> None:
    """H v against a central difference of gradients along v."""
    H = hessian(case.model, case.batch, loss=case.loss)
    v = torch.randn(H.shape[0], generator=torch.Generator().manual_seed(0)).to(H.dtype)
    result = H @ v
    reference = _difference(H.operator.objective, v)
    if reference is not None:
        size = float(reference.norm())
        if float((result.double() - reference).norm()) > 1e-4 * size + 1e-7:
            error = float((result.double() - reference).norm()) / max(size, 1e-300)
            raise Wrong(f"H v is {error:.1e} from the difference of gradients")


def _difference(objective: Any, v: Tensor) -> Tensor | None:
    """(g(θ + hv) − g(θ − hv))/2h in float64 where the loss is smooth and deterministic there."""
    parameters = list(objective.parameters.values())
    if any(p.dtype != torch.float64 for p in parameters):
        return None
    free = [p for p in parameters if p.requires_grad]
    batch = next(iter(objective.batches))[0]
    parts = v.split([p.numel() for p in parameters])

    def gradient(step: float) -> Tensor:
        with torch.no_grad():
            for p, part in zip(parameters, parts, strict=True):
                if p.requires_grad:
                    p.add_(part.view(p.shape), alpha=step)
        result = torch.autograd.grad(objective.value(batch), free, allow_unused=True)
        with torch.no_grad():
            for p, part in zip(parameters, parts, strict=True):
                if p.requires_grad:
                    p.sub_(part.view(p.shape), alpha=step)
        given = dict(zip(map(id, free), result, strict=True))
        return torch.cat(
            [
                (torch.zeros_like(p) if (g := given.get(id(p))) is None else g).flatten()
                for p in parameters
            ]
        )

    saved = [p.detach().clone() for p in parameters]
    with objective.at_rest():
        coarse, fine = ((gradient(h) - gradient(-h)) / (2 * h) for h in (2e-5, 1e-5))
    with torch.no_grad():
        for p, values in zip(parameters, saved, strict=True):
            p.copy_(values)
    # a kink between the two points, or noise in the loss, shows as a difference of the differences
    smooth = float((coarse - fine).norm()) <= 1e-5 * float(fine.norm()) + 1e-8
    return fine if smooth else None


def _dense(case: OddModel) -> None:
    H = hessian(case.model, case.batch, loss=case.loss)
    matrix = H.dense()
    v = torch.randn(H.shape[0], generator=torch.Generator().manual_seed(1)).to(H.dtype)
    allowed = 1e-6 if H.dtype == torch.float64 else 2e-2
    if float((matrix @ v - H @ v).norm()) > allowed * (float((H @ v).norm()) + 1e-12) + 1e-6:
        raise Wrong("the dense matrix times v is not the product")
    trace = H.trace().value
    if abs(trace - float(matrix.double().trace())) > 1e-9 * float(matrix.abs().sum()) + 1e-12:
        raise Wrong("the trace is not that of the dense matrix")


def _watch(case: OddModel) -> None:
    """A watched loop gives the same weights as one that is not watched."""
    try:
        alone = copy.deepcopy(case)
        train_two_steps(alone)
    except Exception:  # what cannot be copied, or trained as a copy, has nothing to compare with
        alone = None
    with bs.watch(case.model, every=1):
        train_two_steps(case)
    if alone is not None:
        pairs = zip(case.model.parameters(), alone.model.parameters(), strict=True)
        for ours, theirs in pairs:
            if not torch.equal(ours.detach(), theirs.detach()) and not bool(ours.isnan().any()):
                raise Wrong("the watched loop ends with other weights")


def train_two_steps(case: OddModel) -> None:
    """A loop of the user's own."""
    torch.manual_seed(0)
    random.seed(0)
    optimizer = _optimizer(case.model)
    for _ in range(2):
        inputs, targets = copy.deepcopy(case.batch)
        output = (
            case.model(**inputs)
            if isinstance(inputs, dict)
            else (case.model(*inputs) if isinstance(inputs, tuple) else case.model(inputs))
        )
        optimizer.zero_grad()
        case.loss(output, targets).backward()
        optimizer.step()


def _save(case: OddModel) -> None:
    """A report is written in every form, and read again as it was."""
    result = bs.diagnose(case.model, case.batch, loss=case.loss)
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("html", "json"):
            result.save(f"{folder}/report.{ending}")
        again = bs.report.read_report(f"{folder}/report.json")
    if [b.label for b in again.blocks] != [b.label for b in result.report().blocks]:
        raise Wrong("the report that is read has other blocks")


def _treat(case: OddModel) -> None:
    """A treatment that is undone leaves the model as it was."""
    result = bs.diagnose(case.model, case.batch, loss=case.loss)
    optimizer = _optimizer(case.model)
    rates = [group["lr"] for group in optimizer.param_groups]
    treatment = bs.treat(case.model, result, optimizer=optimizer, spend=300)
    treatment.code()
    treatment.undo()
    if rates != [group["lr"] for group in optimizer.param_groups]:
        raise Wrong("the undone treatment leaves another rate")


def _apply(case: OddModel) -> None:
    """A recipe that is taken back leaves the model as it was."""
    recipe = bs.remedies.Recipe.parse(
        {
            "steps": [
                {"name": "draw-weights"},
                {"name": "clip-gradient", "norm": 1.0},
                {"name": "warm-up", "steps": 3},
            ]
        }
    )
    optimizer = _optimizer(case.model)
    recipe.apply_(case.model, optimizer).undo()


def _forecast(case: OddModel) -> None:
    optimizer = _optimizer(case.model)
    seen = bs.forecast(case.model, [case.batch], loss=case.loss, optimizer=optimizer, spend=8)
    if not 0 <= seen.probability <= 1:
        raise Wrong(f"a probability of {seen.probability}")


def _evaluate(case: OddModel) -> None:
    """The passes are the user's own, but every module gets its mode back."""
    modes = {module: module.training for module in case.model.modules()}
    try:
        training.evaluate(case.model, case.batch, loss=case.loss, batch_size=2)
    finally:
        if any(module.training != mode for module, mode in modes.items()):
            raise Wrong("an evaluation leaves another mode")


def _autopsy(case: OddModel) -> None:
    weights = case.model.state_dict()
    result = autopsy_of_weights(weights, weights)
    if result.began is not None and not any(layer.lost for layer in result.layers):
        raise Wrong("weights that did not change are said to have")


CALLS: dict[str, Callable[[OddModel], None]] = {
    "blocks_of": lambda case: _ignore(bs.blocks_of(case.model, case.batch[0])),
    "diagnose": _diagnose,
    "diagnose with optimizer": lambda case: _diagnose(case, optimizer=_optimizer(case.model)),
    "diagnose full": _full,
    **{
        f"measure.{name}": _measure(name)
        for name in (
            "activations",
            "gradients",
            "weights",
            "representations",
            "deletion",
            "updates",
            "attention",
            "parameter_gradients",
            "representation_spectra",
            "standard",
        )
    },
    "save": _save,
    "treat": _treat,
    "apply_ and undo": _apply,
    "forecast": _forecast,
    "evaluate": _evaluate,
    "autopsy of weights": _autopsy,
    "hessian product": _product,
    "hessian dense": _dense,
    "hessian extremes": lambda case: _ignore(
        hessian(case.model, case.batch, loss=case.loss).extremes(1)
    ),
    "hessian by_block": lambda case: _ignore(
        hessian(case.model, case.batch, loss=case.loss).by_block()
    ),
    "gauss_newton": lambda case: _ignore(
        gauss_newton(case.model, case.batch, loss=case.loss).dense()
    ),
    "certify": lambda case: _ignore(
        bs.certificates.certify(case.model, case.batch, loss=case.loss)
    ),
    "watch": _watch,
}
TRAINS = ("watch", "evaluate")


def _ignore(value: object) -> None:
    str(value)


State = list[tuple[str, Any]]


def state_of(model: nn.Module) -> State:
    """Everything a user could notice about a model, and the random numbers."""
    result: State = []
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        has_values = (
            not isinstance(tensor, nn.parameter.UninitializedTensorMixin) and not tensor.is_meta
        )
        result.append((f"{name} is", id(tensor)))
        result.append((f"values of {name}", tensor.detach().clone() if has_values else None))
        result.append((f"requires_grad of {name}", tensor.requires_grad))
        result.append((f"grad of {name}", None if tensor.grad is None else tensor.grad.clone()))
        result.append((f"hooks of {name}", dict(tensor._backward_hooks or {})))
    for name, module in model.named_modules():
        result.append((f"mode of {name or 'the model'}", module.training))
        for key, value in sorted(vars(module).items()):
            if not key.startswith("_") and key != "training":
                result.append((f"{key} of {name or 'the model'}", _frozen(value)))
        for table in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            result.append(
                (f"{table} of {name or 'the model'}", dict(getattr(module, table, {}) or {}))
            )
    result.append(("torch's random numbers", torch.get_rng_state()))
    result.append(("numpy's random numbers", np.random.get_state()[1].tolist()))  # noqa: NPY002
    result.append(("Python's random numbers", random.getstate()))
    return result


def _frozen(value: Any) -> Any:
    """A value that can be compared later with what has become of it; None for what is not looked at."""
    if isinstance(value, Tensor):
        return None if value.is_meta else value.detach().clone()
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, list | tuple | dict):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return repr([(key, _frozen(item)) for key, item in items])
    return value if isinstance(value, int | float | str | None) else None


def _bits(tensor: Tensor) -> bytes:
    """Bit for bit: −0 is not 0, and NaN is itself."""
    return (
        bytes(tensor.contiguous().flatten().view(torch.uint8).tolist()) if tensor.numel() else b""
    )


def first_difference(before: State, after: State) -> str:
    """What is no longer as it was, or nothing."""
    if [key for key, _ in before] != [key for key, _ in after]:
        return "the names of parameters or modules"
    for (key, one), (_, other) in zip(before, after, strict=True):
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            a, b = (t.to_dense() if t.layout is not torch.strided else t for t in (one, other))
            same = a.shape == b.shape and a.dtype == b.dtype and _bits(a) == _bits(b)
        else:
            same = one == other
        if not same:
            return key
    return ""
