"""Rules of windows, settings, resuming, ranks and loaders, each on a loop with its fault and without."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset, TensorDataset

from bathyscope.core.loop_record import RankUse
from bathyscope.recorder import ledger_ranks
from bathyscope.recorder.ledger import Ledger
from bathyscope.recorder.loop_findings import loop_findings
from tests.loops.tasks import batches, digits, mlp
from tests.two_processes import results


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def sample(size=8):
    return torch.randn(size, 6), torch.randint(3, (size,))


def loss_of(model):
    x, y = sample()
    return F.cross_entropy(model(x), y)


def codes(record):
    return {f.code: str(f.severity) for f in loop_findings(record)}


@pytest.mark.parametrize("fault", [True, False])
def test_micro_batches_that_are_cleared(fault):
    model = mlp(6, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Ledger() as ledger:
        for number in range(1, 33):
            if fault or number % 4 == 1:
                optimizer.zero_grad()
            (loss_of(model) / 4).backward()
            if number % 4 == 0:
                optimizer.step()
    assert ("accumulation-cleared" in codes(ledger.record)) is fault


def test_gradients_of_another_loss_that_are_cleared_are_no_lost_micro_batches():
    generator, critic = mlp(4, 8, 6), mlp(6, 8, 1)
    step_g = torch.optim.SGD(generator.parameters(), lr=0.1)
    step_d = torch.optim.SGD(critic.parameters(), lr=0.1)
    with Ledger() as ledger:
        for _ in range(12):
            step_d.zero_grad()
            critic(generator(torch.randn(8, 4)).detach()).mean().backward()
            step_d.step()
            step_g.zero_grad()
            (-critic(generator(torch.randn(8, 4))).mean()).backward()
            step_g.step()
    assert codes(ledger.record) == {}


@pytest.mark.parametrize("weighted", [True, False])
def test_a_mean_of_means(weighted):
    model = mlp(6, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Ledger() as ledger:
        for _ in range(8):
            optimizer.zero_grad()
            for known in (2, 8):
                x, y = sample()
                y[known:] = -100
                weight = known / 10 if weighted else 1 / 2
                (F.cross_entropy(model(x), y) * weight).backward()
            optimizer.step()
    assert ("mean-of-means" in codes(ledger.record)) is not weighted


def test_a_last_window_of_another_size():
    model = mlp(6, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Ledger() as ledger:
        for window in range(12):
            optimizer.zero_grad()
            for _ in range(2 if window % 4 == 3 else 4):
                (loss_of(model) / 4).backward()
            optimizer.step()
    assert codes(ledger.record) == {"short-window": "warning"}


def scheduled(kind, *, by_hand=False, old=False, every=1, steps=40, **options):
    model = mlp(6, 8, 3)
    before = torch.optim.SGD(model.parameters(), lr=0.1)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = kind(before if old else optimizer, **options)
        for number in range(1, steps + 1):
            if by_hand:
                optimizer.param_groups[0]["lr"] = 0.1
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            if number % every == 0:
                schedule.step()
    return codes(ledger.record)


def test_a_schedule_that_is_written_over():
    options = {"T_max": 40}
    result = scheduled(lr_scheduler.CosineAnnealingLR, by_hand=True, **options)
    assert result == {"schedule-overwritten": "problem"}
    assert scheduled(lr_scheduler.CosineAnnealingLR, **options) == {}


def test_two_schedules_of_one_optimizer_do_not_write_over_each_other():
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedules = [
            lr_scheduler.LinearLR(optimizer, total_iters=10),
            lr_scheduler.ExponentialLR(optimizer, gamma=0.99),
        ]
        for _ in range(30):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            for schedule in schedules:
                schedule.step()
    assert codes(ledger.record) == {}


@pytest.mark.filterwarnings("ignore:Detected call of")
def test_a_schedule_of_an_optimizer_that_does_not_step():
    result = scheduled(lr_scheduler.ExponentialLR, old=True, gamma=0.99)
    assert result == {"schedule-of-another-optimizer": "problem"}


class Wrapper(torch.optim.Optimizer):
    """Stands around an optimizer, as that of accelerate does."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def defaults(self):
        return self.optimizer.defaults

    def step(self, closure=None):
        return self.optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)


@pytest.mark.filterwarnings("ignore:Detected call of")
def test_a_schedule_of_a_wrapped_optimizer_is_its_own():
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = Wrapper(torch.optim.SGD(model.parameters(), lr=0.1))
        schedule = lr_scheduler.ExponentialLR(optimizer, gamma=0.99)
        for _ in range(12):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            schedule.step()
    assert codes(ledger.record) == {}
    assert len(ledger.record.optimizers) == 1


def test_a_warmup_that_does_not_arrive():
    def warmup(n):
        return min(1.0, (n + 1) / 100)

    assert scheduled(lr_scheduler.LambdaLR, every=10, lr_lambda=warmup) == {
        "learning-rate-never-arrives": "warning"
    }
    assert scheduled(lr_scheduler.LambdaLR, lr_lambda=warmup) == {}


@pytest.mark.parametrize(
    ("kind", "options", "code"),
    [
        (torch.optim.SGD, {"momentum": 0.999}, "heavy-momentum"),
        (torch.optim.SGD, {"momentum": 0.99}, None),
        (torch.optim.Adam, {"betas": (0.9, 0.09)}, "reversed-betas"),
        (torch.optim.Adam, {"betas": (0.5, 0.9)}, None),
        (torch.optim.Adam, {"betas": (0.9, 0.9)}, None),
    ],
)
def test_settings_of_moments(kind, options, code):
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = kind(model.parameters(), lr=1e-3, **options)
        for _ in range(6):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
    assert list(codes(ledger.record)) == ([] if code is None else [code])


def resumed(folder, *, parts):
    """Train, save and go on in what could be another process: with some parts of the checkpoint."""
    model = mlp(6, 8, 3)
    optimizer = torch.optim.Adam(model.parameters())
    loss_of(model).backward()
    optimizer.step()
    schedule = lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    state = {"model": model, "optimizer": optimizer, "schedule": schedule}
    saved = {name: part.state_dict() for name, part in state.items()}
    torch.save(saved | {"rng": torch.get_rng_state()}, folder / "last.pt")
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.Adam(model.parameters())
        schedule = lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        saved = torch.load(folder / "last.pt")
        state = {"model": model, "optimizer": optimizer, "schedule": schedule}
        for name in parts:
            if name == "rng":
                torch.set_rng_state(saved["rng"])
            else:
                state[name].load_state_dict(saved[name])
        for _ in range(6):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            schedule.step()
    return ledger.record


def test_a_checkpoint_of_which_only_the_weights_are_loaded(tmp_path):
    record = resumed(tmp_path, parts=["model"])
    assert codes(record) == {"checkpoint-in-part": "warning"}
    assert loop_findings(record)[0].evidence["left_out"] == "optimizer, schedule, random state"
    most = ["model", "optimizer", "schedule"]
    assert codes(resumed(tmp_path, parts=most)) == {"checkpoint-in-part": "note"}
    assert codes(resumed(tmp_path, parts=[*most, "rng"])) == {}


def test_moments_that_are_lost_in_one_process():
    def train(*, keeps):
        model = mlp(6, 8, 3)
        with Ledger() as ledger:
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(2):
                if epoch:
                    weights, state = model.state_dict(), optimizer.state_dict()
                    model = mlp(6, 8, 3)
                    model.load_state_dict(weights)
                    optimizer = torch.optim.Adam(model.parameters())
                    if keeps:
                        optimizer.load_state_dict(state)
                for _ in range(5):
                    optimizer.zero_grad()
                    loss_of(model).backward()
                    optimizer.step()
        return codes(ledger.record)

    assert train(keeps=False) == {"moments-lost-on-resume": "warning"}
    assert train(keeps=True) == {}


def test_a_seed_at_every_step():
    def train(*, every):
        model = mlp(6, 8, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with Ledger() as ledger:
            for step in range(12):
                if step % every == 0:
                    torch.manual_seed(3)
                optimizer.zero_grad()
                loss_of(model).backward()
                optimizer.step()
        return codes(ledger.record)

    assert train(every=1)["reseeded"] == "problem"
    assert train(every=12) == {}


class Noisy(Dataset):
    """Adds noise of a generator of its own."""

    def __init__(self, generator):
        self.generator = generator

    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.zeros(6), index % 3


@pytest.mark.parametrize(
    ("generator", "workers", "init", "is_fault"),
    [
        (np.random.default_rng(0), 2, None, True),
        (torch.Generator(device="cpu"), 2, None, True),
        (np.random.default_rng(0), 0, None, False),
        (np.random.default_rng(0), 2, print, False),
        (None, 2, None, False),
    ],
)
def test_workers_with_equal_generators(generator, workers, init, is_fault):
    with Ledger() as ledger:
        loader = DataLoader(Noisy(generator), 8, num_workers=workers, worker_init_fn=init)
        ledger.record.loaders[0].batches = len(loader)
    assert ("equal-workers" in codes(ledger.record)) is is_fault


def test_the_same_order_in_every_epoch():
    def train(*, fixed):
        model = mlp(6, 8, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = sample(32)
        with Ledger() as ledger:
            generator = torch.Generator(device="cpu")
            loader = DataLoader(TensorDataset(x, y), 8, shuffle=True, generator=generator)
            for epoch in range(4):
                generator.manual_seed(0 if fixed else epoch)
                for a, b in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(a), b).backward()
                    optimizer.step()
        return codes(ledger.record)

    assert train(fixed=True) == {"same-order": "warning"}
    assert train(fixed=False) == {}


def test_a_loss_that_is_wrapped_anew_is_said():
    model = mlp(6, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Ledger() as ledger:
        for _ in range(6):
            optimizer.zero_grad()
            torch.tensor(loss_of(model).item(), requires_grad=True, device="cpu").backward()
            optimizer.step()
    (finding,) = loop_findings(ledger.record)
    assert finding.code == "no-gradient-at-step"
    assert "wrapped into a new tensor" in finding.title


def test_a_training_that_turns_to_nan():
    x, y, _, _ = digits()
    model = mlp(64, 32, 32, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e4)
    with Ledger() as ledger:
        for images, labels in batches(16, 16, x, y):
            optimizer.zero_grad()
            F.mse_loss(model(images), F.one_hot(labels, 10).float()).backward()
            optimizer.step()
    assert codes(ledger.record)["turns-non-finite"] == "problem"


def replicas(rank, folder):
    """Two ranks that average by hand: what is found for each fault, and how often they were compared."""
    import torch.distributed as dist

    outcome = {}
    for fault in ("none", "start", "one parameter", "data", "alone"):
        torch.manual_seed(rank if fault == "start" else 0)
        model = mlp(6, 8, 3)
        torch.manual_seed(0 if fault == "data" else 10 + rank)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ledger = Ledger()
        if fault != "alone" or rank == 0:
            ledger.start()
        for _ in range(12):
            optimizer.zero_grad()
            loss_of(model).backward()
            for number, parameter in enumerate(model.parameters()):
                if fault != "one parameter" or number:
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= 2
            optimizer.step()
        ledger.stop()
        outcome[fault] = (codes(ledger.record), ledger.record.ranks.compared)
        dist.barrier()
        clear(rank)
        dist.barrier()
    return outcome


def clear(rank):
    """Other runs of this test use the same store."""
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    for step in range(16):
        store.delete_key(f"bathyscope/replicas/{step}/{rank}")


def test_replicas_of_two_ranks(tmp_path):
    first, second = results(tmp_path, replicas)
    assert first["none"][0] == second["none"][0] == {}
    assert first["none"][1] >= 3
    assert first["start"][0] == {"replicas-differ": "problem"}
    assert first["one parameter"][0] == {"replicas-differ": "problem"}
    assert first["data"][0] == {"equal-ranks": "warning"}
    assert first["alone"] == ({}, 0)  # the other one is not watched, and nobody waits for it


def test_a_store_that_cannot_be_reached_ends_the_comparison_alone(monkeypatch):
    def no_store():
        raise RuntimeError("Broken pipe")

    monkeypatch.setattr(ledger_ranks, "rank_and_size", lambda: (0, 2))
    monkeypatch.setattr(ledger_ranks, "rank_store", no_store)
    model = mlp(6, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Ledger() as ledger:
        for _ in range(6):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
    assert ledger.record.steps == 6
    assert ledger.record.notes == ["Replicas were not compared: RuntimeError: Broken pipe."]


def test_trainings_side_by_side_are_no_replicas():
    with Ledger() as ledger:
        pass
    ledger.record.ranks = RankUse(
        size=2, compared=5, first_different=0, different=("0.weight",), num_parameters=4
    )
    assert codes(ledger.record) == {}
    ledger.record.ranks.is_sharded = True
    assert codes(ledger.record) == {}


def test_labels_that_belong_to_other_samples():
    x, y, _, _ = digits()

    def train(labels):
        model = mlp(64, 32, 10)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        with Ledger() as ledger:
            for images, wanted in batches(80, 32, x, labels):
                optimizer.zero_grad()
                F.cross_entropy(model(images), wanted).backward()
                optimizer.step()
        return codes(ledger.record)

    assert train(y.roll(1)) == {"unrelated-labels": "warning"}
    assert train(y) == {}


def test_half_of_a_layer_outside_of_the_optimizer():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    with Ledger() as ledger:
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.ndim == 1], lr=0.1)
        for _ in range(8):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
    assert codes(ledger.record) == {"not-in-optimizer": "warning"}


@pytest.mark.parametrize(
    ("switches", "every", "is_fault"), [(False, 6, True), (True, 6, False), (False, 1, False)]
)
def test_a_validation_in_train_mode(switches, every, is_fault):
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Ledger() as ledger:
        for step in range(1, 25):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            if step % every == 0:
                model.train(not switches)
                with torch.no_grad():
                    loss_of(model)
                model.train()
    assert ("validation-in-train-mode" in codes(ledger.record)) is is_fault
