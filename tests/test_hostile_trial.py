"""The faults that a hostile trial found, each by the number of its point: none may come back."""

import gc
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

import bathyscope as bs
from bathyscope.core.errors import UsageError
from bathyscope.curvature import hessian
from bathyscope.diagnosis.race import num_entrants
from bathyscope.measure import weights
from benchmarks.fuzzing.calls import first_difference, state_of
from tests.unchecked import unchecked


@pytest.fixture(autouse=True)
def _unchecked() -> Iterator[None]:
    """Everything here is given wrong things on purpose."""
    with unchecked():
        yield


class Words(nn.Module):
    """An embedding whose rows are rescaled in place by every pass, used again as the head."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 6, max_norm=0.5)
        self.inner, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.inner(self.embed(x).mean(dim=1))))


WORDS = (torch.arange(20).reshape(4, 5) % 5, torch.tensor([0, 1, 2, 0]))
VECTORS = (torch.randn(4, 4), torch.tensor([0, 1, 2, 0]))


def mlp(*between):
    return nn.Sequential(nn.Linear(4, 6), *between, nn.Tanh(), nn.Linear(6, 3))


@pytest.mark.parametrize(
    "call",
    [
        lambda m: bs.diagnose(m, WORDS),
        lambda m: bs.diagnose(m, WORDS, probes="full", steps=1),
        lambda m: hessian(m, WORDS).extremes(1),
        lambda m: bs.blocks_of(m, WORDS[0]),
    ],
    ids=["diagnose", "full", "hessian", "blocks_of"],
)
def test_an_embedding_of_bounded_norm_keeps_its_weights(call):
    model = Words()
    before = model.embed.weight.detach().clone()
    assert (before.norm(dim=1) > 0.5).any()
    call(model)
    assert torch.equal(model.embed.weight, before)


@pytest.mark.parametrize("norm", [parametrizations.spectral_norm, nn.utils.spectral_norm])
def test_spectral_norm_in_train_mode_keeps_its_vectors(norm):
    model = mlp(norm(nn.Linear(6, 6))).train()
    before = state_of(model)
    weights(model, VECTORS)
    assert first_difference(before, state_of(model)) == ""


def inference_model():
    with torch.inference_mode():
        return mlp()


def sparse_model():
    model = mlp()
    model.extra = nn.Parameter(torch.eye(3).to_sparse())
    return model


@pytest.mark.parametrize("make", [inference_model, sparse_model])
def test_sparse_and_inference_tensors_are_refused_and_the_mode_is_kept(make):
    model = make().train()
    for call in (bs.diagnose, hessian, weights):
        with pytest.raises(UsageError, match=r"inference mode|sparse"):
            call(model, VECTORS)
    assert all(module.training for module in model.modules())
    with bs.preserve_model(model):  # and what protects a model can itself put all of it back
        model.eval()
    assert all(module.training for module in model.modules())


def test_two_threads_may_diagnose_one_model():
    model = mlp(nn.BatchNorm1d(6), nn.Dropout(0.3)).train()
    before, errors = state_of(model), []

    def work():
        try:
            for _ in range(4):
                bs.diagnose(model, VECTORS)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert first_difference(before, state_of(model)) == ""


def test_certify_leaves_the_random_numbers():
    data = torch.utils.data.TensorDataset(torch.randn(40, 4), torch.randn(40, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    before = state_of(model)
    bs.certificates.certify(model, loader)
    assert first_difference(before, state_of(model)) == ""


def test_an_old_style_norm_leaves_no_graph_behind():
    model = mlp(nn.utils.weight_norm(nn.Linear(6, 6)))
    before = model[1].weight
    bs.diagnose(model, VECTORS)
    assert model[1].weight is before


def test_diagnose_holds_no_tensors_afterwards(monkeypatch):
    made, forward = [], nn.Tanh.forward

    def remembered(self, x):
        out = forward(self, x)
        made.append(weakref.ref(out))
        return out

    monkeypatch.setattr(nn.Tanh, "forward", remembered)
    bs.diagnose(mlp(nn.Tanh(), nn.Linear(6, 6)), VECTORS)
    gc.collect()
    assert made
    assert [ref for ref in made if ref() is not None] == []


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(checkpoint(torch.tanh, self.first(x), use_reentrant=True))


def with_failing_hook():
    def fail(module, inputs, outputs):
        raise ValueError("a hook of the user's")

    model = mlp()
    model[0].register_full_backward_hook(fail)
    return model


ODD = {
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(3)), "has no values yet"),
    "meta": (lambda: mlp().to("meta"), "meta device"),
    "jit": (lambda: torch.jit.script(nn.Sequential(nn.Linear(4, 3))), "torch.jit"),
    "checkpoint": (Checkpointed, "use_reentrant=False"),
    "hook": (with_failing_hook, "a hook of the user's"),
    "empty": (lambda: nn.Linear(4, 0), "are empty"),
    "complex": (lambda: mlp().to(torch.complex64), "omplex"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ODD)
def test_an_odd_model_is_refused_in_one_sentence(name):
    make, message = ODD[name]
    with pytest.raises(UsageError, match=message) as refusal:
        bs.diagnose(make(), VECTORS)
    assert "\n" not in str(refusal.value)


def test_lbfgs_is_diagnosed_without_its_step():
    model = mlp()
    result = bs.diagnose(model, VECTORS, optimizer=torch.optim.LBFGS(model.parameters()))
    assert any("closure" in note for note in result.notes)


def test_no_blocks_and_an_empty_name():
    for blocks in ("", [], [""]):
        with pytest.raises(UsageError, match="blocks"):
            bs.diagnose(mlp(), VECTORS, blocks=blocks)


def test_a_loader_that_fails_midway():
    def batches():
        yield VECTORS
        raise OSError("the disk is gone")

    with pytest.raises(UsageError, match="The data could not be read: OSError: the disk is gone"):
        hessian(mlp(), batches())


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3)])
@unchecked()
def test_numbers_of_numpy_are_numbers(seed):
    H = hessian(mlp(), VECTORS)
    assert H.trace(exact=False, seed=seed).value == H.trace(exact=False, seed=3).value
    assert H.extremes(np.int64(1), seed=seed).largest.values.shape == (1,)


def test_a_diagnosis_inside_a_watched_loop_is_no_step():
    model = mlp()
    with bs.watch(model, every=1) as seen:
        for _ in range(3):
            F.cross_entropy(model(VECTORS[0]), VECTORS[1]).backward()
            bs.diagnose(model, VECTORS)
    assert seen.steps == 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [sparse_model, lambda: torch.jit.script(mlp())])
def test_watch_does_not_raise_into_the_loop(make):
    model = make()
    with bs.watch(model, every=1):
        F.cross_entropy(model(VECTORS[0]), VECTORS[1]).backward()
    dense = [p for p in model.parameters() if p.layout is torch.strided]
    assert all(p.grad is not None for p in dense)


class NoTokens(nn.Module):
    """A block whose output has tokens of no number, as an empty sequence has."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        return self.inner(x[:, None][:, :0])


def test_what_fails_inside_a_watched_pass_is_a_warning():
    model = nn.Sequential(nn.Linear(4, 4), NoTokens())
    with pytest.warns(UserWarning, match="watch stopped"), bs.watch(model, every=1):
        model(VECTORS[0]).sum().backward()
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.filterwarnings("ignore")
def test_lazy_and_meta_models_are_watched():
    lazy = nn.Sequential(nn.LazyLinear(6), nn.Tanh(), nn.LazyLinear(3))
    with bs.watch(lazy, every=1) as seen:
        for _ in range(3):
            F.cross_entropy(lazy(VECTORS[0]), VECTORS[1]).backward()
    assert seen.steps >= 2
    meta = mlp().to("meta")
    with bs.watch(meta, every=1):
        meta(VECTORS[0].to("meta")).sum().backward()


@pytest.mark.parametrize("optimizer", [[1], "sgd", torch.optim.SGD])
@unchecked()
def test_what_is_no_optimizer_is_said(optimizer):
    with pytest.raises(UsageError, match=r"torch\.optim\.Optimizer"):
        bs.diagnose(mlp(), VECTORS, optimizer=optimizer)


def test_treat_without_an_optimizer_gives_one_of_the_models_parameters():
    model = mlp()
    with torch.no_grad():
        model[0].weight.mul_(40)
    treatment = bs.treat(model, bs.diagnose(model, VECTORS))
    held = {id(p) for group in treatment.optimizer.param_groups for p in group["params"]}
    assert held & {id(p) for p in model.parameters()}


def test_the_full_probes_of_a_group_norm():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(1, 4), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)
    )
    result = bs.diagnose(
        model, (torch.randn(6, 1, 4, 4), torch.arange(6) % 3), probes="full", steps=1
    )
    assert result.blocks


def test_a_zero_size_parameter_beside_others_and_a_frozen_model():
    model = mlp()
    model.register_parameter("nothing", nn.Parameter(torch.zeros(0, 3)))
    assert bs.diagnose(model, VECTORS).blocks
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert bs.diagnose(model, VECTORS).blocks
    for call in (lambda: hessian(model, VECTORS), lambda: bs.forecast(model, [VECTORS])):
        with pytest.raises(UsageError, match=r"requires_grad|requires a gradient"):
            call()


def test_parameters_that_are_not_contiguous_can_be_checked():
    torch.manual_seed(0)
    model = bs.nets.resnest(3, 2, width=4, feature_sizes=[5, 5])
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(module.weight.detach().T.contiguous().T)
    assert not all(p.is_contiguous() for p in model.parameters())
    data = (torch.randn(40, 3), torch.randn(40, 2))
    assert bs.claims.check("nests.theorem_1", model=model, data=data).verdict


def test_a_number_of_seeds_that_is_none(tmp_path):
    for seeds in (float("nan"), 0, 1.5, "2"):
        with pytest.raises(UsageError, match="seeds is a whole number of at least 1"):
            bs.studies.run("shortcut_length.figure_4", out=tmp_path, seeds=seeds)
    with pytest.raises(UsageError, match="workers"):
        bs.studies.run("shortcut_length.figure_4", out=tmp_path, workers=0)
    assert not list(tmp_path.iterdir())


class Failing(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield VECTORS
        raise OSError("the disk is gone")


@pytest.mark.parametrize("call", [bs.forecast, bs.foresight.features])
def test_a_loader_that_fails_midway_in_a_forecast(call):
    with pytest.raises(UsageError, match="The data could not be read: OSError: the disk is gone"):
        call(mlp(), Failing())


def test_a_forecast_over_a_shuffling_loader_leaves_the_random_numbers():
    data = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.arange(24) % 3)
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    model = mlp()
    before = state_of(model)
    bs.forecast(model, loader, spend=1)
    assert first_difference(before, state_of(model)) == ""


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (lambda m: torch.optim.LBFGS(m.parameters()), "closure"),
        (lambda m: torch.optim.SGD(mlp().parameters(), lr=0.1), "none of the model's parameters"),
        (lambda m: torch.optim.SGD, "torch.optim.Optimizer"),
    ],
)
def test_an_optimizer_that_cannot_train_the_model(optimizer, message):
    model = mlp()
    with pytest.raises(UsageError, match=message):
        bs.forecast(model, [VECTORS], optimizer=optimizer(model))


def test_a_race_without_end_is_not_planned():
    assert num_entrants([1.0] * 1000, 2.0**60) == 1000


class GraphNet(nn.Module):
    """Layers that pass on along the edges of a graph, which is sparse."""

    def __init__(self, edges=None):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))
        self.register_buffer("edges", edges)

    def forward(self, x, edges=None):
        for layer in self.layers:
            x = torch.sparse.mm(self.edges if edges is None else edges, layer(x)).relu()
        return x


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_sparse_graph_is_measured_as_a_buffer_watched_as_an_input_and_else_refused(layout):
    torch.manual_seed(0)
    edges = (torch.eye(16) + torch.eye(16).roll(1, 0)).to_sparse(layout=layout)
    nodes, labels = torch.randn(16, 6), torch.arange(16) % 6
    held = GraphNet(edges)
    assert len(bs.diagnose(held, (nodes, labels)).blocks) == 4
    assert held.edges is edges
    assert torch.equal(edges.to_dense(), torch.eye(16) + torch.eye(16).roll(1, 0))
    given = GraphNet()
    with pytest.raises(UsageError, match="is not dense"):
        bs.diagnose(given, ((nodes, edges), labels))
    with bs.watch(given, every=1) as seen:
        F.cross_entropy(given(nodes, edges), labels).backward()
    assert len(seen.table) == 4
