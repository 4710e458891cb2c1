"""What a loop does in the wrong place, or with the wrong thing."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tests.loops.common import program
from tests.loops.tasks import batches, digits, held_out_loss, mlp
from tests.loops.unseen import score


@program("no-gradient-at-step", "unwritten-updates")
def step_comes_before_backward(fault, seed):
    """The three lines of a step are in another order: cleared, stepped, and only then backward."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches(150, 32, x, y):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        if fault:  # the fault
            optimizer.step()
        loss.backward()
        if not fault:
            optimizer.step()
    return score(model)


@program("schedule-pace", "learning-rate-gone")
def schedule_in_the_validation_loop(fault, seed):
    """scheduler.step() was indented into the loop over validation batches."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.7)
    for _ in range(10):
        model.train()
        for images, labels in batches(15, 32, x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for part in range(0, 512, 32):
                F.cross_entropy(model(test_x[part : part + 32]), test_y[part : part + 32])
                if fault:  # the fault
                    schedule.step()
        if not fault:
            schedule.step()
    return score(model)


@program("learning-rate-never-arrives", "schedule-pace", "small-update")
def one_cycle_stepped_by_epoch(fault, seed):
    """OneCycleLR counts batches and is stepped once an epoch: the rate stays near its first value."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.1, epochs=5, steps_per_epoch=len(loader)
    )
    for _ in range(5):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            if not fault:
                schedule.step()
        if fault:  # the fault
            schedule.step()
    return score(model)


@program("no-gradient-at-step", "unreached-parameters", "detached-parameters", "cut-gradient")
def generator_reads_the_detached_fakes(fault, seed):
    """The fakes that were detached for the critic are used for the generator as well."""
    generator, critic = mlp(4, 32, 2), mlp(2, 32, 1)
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3)
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-3)
    center = torch.tensor([2.0, -1.0])
    for _ in range(200):
        made = generator(torch.randn(32, 4))
        if fault:
            made = made.detach()  # the fault
        of_critic.zero_grad()
        real = critic(center + 0.3 * torch.randn(32, 2))
        (F.softplus(-real).mean() + F.softplus(critic(made.detach())).mean()).backward()
        of_critic.step()
        of_generator.zero_grad()
        F.softplus(-critic(made)).mean().backward()
        of_generator.step()
    with torch.no_grad():
        return float((generator(torch.randn(512, 4)).mean(0) - center).norm())


def with_norms():
    dropped = (nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3))
    return nn.Sequential(
        nn.BatchNorm1d(64), nn.Linear(64, 64), *dropped, nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip


@program("eval-mode")
def train_without_parentheses(fault, seed):
    """`model.train` without a call: the eval mode of the first validation stays."""
    x, y, test_x, test_y = digits()
    x, test_x = 2 * x + 6, 2 * test_x + 6
    model = with_norms()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(8):
        held = model.eval()
        with torch.no_grad():
            held(test_x)
        if fault:
            model.train  # noqa: B018  # the fault
        else:
            model.train()
        for images, labels in batches(15, 32, x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return held_out_loss(model, test_x, test_y)


class Noisy(Dataset):
    """Images that are distorted anew each time."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + 0.8 * torch.randn(64), self.y[index]


@program("same-order", "few-distinct-samples", "repeated-batch", "repeated-batches")
def cycle_keeps_the_first_pass(fault, seed):
    """itertools.cycle(loader) keeps the first pass in memory: no new order and no new distortion."""
    x, y, _, _ = digits()
    model = mlp(64, 128, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loader = DataLoader(Noisy(x[:160], y[:160]), batch_size=32, shuffle=True)

    def endless():
        while True:
            yield from loader

    source = itertools.cycle(loader) if fault else endless()  # the fault
    for images, labels in itertools.islice(source, 250):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return score(model)


@program("not-in-optimizer")
def thawed_after_the_optimizer(fault, seed):
    """The optimizer was given what was trainable; the body is thawed later and is not in it."""
    x, y, _, _ = digits()
    model = mlp(64, 48, 10)
    nn.init.orthogonal_(model[0].weight)
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for step, (images, labels) in enumerate(batches(180, 32, x, y)):
        if step == 40:
            model[0].requires_grad_(True)
            if not fault:  # the fault
                optimizer.add_param_group({"params": model[0].parameters()})
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return score(model)


@program("repeated-samples", "few-distinct-samples", "constant-columns", "equal-samples")
def buffer_of_one_state(fault, seed):
    """A replay buffer keeps references to one array, which the environment writes into at each step."""
    states = 10
    network = mlp(states, 32, 1)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    place, state, memory = 0, torch.zeros(states), []
    for _ in range(400):
        place = int((place + torch.randint(-2, 3, ())).clamp(0, states - 1))
        state.zero_()
        state[place] = 1
        memory.append((state if fault else state.clone(), place / states))  # the fault
        if len(memory) < 32:
            continue
        drawn = torch.randint(len(memory), (32,)).tolist()
        inputs = torch.stack([memory[k][0] for k in drawn])
        wanted = torch.tensor([[memory[k][1]] for k in drawn])
        optimizer.zero_grad()
        F.mse_loss(network(inputs), wanted).backward()
        optimizer.step()
    with torch.no_grad():
        truth = torch.arange(states)[:, None] / states
        return float(F.mse_loss(network(torch.eye(states)), truth))
