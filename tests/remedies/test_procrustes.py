import copy
import io
import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bathyscope.core.errors import UsageError
from bathyscope.linalg import conv_singular_values
from bathyscope.linalg.norms import spread_about
from bathyscope.remedies import procrustes_
from tests.remedies.small_training import batch, small_network, train

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=2),
}


def matrix_gram(layer):
    matrix = layer.weight.detach().flatten(1).double()
    return matrix.T @ matrix


def hooks_of(optimizer, model):
    names = [name for name in vars(optimizer) if name.endswith("_hooks")]
    hooks = {name: dict(getattr(optimizer, name)) for name in names}
    return hooks, [dict(module._forward_hooks) for module in model.modules()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_any_optimizer_keeps_the_layers_at_their_target(name):
    model = small_network()
    optimizer = OPTIMIZERS[name](model.parameters())
    handle = procrustes_(optimizer, {"stem": model[0], "down": model[3]}, every=2)
    train(model, optimizer, 12)
    torch.testing.assert_close(matrix_gram(model[3]), 2 * torch.eye(8).double(), atol=0.05, rtol=0)
    stem = conv_singular_values(model[0], 8, padding="circular")
    assert stem.spread < 0.15
    report = handle.report()
    assert (report.steps, report.projections) == (12, 6)
    assert report.seconds > 0
    assert [layer.name for layer in report.layers] == ["stem", "down"]
    assert report.layers[0].spread == pytest.approx(stem.spread, abs=0.02)
    assert report.layers[1].target == pytest.approx(math.sqrt(2))


def test_projects_after_every_kth_step_and_only_then():
    model = small_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    procrustes_(optimizer, model[3], every=3)
    distances = []
    for step in range(6):
        train(model, optimizer, 1, start=step)
        distances.append((matrix_gram(model[3]) - 2 * torch.eye(8)).abs().max().item())
    assert [d < 1e-4 for d in distances] == [False, False, True, False, False, True]


def test_gradient_accumulation_counts_steps_not_backward_passes():
    model = small_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    handle = procrustes_(optimizer, model[3], every=1)
    for step in range(4):
        x, y = batch(step)
        F.cross_entropy(model(x), y).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
    assert handle.report().projections == 2


def test_two_runs_are_bit_for_bit_the_same():
    states = []
    for _ in range(2):
        model = small_network()
        optimizer = OPTIMIZERS["sgd"](model.parameters())
        procrustes_(optimizer, [model[0], model[3]], gain="measured")
        train(model, optimizer, 6)
        states.append(model.state_dict())
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


@pytest.mark.parametrize("gain", ["isotropic", "measured"])
@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_resume_after_a_kill_is_exact(gain, name):
    def fresh():
        model = small_network()
        optimizer = OPTIMIZERS[name](model.parameters())
        handle = procrustes_(optimizer, [model[0], model[3]], every=2, gain=gain)
        return model, optimizer, handle

    model, optimizer, handle = fresh()
    train(model, optimizer, 5)  # an odd step: the count matters
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    train(model, optimizer, 6, start=5)

    again, resumed, other = fresh()
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    train(again, resumed, 6, start=5)
    for key, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[key]), key
    assert handle.report().steps == other.report().steps == 11
    assert "procrustes" in saved["optimizer"], "loading leaves the caller's dictionary as it was"


def test_a_state_saved_without_the_remedy_loads():
    model = small_network()
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    handle = procrustes_(optimizer, model[3])
    optimizer.load_state_dict(plain.state_dict())
    assert handle.report().steps == 0
    plain.load_state_dict(optimizer.state_dict())


def test_a_state_of_other_layers_is_refused():
    model = small_network()
    one = torch.optim.SGD(model.parameters(), lr=0.1)
    procrustes_(one, model[3])
    two = torch.optim.SGD(model.parameters(), lr=0.1)
    procrustes_(two, [model[0], model[3]])
    with pytest.raises(UsageError, match="same layers"):
        two.load_state_dict(one.state_dict())


def test_remove_leaves_the_optimizer_as_it_was():
    model = small_network()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    train(model, optimizer, 2)
    state, hooks = copy.deepcopy(optimizer.state_dict()), hooks_of(optimizer, model)
    handle = procrustes_(optimizer, [model[0], model[3]], gain="measured")
    assert set(optimizer.state_dict()) == {"state", "param_groups", "procrustes"}
    handle.remove()
    assert hooks_of(optimizer, model) == hooks
    after = optimizer.state_dict()
    assert after.keys() == state.keys()
    assert after["param_groups"] == state["param_groups"]
    for index, entry in state["state"].items():
        assert all(torch.equal(v, after["state"][index][k]) for k, v in entry.items())
    train(model, optimizer, 2, start=2)
    assert handle.report().steps == 0


def test_two_remedies_on_one_optimizer_keep_their_own_counts():
    model = small_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = procrustes_(optimizer, model[0], every=2)
    procrustes_(optimizer, model[3], every=3)
    assert {"procrustes", "procrustes.1"} <= optimizer.state_dict().keys()
    first.remove()
    assert "procrustes" not in optimizer.state_dict()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0])
def test_a_kernel_that_is_nan_or_zero_is_left_alone_and_reported_once(bad):
    model = small_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    handle = procrustes_(optimizer, {"stem": model[0], "down": model[3]}, every=1)
    with torch.no_grad():
        model[3].weight.fill_(bad)
    with pytest.warns(RuntimeWarning, match="down is left alone"):
        handle.project()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        handle.project()
    wanted = torch.full_like(model[3].weight, bad)
    torch.testing.assert_close(model[3].weight, wanted, equal_nan=True)
    report = handle.report()
    assert report.layers[0].left_alone is None
    assert report.layers[1].left_alone is not None
    assert conv_singular_values(model[0], 8, padding="circular").spread < 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_are_projected_in_float32(dtype):
    layer = nn.Conv2d(8, 16, 1, bias=False).to(dtype)
    handle = procrustes_(torch.optim.SGD(layer.parameters(), lr=0.1), layer)
    handle.project()
    assert layer.weight.dtype == dtype
    gram = matrix_gram(layer)
    assert (gram - 2 * torch.eye(8)).abs().max() < 20 * torch.finfo(dtype).eps


def test_autocast_and_a_gradient_scaler_that_skips_a_step():
    model = small_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    handle = procrustes_(optimizer, model[3], every=1, gain="measured")
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for step in range(3):
        x, y = batch(step)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss * (math.inf if step == 1 else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
    assert handle.report().steps == 2
    assert handle.report().layers[0].spread < 1e-3


def test_channels_last_and_strided_transposed_grouped_layers():
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(4, 8, 3, stride=2, padding=1).to(memory_format=torch.channels_last),
        nn.Conv2d(8, 8, 3, groups=2, dilation=2),
        nn.ConvTranspose2d(8, 4, 4, stride=2),
        nn.Conv1d(4, 8, 3),
        nn.Conv3d(2, 4, 3),
        nn.Linear(4, 8),
    ]
    parameters = [p for layer in layers for p in layer.parameters()]
    handle = procrustes_(torch.optim.SGD(parameters, lr=0.1), layers)
    before = [layer.spread for layer in handle.report().layers]
    for _ in range(10):
        handle.project()
    after = [layer.spread for layer in handle.report().layers]
    # As many channels in as out leave an isometry of few taps the least room.
    assert all(a < 0.2 and a < b / 2 for a, b in zip(after, before, strict=True))
    assert layers[0].weight.is_contiguous(memory_format=torch.channels_last)
    for layer, size, spread in zip(layers, [8, 8, 4, 8, 6, None], after, strict=True):
        spectrum = conv_singular_values(layer, size, padding="circular" if size else None)
        assert spectrum.spread == pytest.approx(spread, abs=0.02), layer


@pytest.mark.parametrize(("gain", "target"), [("isotropic", 2**0.5), ("relu", 2.0), (3.0, 3.0)])
def test_gains(gain, target):
    layer = nn.Conv2d(8, 16, 1)
    handle = procrustes_(torch.optim.SGD(layer.parameters(), lr=0.1), layer, gain=gain)
    handle.project()
    values = conv_singular_values(layer, 4).nonzero
    assert spread_about(values, target) < 1e-5


def test_reference_method_and_exact_method():
    for method, size in (("exact", None), ("reference", 8)):
        model = small_network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        handle = procrustes_(optimizer, [model[0], model[3]], method=method, size=size)
        handle.project()
        handle.project()
        stem, down = handle.report().layers
        assert down.spread < 0.02
        assert stem.spread < 0.25


@pytest.mark.parametrize(
    ("layers", "options", "message"),
    [
        (nn.BatchNorm2d(3), {}, "not BatchNorm2d"),
        (nn.Conv2d(3, 3, 1), {}, "not in the optimizer"),
        ([], {}, "no layers"),
        (None, {"every": 0}, "at least 1, but 0"),
        (None, {"gain": -1.0}, "above 0, but -1.0"),
        (None, {"method": "reference"}, "output size"),
    ],
)
def test_bad_input_is_one_sentence(layers, options, message):
    layer = nn.Conv2d(3, 3, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with pytest.raises(UsageError, match=message):
        procrustes_(optimizer, layer if layers is None else layers, **options)
    assert set(optimizer.state_dict()) == {"state", "param_groups"}
