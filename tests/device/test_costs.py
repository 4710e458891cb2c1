"""What a device's time and memory follow: how often the host waits, launches, bytes at the peak."""

import contextlib
import copy
import gc

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.core.errors import UsageError
from bathyscope.core.stepping import parts_of, take_step
from tests.device.networks import case


def trained(device="pretend:0"):
    """preresnet-29 with an optimizer that has taken a step."""
    torch.manual_seed(0)
    model = bs.nets.build("preresnet-29", num_classes=4, width=4, seed=0, device=device)
    batch = torch.randn(4, 3, 8, 8, device=device), torch.randint(4, (4,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()

    step()
    return model, batch, optimizer, step


def test_a_watch_reads_once_in_a_step_and_three_times_in_a_full_one(pretend):
    model, _, _, step = trained()
    with pretend.counting() as bare:
        step()
    assert bare.synchronizations == 0
    cheap, full = [], []
    with bs.watch(model, every=25) as seen:
        for number in range(52):
            with pretend.counting() as counts:
                step()
            if number > 24:  # before, the checks of the loop read more
                (full if number % 25 == 0 else cheap).append(counts)
    assert seen.steps == 52
    # 2 where weights are read; the checks of the loop read more once in a while
    often = sorted(c.synchronizations for c in cheap)
    assert often[: len(often) - 5] == [1] * (len(often) - 5)
    assert often[-1] <= 8
    assert [c.synchronizations for c in full] == [3, 3]
    assert full[0].launches <= 1.8 * bare.launches
    assert cheap[-1].launches <= 1.05 * bare.launches


def test_launches_of_a_full_step_of_a_network_of_small_layers(pretend):
    """Outputs of one shape are reduced together, also those that a layer in place overwrites."""
    torch.manual_seed(0)
    layers = [part for _ in range(20) for part in (nn.Linear(16, 16), nn.ReLU(inplace=True))]
    here = nn.Sequential(*layers, nn.Linear(16, 3))
    batch = torch.randn(32, 16), torch.arange(32) % 3
    tables = []
    for device in ("cpu", "pretend:0"):
        model, (x, y) = copy.deepcopy(here).to(device), [t.to(device) for t in batch]
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        launches = []
        for watched in (False, True):
            with bs.watch(model, every=1) if watched else contextlib.nullcontext() as seen:
                for _ in range(14):
                    with pretend.counting() as counts:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
            launches.append(counts.launches)
        tables.append(seen.table)
    assert launches[1] <= 1.8 * launches[0]
    for column in ("mean", "std", "dead", "variety", "gradient_in", "gradient_out"):
        for a, b in zip(tables[1][column], tables[0][column], strict=True):
            assert a == pytest.approx(b, rel=1e-3, abs=1e-6, nan_ok=True), column


def test_a_hessian_product_copies_no_weights_to_the_host(pretend):
    model, batch, _, _ = trained()
    matrix = bs.hessian(model, batch)
    vector = torch.ones(matrix.shape[0], device="pretend:0")
    _ = matrix @ vector
    with pretend.counting() as counts:
        _ = matrix @ vector
    assert counts.synchronizations <= 5
    assert counts.downloaded <= 0.1 * sum(p.nbytes for p in model.parameters())


def test_a_changed_weight_is_seen_on_the_device(pretend):
    """By a checksum that is computed there: also what autograd does not notice."""
    given = case("mlp").to("pretend:1")
    matrix = bs.hessian(given.model, given.batch, loss=given.loss)
    vector = torch.ones(matrix.shape[0], device="pretend:1")
    before = (matrix @ vector).cpu()
    assert torch.equal(before, (matrix @ vector).cpu())
    given.model[0].weight.data[0, 0] += 1.0
    assert not torch.equal(before, (matrix @ vector).cpu())
    given.model[0].weight.data[0, 0] -= 1.0
    torch.testing.assert_close((matrix @ vector).cpu(), before, rtol=1e-4, atol=1e-6)


def test_how_often_diagnose_and_forecast_wait(pretend):
    """A forecast once in a plain step, beside what it reads at its stages; a diagnosis thrice a block."""
    model, batch, optimizer, step = trained()
    with pretend.counting() as bare:
        step()
    blocks = len(bs.blocks_of(model, batch[0]))
    with pretend.counting() as counts:
        bs.diagnose(model, batch, optimizer=optimizer)
    assert counts.synchronizations <= 3 * blocks
    assert counts.launches <= 10 * bare.launches
    waits = []
    for steps in (8, 16):
        with pretend.counting() as counts:
            bs.forecast(model, [batch], optimizer=optimizer, spend=steps)
        waits.append(counts.synchronizations)
    assert waits[0] <= 8 + 40
    assert waits[1] - waits[0] <= 8 + 8  # a step each, and a stage at most


@pytest.mark.parametrize("name", ["resnet-20", "gpt-12"])
def test_a_diagnosis_waits_thrice_a_block(pretend, name):
    """With AdamW, whose moments are looked at too; 8 waits of gpt-12 are its own, for its tokens."""
    torch.manual_seed(0)
    if name == "gpt-12":
        model = bs.nets.build(name, width=32, vocabulary=64, context=16, seed=0, device="pretend:0")
        tokens = torch.randint(64, (4, 17), device="pretend:0")
        batch = tokens[:, :-1], tokens[:, 1:]
    else:
        model = bs.nets.build(name, num_classes=4, width=4, seed=0, device="pretend:0")
        batch = (
            torch.randn(8, 3, 8, 8, device="pretend:0"),
            torch.randint(4, (8,), device="pretend:0"),
        )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    blocks = len(bs.blocks_of(model, batch[0]))

    def loss(output, targets):
        return F.cross_entropy(output.flatten(0, -2), targets.flatten())

    with pretend.counting() as counts:
        bs.diagnose(model, batch, loss=loss, optimizer=optimizer)
    assert counts.synchronizations <= 3 * blocks


def test_the_waits_of_a_diagnosis_do_not_grow_with_the_depth(pretend):
    waits = []
    for depth in (4, 12):
        torch.manual_seed(0)
        layers = [part for _ in range(depth) for part in (nn.Linear(8, 8), nn.Tanh())]
        model = nn.Sequential(*layers, nn.Linear(8, 3)).to("pretend:0")
        batch = torch.randn(16, 8, device="pretend:0"), torch.arange(16, device="pretend:0") % 3
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        with pretend.counting() as counts:
            bs.diagnose(model, batch, optimizer=optimizer)
        waits.append(counts.synchronizations)
    assert waits[1] <= waits[0] + 3
    assert waits[0] <= 24


def wide_network(kind):
    """An MLP whose weights are most of what there is, with an optimizer that has taken a step."""
    torch.manual_seed(0)
    layers = [part for _ in range(12) for part in (nn.Linear(384, 384), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(384, 8)).to("pretend:0")
    batch = torch.randn(8, 384, device="pretend:0"), torch.randint(8, (8,), device="pretend:0")
    if kind == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()
    optimizer.zero_grad()
    gc.collect()
    return model, batch, optimizer


@pytest.mark.parametrize(
    ("call", "kind", "most"),
    [
        ("diagnose", "sgd", 3.1),
        ("diagnose", "adamw", 3.1),
        ("full", "sgd", 5.3),
        ("full", "adamw", 6.1),
        ("forecast", "sgd", 3.2),
        ("forecast", "adamw", 4.2),
    ],
)
def test_what_a_call_takes_beside_the_model(pretend, call, kind, most):
    """In sizes of the parameters: gradients, their step, the weights after it; a copy with its optimizer."""
    model, batch, optimizer = wide_network(kind)
    probes = "full" if call == "full" else "standard"
    with pretend.counting() as counts:
        if call == "forecast":
            bs.forecast(model, [batch], optimizer=optimizer, spend=8)
        else:
            bs.diagnose(model, batch, optimizer=optimizer, probes=probes, steps=2)
    assert counts.peak <= most * sum(p.nbytes for p in model.parameters())


@pytest.mark.parametrize("probes", ["standard", "full"])
def test_the_memory_that_is_promised_is_kept(pretend, probes):
    model, batch, optimizer = wide_network("adamw")
    size = sum(p.nbytes for p in model.parameters())
    allowed = (8 if probes == "full" else 5) * size
    with pretend.counting() as counts:
        found = bs.diagnose(
            model, batch, optimizer=optimizer, probes=probes, steps=2, memory=allowed / 2**30
        )
    assert counts.peak <= allowed
    assert not any("samples were measured" in note for note in found.notes)
    with pytest.raises(UsageError, match="the ceiling"):
        bs.diagnose(model, batch, optimizer=optimizer, probes=probes, memory=2 * size / 2**30)


def test_steps_in_parts_are_the_same_steps(pretend, monkeypatch):
    """Some parameters after the others, to the last bit; the groups stay as they were."""
    monkeypatch.setattr("bathyscope.core.stepping._LEAST_PART", 64)
    for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adadelta, torch.optim.RAdam):
        after = []
        for in_parts in (False, True):
            given = case("mlp").to("pretend:0")
            first, *rest = given.model.parameters()
            optimizer = kind([{"params": [first], "lr": 0.1}, {"params": rest}], lr=0.01)
            groups = [group["params"] for group in optimizer.param_groups]
            for _ in range(3):
                optimizer.zero_grad()
                given.loss(given.model(given.batch[0]), given.batch[1]).backward()
                take_step(optimizer) if in_parts else optimizer.step()
            assert len(parts_of(optimizer, [first, *rest])) > 2
            assert all(
                a is g["params"] for a, g in zip(groups, optimizer.param_groups, strict=True)
            )
            after.append([p.detach().cpu() for p in given.model.parameters()])
        assert all(map(torch.equal, *after)), kind
