"""Twenty silent bugs of kinds that the other programs of this folder do not have, with corrected twins.

They were written and committed before any of them was diagnosed. `PROGRAMS` maps a name to a function of
`(fault, seed)` that returns a score on held-out data (lower is better), and to the codes that name its cause.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import Train, batches, digits, held_out_loss, mlp, on_two_ranks

PROGRAMS: dict[str, tuple[Train, tuple[str, ...]]] = {}


def program(
    *codes: str, programs: dict[str, tuple[Train, tuple[str, ...]]] = PROGRAMS
) -> Callable[[Train], Train]:
    """Add a program whose cause is named by one of these codes."""

    def add(train: Train) -> Train:
        def seeded(fault: bool, seed: int = 0) -> float:
            torch.manual_seed(seed)
            return train(fault, seed)

        programs[train.__name__] = (seeded, codes)
        return train

    return add


def fit(model, optimizer, num=150, size=32, loss=F.cross_entropy):
    """A plain loop on the digits."""
    x, y, _, _ = digits()
    for images, labels in batches(num, size, x, y):
        optimizer.zero_grad()
        loss(model(images), labels).backward()
        optimizer.step()


def score(model):
    _, _, x, y = digits()
    return held_out_loss(model, x, y)


@program("frozen-fresh-weights", "frozen-parameters", "partly-frozen")
def frozen_by_prefix(fault, seed):
    """A pretrained first layer is frozen by a prefix that other layers have, too."""
    layers = {"layer1": nn.Linear(64, 48)}
    for number in (2, 10, 11, 12):
        layers |= {f"relu{number}": nn.ReLU(), f"layer{number}": nn.Linear(48, 48)}
    model = nn.Sequential()
    for name, layer in layers.items():
        model.add_module(name, layer)
    model.add_module("head", nn.Linear(48, 10))
    pretrained = {"weight": torch.randn(48, 64).sign() / 8, "bias": torch.rand(48) / 8}
    model.layer1.load_state_dict(pretrained)
    for name, parameter in model.named_parameters():
        prefix = "layer1" if fault else "layer1."  # the fault
        parameter.requires_grad_(not name.startswith(prefix))
    fit(model, torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3))
    return score(model)


class LowRank(nn.Module):
    """A layer and an update of low rank, merged at each pass, or once and for all."""

    def __init__(self, inputs, outputs, *, once):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.base.weight.requires_grad_(False)
        self.down, self.up = (
            nn.Parameter(torch.randn(4, inputs) / 8),
            nn.Parameter(torch.zeros(outputs, 4)),
        )
        self.merged = (self.base.weight + self.up @ self.down).detach() if once else None

    def forward(self, x):
        weight = self.base.weight + self.up @ self.down if self.merged is None else self.merged
        return F.linear(x, weight, self.base.bias)


@program("unreached-parameters", "detached-parameters", "no-gradient-at-step")
def merged_once(fault, seed):
    """The low-rank updates are merged into the weights when the layer is made."""
    model = nn.Sequential(LowRank(64, 64, once=fault), nn.ReLU(), LowRank(64, 10, once=fault))
    fit(model, torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2))
    return score(model)


@program("accumulation-cleared")
def cleared_between_micro_batches(fault, seed):
    """Gradients are cleared for each micro-batch: of eight of them the step sees the last alone."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for number, (images, labels) in enumerate(batches(640, 4, x, y), 1):
        if fault or number % 8 == 1:
            optimizer.zero_grad()  # the fault
        (F.cross_entropy(model(images), labels) / 8).backward()
        if number % 8 == 0:
            optimizer.step()
    return score(model)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.digit, self.parity = mlp(64, 48, 48), nn.Linear(48, 10), nn.Linear(48, 2)

    def forward(self, x):
        hidden = F.relu(self.body(x))
        return self.digit(hidden), self.parity(hidden)


@program("unreached-parameters", "detached-parameters", "detached-term")
def item_in_the_sum(fault, seed):
    """The second of two losses enters their sum as a number."""
    x, y, test_x, test_y = digits()
    model = TwoHeads()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        digit, parity = model(images)
        second = F.cross_entropy(parity, labels % 2)
        (
            F.cross_entropy(digit, labels) + (second.item() if fault else second)
        ).backward()  # the fault
        optimizer.step()
    with torch.no_grad():
        digit, parity = model(test_x)
        return float(F.cross_entropy(digit, test_y) + F.cross_entropy(parity, test_y % 2))


@program("summed-loss", "large-update", "unstable-rate", "overshooting-step")
def summed_over_the_batch(fault, seed):
    """reduction="sum" at a learning rate that was tuned for means."""
    model = mlp(64, 64, 64, 10)
    reduction = "sum" if fault else "mean"  # the fault
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    fit(model, optimizer, loss=lambda a, b: F.cross_entropy(a, b, reduction=reduction))
    return score(model)


@program("unrelated-labels")
def labels_of_the_sample_before(fault, seed):
    """Labels are read from a list that begins one sample later."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    labels = y.roll(1) if fault else y  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, wanted in batches(200, 64, x, labels):
        optimizer.zero_grad()
        F.cross_entropy(model(images), wanted).backward()
        optimizer.step()
    return score(model)


@program("schedule-overwritten")
def rate_written_over_the_schedule(fault, seed):
    """The loop sets the learning rate at each step: the decay of the schedule never shows."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.6)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
    for images, labels in batches(200, 8, x, y):
        if fault:
            optimizer.param_groups[0]["lr"] = 0.6  # the fault
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        schedule.step()
    return score(model)


@program("heavy-weight-decay")
def decay_meant_for_another_form(fault, seed):
    """AdamW's decay is divided by the learning rate twice: the weights shrink to nothing."""
    model = mlp(64, 64, 64, 10)
    decay = 30.0 if fault else 0.03  # the fault
    fit(model, torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=decay), num=200)
    return score(model)


class Encoded(nn.Module):
    def __init__(self, *, without_gradient):
        super().__init__()
        self.encoder, self.head = mlp(64, 32, 4), nn.Linear(4, 10)
        self.without_gradient = without_gradient

    def forward(self, x):
        with torch.set_grad_enabled(not self.without_gradient):
            hidden = self.encoder(x)
        return self.head(F.relu(hidden))


@program("unreached-parameters", "detached-parameters", "cut-gradient", "no-gradient-at-step")
def encoder_under_no_grad(fault, seed):
    """The encoder runs under no_grad, as the one of the evaluation does."""
    model = Encoded(without_gradient=fault)
    fit(model, torch.optim.Adam(model.parameters(), lr=3e-3), num=250)
    return score(model)


@program("not-in-optimizer")
def only_the_last_group(fault, seed):
    """The groups are gathered in a variable that each of them overwrites."""
    model = mlp(64, 64, 64, 10)
    groups = []
    for is_bias in (False, True):
        chosen = [p for p in model.parameters() if (p.ndim == 1) == is_bias]
        group = {"params": chosen, "weight_decay": 0.0 if is_bias else 1e-3}
        groups = [group] if fault else [*groups, group]  # the fault
    fit(model, torch.optim.Adam(groups, lr=3e-3), num=200)
    return score(model)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = (
            nn.RNN(8, 64, nonlinearity="relu", batch_first=True),
            nn.Linear(64, 10),
        )
        nn.init.normal_(self.cell.weight_hh_l0, std=0.3)

    def forward(self, x):
        return self.head(self.cell(x.view(-1, 8, 8))[0][:, -1])


@program("clip-before-backward", "clip-of-others")
def clips_the_parameters_of_a_copy(fault, seed):
    """The list of parameters to clip was taken from another model."""
    x, y, _, _ = digits()
    model, other = Recurrent(), Recurrent()
    clipped = list((other if fault else model).parameters())  # the fault
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for images, labels in batches(200, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        nn.utils.clip_grad_norm_(clipped, 0.5)
        optimizer.step()
    value = score(model)
    return value if value == value and value < 50 else 50.0


@program("learning-rate-never-arrives", "small-update", "small-budget", "zero-learning-rate")
def warmup_is_stepped_by_epoch(fault, seed):
    """A warm-up of 100 steps is stepped once an epoch: the training ends at 6 % of its rate."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 100))
    for number, (images, labels) in enumerate(batches(200, 32, x, y), 1):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if not fault or number % 37 == 0:
            schedule.step()  # the fault
    return score(model)


@program("schedule-of-another-optimizer")
def schedule_of_the_old_optimizer(fault, seed):
    """The optimizer is made again after its schedule, which keeps turning down the old one."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 64, 10)
    old = torch.optim.SGD(model.parameters(), lr=0.6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.6)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        old if fault else optimizer, T_max=200
    )  # the fault
    for images, labels in batches(200, 8, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        schedule.step()
    return score(model)


@program("small-update", "small-budget", "learning-rate-never-arrives", "still-group")
def rate_of_the_head_in_another_unit(fault, seed):
    """The rate of the body is given in thousandths."""
    model = mlp(64, 4, 64, 10)
    rate = 1e-8 if fault else 1e-2  # the fault
    groups = [{"params": model[:3].parameters(), "lr": rate}, {"params": model[3:].parameters()}]
    fit(model, torch.optim.Adam(groups, lr=1e-2), num=250)
    return score(model)


@program("missing-logarithm")
def probabilities_in_the_divergence(fault, seed):
    """kl_div gets probabilities where it wants their logarithms."""
    x, _, test_x, _ = digits()
    teacher = mlp(64, 64, 10)
    fit(teacher, torch.optim.Adam(teacher.parameters(), lr=3e-3))
    teacher.requires_grad_(False)
    student = mlp(64, 32, 10)
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    for (images,) in batches(200, 32, x):
        optimizer.zero_grad()
        own = student(images)
        own = own.softmax(1) if fault else own.log_softmax(1)  # the fault
        F.kl_div(own, teacher(images).softmax(1), reduction="batchmean").backward()
        optimizer.step()
    with torch.no_grad():
        own, wanted = student(test_x).log_softmax(1), teacher(test_x).softmax(1)
        return float(F.kl_div(own, wanted, reduction="batchmean"))


@program("heavy-momentum", "unstable-rate", "overshooting-step", "large-update")
def momentum_of_the_second_moment(fault, seed):
    """SGD gets the 0.999 of Adam's second moment as its momentum."""
    model = mlp(64, 64, 64, 10)
    momentum = 0.999 if fault else 0.9  # the fault
    fit(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=momentum), num=200)
    value = score(model)
    return value if value == value and value < 50 else 50.0


@program("moments-lost-on-resume")
def resumed_without_the_moments(fault, seed):
    """A checkpoint has the state of Adam, and the training that goes on from it does not load it."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, betas=(0.9, 0.9999))
    for epoch in range(8):
        if epoch:
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            model = mlp(64, 64, 64, 10)
            model.load_state_dict(saved["model"])
            optimizer = torch.optim.Adam(model.parameters(), lr=0.02, betas=(0.9, 0.9999))
            if not fault:
                optimizer.load_state_dict(saved["optimizer"])  # the fault
        for images, labels in batches(25, 16, x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return score(model)


@program("replicas-differ")
def ranks_that_start_apart(fault, seed):
    """Gradients are averaged by hand, and each rank has its own random start."""
    import torch.distributed as dist

    def on_rank(rank):
        x, y, test_x, test_y = digits()
        torch.manual_seed(seed + (rank if fault else 0))  # the fault
        model = mlp(64, 64, 10)
        torch.manual_seed(seed + 7 * rank)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
        for images, labels in batches(100, 16, x[rank::2], y[rank::2]):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= 2
            optimizer.step()
        return held_out_loss(model, test_x, test_y)

    return on_two_ranks(on_rank)


@program("repeated-batch", "few-distinct-samples", "reseeded")
def seeded_at_each_step(fault, seed):
    """The seed is set where the batch is drawn: each step draws the same one."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        if fault:
            torch.manual_seed(seed)  # the fault
        index = torch.randint(len(x), (32,))
        optimizer.zero_grad()
        F.cross_entropy(model(x[index]), y[index]).backward()
        optimizer.step()
    return score(model)


@program("unmixed-labels", "unrelated-labels")
def mixed_inputs_unmixed_labels(fault, seed):
    """Two images are mixed half and half, and the label is that of the first alone."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(250, 32, x, y):
        order, part = torch.randperm(32), torch.rand(())
        output = model(part * images + (1 - part) * images[order])
        first, second = F.cross_entropy(output, labels), F.cross_entropy(output, labels[order])
        optimizer.zero_grad()
        (first if fault else part * first + (1 - part) * second).backward()  # the fault
        optimizer.step()
    return score(model)
