"""Public calls beyond the matrix on one device, on the second, over both, and under a default device."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import bathyscope as bs
from tests.device.networks import CASES, PLACES, Case, case, place
from tests.device.numbers import Numbers, compare_numbers


def twin(given: Case) -> Numbers:
    other = copy.deepcopy(given.model)
    with torch.no_grad():
        next(other.parameters()).mul_(1.5)
    alike = bs.twin(given.model, copy.deepcopy(given.model), given.batch, loss=given.loss)
    apart = bs.twin(given.model, other, given.batch, loss=given.loss)
    return {"alike": str(alike), "first": str(apart).splitlines()[0]}


def certify(given: Case) -> Numbers:
    found = bs.certify(given.model, given.batch)
    return {"risks": [found.risk, found.constant_risk], "guaranteed": found.guaranteed}


def extremes(given: Case) -> Numbers:
    matrix = bs.hessian(given.model, given.batch, loss=given.loss)
    largest = matrix.extremes(k=1, ends="largest").largest
    gauss_newton = bs.curvature.gauss_newton(given.model, given.batch, loss=given.loss)
    return {
        "largest": largest.values.tolist(),
        "trace": [matrix.trace(probes=4).value],
        "gauss_newton": gauss_newton.extremes(k=1, ends="largest").largest.values.tolist(),
    }


def measured(given: Case) -> Numbers:
    """The measurements that a user calls one by one, on a model and a batch."""
    result: Numbers = {}
    for name in ("activations", "gradients", "parameter_gradients", "deletion", "representations"):
        found = getattr(bs.measure, name)(given.model, given.batch, loss=given.loss)
        result |= {f"{name}.{column}": list(v) for column, v in found.columns.items()}
    return result


def procrustes(given: Case) -> Numbers:
    optimizer = torch.optim.SGD(given.model.parameters(), 0.01)
    linear = [m for m in given.model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    handle = bs.remedies.procrustes_(optimizer, linear[-2:], every=1)
    value = given.loss(given.model(given.batch[0]), given.batch[1])
    value.backward()
    optimizer.step()
    handle.remove()
    return {"weights": linear[-1].weight.detach().cpu().flatten().tolist()}


def inits(given: Case) -> Numbers:
    bs.inits.apply_("orthogonal", given.model, generator=torch.Generator().manual_seed(1))
    weights = [p.detach().cpu().double().norm().item() for p in given.model.parameters()]
    return {"norms": weights}


CALLS: dict[str, Callable[[Case], Numbers]] = {
    f.__name__: f for f in (twin, certify, extremes, measured, procrustes, inits)
}
_on_the_cpu: dict[tuple[str, str], Numbers] = {}


def cells():
    """The spectra of the two large networks are those of the small ones, and take long."""
    for call in CALLS:
        for network in CASES:
            if call == "certify" and network == "gpt-4":  # of one output vector a sample alone
                continue
            is_long = call == "extremes" and network in ("resnet-20", "gpt-4")
            yield pytest.param(call, network, marks=[pytest.mark.slow] if is_long else [])


@pytest.mark.parametrize(("call", "network"), list(cells()))
@pytest.mark.parametrize("where", PLACES)
def test_as_on_the_cpu(pretend, call, network, where):
    if (call, network) not in _on_the_cpu:
        _on_the_cpu[call, network] = CALLS[call](case(network))
    given = place(case(network), "pretend:1" if where == "default" else where)
    if where == "default":
        torch.set_default_device("pretend:1")
    compare_numbers(CALLS[call](given), _on_the_cpu[call, network])


@pytest.mark.parametrize("where", ["pretend:0", "both"])
def test_a_coordinate_check_of_networks_on_a_device(pretend, where):
    def factory(width):
        layers = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 4))
        torch.nn.init.constant_(layers[0].weight, 0.1)
        return place(Case(layers, given.batch, given.loss), where).model

    given = case("mlp")
    there = [tuple(t.to("pretend:0") for t in given.batch)] * 2
    with pretend.counting() as counts:
        found = bs.coordinate_check(factory, there, widths=(8, 16), seeds=1)
    assert counts.launches > 100
    assert "width" in str(found)


def test_a_singular_value_of_a_convolution_on_a_device(pretend):
    layer = nn.Conv2d(3, 4, 3, padding=1)
    wanted = bs.linalg.conv_singular_values(layer, size=(8, 8)).values
    found = bs.linalg.conv_singular_values(layer.to("pretend:1"), size=(8, 8)).values
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)
