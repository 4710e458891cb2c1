"""Section 5: shortcuts of length 1 train as plain linear networks with orthogonal weights do."""

import math

import torch
from torch import Tensor

from bathyscope import nets
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.json_values import JsonObject
from bathyscope.nets import Network
from bathyscope.studies.examples import optimal_linear_loss, second_moments

_DEPTH, _STEPS, _RATE, _RUNS, _WIDTH = 16, 100, 0.02, 5, 10
_FORMS = {
    "shortcut_1": (1, "identity", "small"),
    "orthogonal": (1, "none", "orthogonal"),
    "shortcut_2": (2, "identity", "small"),
}
_ALIKE, _APART = math.log(1.5), math.log(3)


def measure_dynamics(seed: int) -> Measured:
    """Medians over five runs of the loss above its optimum, at every step of gradient descent."""
    curves = {name: _curve(name, seed=seed) for name in _FORMS}
    first = curves["shortcut_1"]
    gaps = {name: (first.log() - curves[name].log()).abs() for name in _FORMS}
    numbers: JsonObject = {
        "orthogonal": float(gaps["orthogonal"].max()),
        "shortcut_2": float(gaps["shortcut_2"].max()),
        "fall": float(first[-1] / first[0]),
    }
    return Measured(
        numbers=numbers,
        settings={"data": "digits", "depth": _DEPTH, "learning rate": _RATE, "steps": _STEPS},
    )


def _curve(name: str, *, seed: int) -> Tensor:
    """The loss 1/(2m) Σ ‖y − Wx‖² minus that of the best W, of a linear network of 16 layers."""
    length, shortcut, init = _FORMS[name]
    x, y = second_moments("digits", _WIDTH, None)
    optimum = optimal_linear_loss(x, y)
    runs = []
    for run in range(_RUNS):
        model = nets.build(
            f"nshortcut-{_DEPTH // length}-{length}",
            width=_WIDTH,
            init=init,
            shortcut=shortcut,
            seed=_RUNS * seed + run,
        )
        assert isinstance(model, Network)
        units = [torch.stack([p.detach() for p in block.parameters()]) for block in model.blocks]
        runs.append(torch.stack(units).double())
    weights = torch.stack(runs).requires_grad_()  # (runs, R, n, d, d)
    identity = torch.eye(_WIDTH, dtype=x.dtype, device=x.device) * (shortcut == "identity")
    losses = []
    for _ in range(_STEPS):
        whole = torch.eye(_WIDTH, dtype=x.dtype, device=x.device)
        for unit in weights.unbind(1):
            product = unit[:, 0]
            for layer in unit.unbind(1)[1:]:
                product = layer @ product
            whole = (product + identity) @ whole
        loss = (x @ whole.mT - y).square().sum(dim=(1, 2)) / (2 * len(x))
        (gradient,) = torch.autograd.grad(loss.sum(), weights)
        losses.append(loss.detach().median() - optimum)
        with torch.no_grad():
            weights -= _RATE * gradient
    return torch.stack(losses)


def like_orthogonal(numbers: Numbers) -> list[Relation]:
    """Within a factor of 1.5 of orthogonal at all steps, while length 2 takes another course."""
    return [
        at_most("loss learned: end over start", numbers["fall"], 0.1),
        at_most("length 1 against orthogonal: largest |log|", numbers["orthogonal"], _ALIKE),
        at_least("length 1 against length 2: largest |log|", numbers["shortcut_2"], _APART),
    ]


def the_same(numbers: Numbers) -> list[Relation]:
    """To one percent."""
    return [
        at_most("length 1 against orthogonal: largest |log|", numbers["orthogonal"], math.log(1.01))
    ]


SECTION_5_LENGTH_1 = Claim(
    name="shortcut_length.section_5_length_1",
    statement="Linear networks with shortcuts of length 1 and small weights train as plain linear networks "
    "with orthogonal weights do.",
    tested="Loss above its optimum over 100 steps of gradient descent on whitened digits, 16 layers, median "
    "of five runs: within a factor of 1.5 of each other at all steps, where shortcuts of length 2 differ "
    "by more than 3. A factor of 1.5 would have been seen.",
    links=(
        Link(
            to="shortcut_length.figure_4",
            check="1-shortcut",
            difference="the figure is of the condition number at the first step",
        ),
    ),
    measure=measure_dynamics,
    law=like_orthogonal,
    law_strict=the_same,
    empirical=True,
)
