"""What a plan says against what a diagnosis takes, on networks small enough to try both."""

import pytest
import torch

from bathyscope import nets
from bathyscope.core.errors import UsageError
from bathyscope.diagnosis import plan_diagnosis
from bathyscope.diagnosis.plan import _count_pass, _spectra


def saved_bytes(model, x):
    """What torch keeps of a real pass for the way back, by its own hooks."""
    own = {p.data_ptr() for p in model.parameters()}
    seen = {}

    def pack(tensor):
        if tensor.data_ptr() not in own:
            seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = model(x).square().mean()
    del loss
    return sum(storage.nbytes() for storage in seen.values())


@pytest.mark.parametrize("name", ["resnet-20", "densenet-16"])
def test_the_graph_on_the_meta_device_is_that_of_a_real_pass(name):
    x = torch.randn(2, 3, 16, 16)
    _, kept, _ = _count_pass(nets.skeleton(name), x.to("meta"))
    assert kept == pytest.approx(saved_bytes(nets.build(name, seed=0), x), rel=0.05)


def test_operations_are_those_of_the_layers():
    model = torch.nn.Sequential(
        torch.nn.Linear(7, 5, device="meta"), torch.nn.Linear(5, 3, device="meta")
    )
    operations, _, _ = _count_pass(model, torch.zeros(2, 7, device="meta"))
    assert operations == 2 * 2 * (7 * 5 + 5 * 3)


def test_a_model_with_weights_and_its_skeleton_have_one_plan():
    x = torch.zeros(8, 3, 16, 16)
    model = nets.build("resnet-20", seed=0)
    kept = [p.detach().clone() for p in model.parameters()]
    plans = [plan_diagnosis(m, x, memory=1.0) for m in (model, nets.skeleton("resnet-20"))]
    assert plans[0].probes == plans[1].probes
    assert all(torch.equal(p, k) for p, k in zip(model.parameters(), kept, strict=True))
    assert plans[0].parameters == sum(k.numel() for k in kept)


def test_samples_and_blocks_are_chosen_to_fit():
    x = torch.zeros(512, 3, 32, 32)
    roomy, tight = (plan_diagnosis(nets.skeleton("resnet-56"), x, memory=m) for m in (100.0, 0.5))
    assert (roomy.samples, roomy.blocks) == (512, roomy.total_blocks)
    assert 2 <= tight.samples < 512
    assert tight.memory <= tight.ceiling < roomy.memory
    assert f"{tight.samples} of 512 samples" in str(tight)
    wide = nets.skeleton("gpt-12", width=1024, vocabulary=97, context=8)
    few = plan_diagnosis(wide, torch.zeros(2, 8, dtype=torch.long), memory=100.0)
    assert (
        2 <= few.blocks < few.total_blocks
    )  # spectra of wide weights cost far more than two short samples
    with pytest.raises(UsageError, match=r"more than 1\.05 MB, the ceiling"):
        plan_diagnosis(nets.skeleton("resnet-56"), x, memory=2**20 / 2**30 * 1.0)


def test_billions_of_parameters_are_planned():
    model = nets.skeleton("gpt-6", width=12288, heads=96, vocabulary=97, context=16)
    plan = plan_diagnosis(model, torch.zeros(2, 16, dtype=torch.long), memory=4000.0)
    assert plan.parameters > 1e10
    assert plan.memory > 4 * plan.parameters


def test_a_matrix_is_decomposed_once_and_a_tensor_in_every_mode():
    eigenvalues, gram = 14 * 64**3, 2 * 2 * 64 * 64 * 256
    assert _spectra((64, 256)) == _spectra((256, 64)) == eigenvalues + gram
    assert _spectra((4, 4, 4)) == 3 * (14 * 4**3 + 2 * 2 * 4 * 4**3)
    assert _spectra((2048, 4096)) == 0  # wider than what is decomposed


def test_an_optimizer_costs_copies_in_double():
    x = torch.zeros(2, 3, 8, 8)
    bare, sgd, adam = (
        plan_diagnosis(nets.skeleton("resnet-56"), x, optimizer=o, memory=10.0).memory
        for o in (None, "sgd", "adam")
    )
    assert bare < sgd < adam
