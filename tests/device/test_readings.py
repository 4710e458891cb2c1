"""What is read of a device after a pass, together: small tensors whole, of large ones their numbers."""

import math
import sys

import pytest
import torch

import bathyscope as bs
from bathyscope.core.fetch import Readings, fetch, host_copies, keep_on_host, near, to_host
from bathyscope.core.preserve import preserve_model
from bathyscope.linalg import conditioning_of
from bathyscope.linalg.conditioning import conditioning_of_many, conditioning_of_modes
from bathyscope.linalg.norms import frobenius_norms
from bathyscope.measure.activations import _moments_of_sums, _sums_on_device, moments_of
from tests.device.networks import case


def test_tensors_of_all_kinds_come_in_one_transfer(pretend):
    given = [
        torch.randn(3, 4),
        torch.arange(5),
        torch.tensor(True),
        torch.randn(4, 5, dtype=torch.float64).T,
        torch.randn(3).half(),
        torch.empty(0, 2),
        torch.tensor([-0.0, math.nan]),
    ]
    there = [tensor.to("pretend:0") for tensor in given]
    with pretend.counting() as counts:
        near = to_host(there)
    assert counts.synchronizations == 1
    for ours, theirs in zip(near, given, strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    assert fetch([there[1], there[2]]) == [[0.0, 1.0, 2.0, 3.0, 4.0], [1.0]]


def test_what_is_kept_on_the_host_is_not_fetched_again_until_someone_writes_to_it(pretend):
    weight = torch.randn(3, 4).to("pretend:0").requires_grad_()
    large = torch.zeros(300, 300, device="pretend:0")
    keep_on_host([weight])
    assert near(weight) is weight  # outside of `host_copies` nothing is kept
    with host_copies():
        keep_on_host([weight, large])
        assert near(large) is large
        with pretend.counting() as counts:
            (first,) = to_host([weight.detach()])
            assert fetch([weight]) == [first.flatten().tolist()]
        assert counts.synchronizations == 0
        assert near(weight.detach().T).device.type == "pretend"  # of another layout
        with torch.no_grad():
            weight.add_(1.0)
        torch.testing.assert_close(to_host([weight])[0], first + 1.0)
    assert near(weight) is weight


def test_readings_wait_until_they_are_asked_for_and_keep_their_order(pretend):
    readings, heard = Readings(), []
    with pretend.counting() as counts:
        for number in range(3):
            value = torch.full((2,), float(number), device="pretend:0")
            readings.add(lambda *read: heard.append([r.tolist() for r in read]), value, value[0])
    assert counts.synchronizations == 0
    assert not heard
    with pretend.counting() as counts:
        readings.flush()
        readings.flush()
    assert counts.synchronizations == 1
    assert heard == [[[float(n)] * 2, float(n)] for n in range(3)]


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("lost", [(), (0,), range(60)])
def test_moments_on_the_device_are_those_of_the_host(pretend, scale, offset, lost):
    x = (torch.randn(3, 20, generator=torch.Generator().manual_seed(1)) + offset) * scale
    x.view(-1)[list(lost)] = math.inf
    sums = [number.item() for number in _sums_on_device(x.to("pretend:0"))]
    ours, theirs = _moments_of_sums(sums, x.numel()), moments_of(x)
    assert ours == pytest.approx(theirs, rel=1e-4, nan_ok=True)


def test_norms_on_the_device_are_those_of_the_host(pretend):
    given = [torch.randn(50) * s for s in (1.0, 1e-30, 1e30)]
    given += [torch.randn(50, dtype=torch.float64) * s for s in (1e-200, 1e200)]
    given += [torch.zeros(4, dtype=torch.float64), torch.empty(0), torch.tensor([math.inf, 1.0])]
    ours = frobenius_norms([tensor.to("pretend:0") for tensor in given])
    assert ours == pytest.approx(frobenius_norms(given), rel=1e-6)
    assert math.isnan(frobenius_norms([torch.tensor([math.nan], device="pretend:0")])[0])


def test_spectra_of_large_tensors_come_from_their_gram_matrices(pretend, monkeypatch):
    monkeypatch.setattr("bathyscope.linalg.conditioning._SMALL", 0)
    torch.manual_seed(0)
    given = [torch.randn(8, 200), torch.randn(8, 12) * 1e-25, torch.zeros(3, 4), torch.randn(6, 6)]
    given += [torch.tensor([[math.nan, 1.0]]), torch.randn(5, 4).half()]
    given[3][0] = given[3][1]  # of a rank that the Gram matrix leaves in doubt
    ours = conditioning_of_many([tensor.to("pretend:0") for tensor in given])
    for one, tensor in zip(ours, given, strict=True):
        theirs = conditioning_of(tensor)
        assert one.rank == theirs.rank
        assert one.stable_rank == pytest.approx(theirs.stable_rank, rel=1e-5, nan_ok=True)
        torch.testing.assert_close(
            one.singular_values, theirs.singular_values, rtol=1e-3, atol=0, equal_nan=True
        )
    with pretend.counting() as counts:
        modes = conditioning_of_modes(torch.randn(40, 6, 5, device="pretend:0"), (0, 1, 2))
    assert [c.rank for c in modes] == [30, 6, 5]
    assert counts.synchronizations == 1


def test_eigenvalues_of_wide_matrices_are_computed_together(pretend):
    """Two calls for those of two sizes, one transfer; one that holds NaN does not spoil the others."""
    torch.manual_seed(0)
    given = [torch.randn(520, 560) for _ in range(3)] + [torch.randn(530, 540) for _ in range(2)]
    there = [tensor.to("pretend:0") for tensor in given]
    with pretend.counting() as counts:
        found = conditioning_of_many(there)
    assert counts.synchronizations == 3
    for ours, tensor in zip(found, given, strict=True):
        torch.testing.assert_close(
            ours.singular_values, conditioning_of(tensor).singular_values, rtol=1e-4, atol=1e-4
        )
    there[1][3, 4] = math.nan
    lost, *others = conditioning_of_many([there[1], *there[:1], *there[2:]])
    assert lost.rank is None
    assert [c.rank for c in others] == [520, 520, 530, 530]


def test_strided_views_come_in_one_transfer(pretend):
    there = torch.arange(24.0, device="pretend:0").view(4, 6)
    with pretend.counting() as counts:
        one, other = to_host([there[:, ::5], there.flatten()[::7]])
    assert counts.synchronizations == 1
    assert one.tolist() == [[0, 5], [6, 11], [12, 17], [18, 23]]
    assert other.tolist() == [0, 7, 14, 21]


LARGE = (
    "core.fetch.SMALL",
    "measure.rows.SMALL",
    "measure.rows._SMALL",
    "measure.activations.SMALL",
    "measure.around.SMALL",
    "linalg.conditioning._SMALL",
)


@pytest.mark.parametrize(("name", "most"), [("resnet-20", 90), ("gpt-4", 100), ("lstm", 40)])
def test_large_tensors_give_the_same_diagnosis_and_make_the_host_wait_little(
    pretend, monkeypatch, name, most
):
    """As if every tensor were too large to be read whole."""
    given = case(name)
    near = bs.diagnose(given.model, given.batch, loss=given.loss)
    for limit in LARGE:
        module, _, attribute = limit.rpartition(".")
        monkeypatch.setattr(sys.modules[f"bathyscope.{module}"], attribute, 0)
    there = given.to("pretend:0")
    with pretend.counting() as counts:
        far = bs.diagnose(there.model, there.batch, loss=there.loss)
    assert [f.code for f in far.findings] == [f.code for f in near.findings]
    for key, measured in near.measurements.items():
        for column, values in measured.columns.items():
            for ours, theirs in zip(far.measurements[key].columns[column], values, strict=True):
                if isinstance(theirs, float) and math.isfinite(theirs):
                    assert ours == pytest.approx(theirs, rel=1e-2, abs=1e-5), (key, column)
    assert counts.synchronizations <= most


@pytest.mark.parametrize("name", ["resnet-20", "gpt-4"])
def test_batches_and_outputs_that_are_too_large_to_copy_stay_together(pretend, monkeypatch, name):
    given = case(name)
    near = bs.diagnose(given.model, given.batch, loss=given.loss)
    monkeypatch.setattr(
        "bathyscope.core.fetch._MOST_ENTRIES", 40
    )  # that the targets have, not the inputs
    there = given.to("pretend:0")
    for most in (1 << 24, 0):
        monkeypatch.setattr("bathyscope.core.fetch._MOST_OF_BATCH", most)
        far = bs.diagnose(there.model, there.batch, loss=there.loss)
        assert [f.code for f in far.findings] == [f.code for f in near.findings]
        for part in ("inputs", "labels"):
            for key, value in near.measurements[part].settings.items():
                assert far.measurements[part].settings[key] == pytest.approx(value, rel=1e-4)


def test_what_is_changed_behind_autograd_is_put_back_without_waiting(pretend):
    """Buffers of a device are written, not compared; a version that did not change does not change."""
    norm = torch.nn.BatchNorm1d(3).to("pretend:0")
    graph = norm.running_mean * torch.ones(3, device="pretend:0", requires_grad=True)
    version = norm.running_mean._version
    with pretend.counting() as counts, preserve_model(norm, copy_parameters=False):
        norm.running_mean.data.fill_(7.0)
        norm.running_var.fill_(5.0)
    assert counts.synchronizations == 0
    assert norm.running_mean.tolist() == [0.0] * 3
    assert norm.running_var.tolist() == [1.0] * 3
    assert norm.running_mean._version == version
    graph.sum().backward()  # torch would refuse, had the mean been written to in its eyes
