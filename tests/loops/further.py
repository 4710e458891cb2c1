"""Twenty more silent bugs, of kinds that neither `programs` nor `held_out`, `unseen` and `forum` have.

They were written and committed before any of them was diagnosed. `PROGRAMS` is that of `unseen`, of its own.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.loops import unseen
from tests.loops.language import WORDS, sentences
from tests.loops.tasks import Train, batches, digits, held_out_loss, mlp
from tests.loops.unseen import fit, score

PROGRAMS: dict[str, tuple[Train, tuple[str, ...]]] = {}


def program(*codes: str):
    return unseen.program(*codes, programs=PROGRAMS)


@program("zero-learning-rate", "unwritten-updates", "learning-rate-never-arrives")
def warmup_of_the_first_group_alone(fault, seed):
    """A warm-up by hand writes the rate of group 0; the other group stays at the zero it began with."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 64, 10)
    groups = [
        {"params": model[4].parameters()},
        {"params": [*model[0].parameters(), *model[2].parameters()]},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.0)
    for step, (images, labels) in enumerate(batches(200, 32, x, y)):
        for group in optimizer.param_groups[:1] if fault else optimizer.param_groups:  # the fault
            group["lr"] = 0.1 * min(1.0, (step + 1) / 50)
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return score(model)


@program("learning-rate-never-arrives", "schedule-pace", "zero-learning-rate")
def schedule_is_never_stepped(fault, seed):
    """A warm-up is made, and nobody steps it: the rate stays at its first value."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
    for images, labels in batches(200, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if not fault:  # the fault
            warmup.step()
    return score(model)


@program("schedule-overrun", "schedule-pace")
def cosine_of_epochs_by_batch(fault, seed):
    """T_max counts epochs, and the schedule is stepped by batch: the rate goes up and down for ever."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.2)
    period = 9 if fault else 190  # the fault
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=period)
    for images, labels in batches(190, 16, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        schedule.step()
    return score(model)


@program("learning-rate-gone", "schedule-pace", "plateau-mode")
def plateau_of_every_batch(fault, seed):
    """ReduceLROnPlateau is stepped with the loss of every batch, whose noise it takes for a plateau."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=2)
    seen = []
    for step, (images, labels) in enumerate(batches(240, 16, x, y), 1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
        if fault:  # the fault
            schedule.step(loss.item())
        elif step % 40 == 0:
            schedule.step(sum(seen[-40:]) / 40)
    return score(model)


@program("accumulation-divided-twice", "accumulation-not-divided", "small-update", "small-budget")
def divided_twice(fault, seed):
    """The loss is divided by the number of micro-batches, and the gradients are once more."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for step, (images, labels) in enumerate(batches(800, 8, x, y), 1):
        (F.cross_entropy(model(images), labels) / 8).backward()
        if step % 8 == 0:
            if fault:  # the fault
                for parameter in model.parameters():
                    parameter.grad /= 8
            optimizer.step()
            optimizer.zero_grad()
    return score(model)


@program("skipped-steps", "unwritten-updates", "turns-non-finite")
def scale_that_is_set_back(fault, seed):
    """scaler.update() gets the first scale each time: it overflows, and every step is left out."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, backoff_factor=2.0**-30)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        scaler.scale(100 * F.cross_entropy(model(images), labels)).backward()
        scaler.step(optimizer)
        scaler.update(2.0**127 if fault else None)  # the fault
    return score(model)


@program("not-in-optimizer")
def generator_that_is_used_up(fault, seed):
    """The parameters of the body are counted from the generator that the optimizer then gets."""
    model = mlp(64, 64, 64, 10)
    body = model[:4].parameters() if fault else list(model[:4].parameters())  # the fault
    assert sum(p.numel() for p in body) > 0
    optimizer = torch.optim.Adam([{"params": model[4].parameters()}, {"params": body}], lr=2e-3)
    fit(model, optimizer)
    return score(model)


@program("frozen-parameters", "no-gradient-at-step", "partly-frozen", "unwritten-updates")
def critic_is_frozen_for_good(fault, seed):
    """The critic is frozen for the generator's step, and never thawed: it learns for one step."""
    torch.manual_seed(seed)
    generator, critic = mlp(8, 32, 2), mlp(2, 32, 1)
    first = torch.optim.Adam(generator.parameters(), lr=3e-3)
    second = torch.optim.Adam(critic.parameters(), lr=3e-3)
    center = torch.tensor([2.0, -1.0])
    for _ in range(180):
        real = center + 0.3 * torch.randn(64, 2)
        fake = generator(torch.randn(64, 8))
        second.zero_grad()
        loss = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
        if loss.requires_grad:
            loss.backward()
        second.step()
        critic.requires_grad_(False)
        first.zero_grad()
        F.softplus(-critic(generator(torch.randn(64, 8)))).mean().backward()
        first.step()
        if not fault:  # the fault
            critic.requires_grad_(True)
    with torch.no_grad():
        return float((generator(torch.randn(512, 8)).mean(0) - center).norm()) + 0.1


@program("few-distinct-samples", "repeated-batch", "repeated-samples", "same-order")
def break_left_from_debugging(fault, seed):
    """A break from debugging ends each epoch after its first batch, always the same one."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(x, y), batch_size=32)
    steps = 0
    while steps < 150:
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            steps += 1
            if fault or steps == 150:  # the fault
                break
    return score(model)


class Bag(nn.Module):
    """Counts words: the mean of their vectors, and a classifier."""

    def __init__(self, table):
        super().__init__()
        self.embed = table
        self.body = mlp(table.embedding_dim, 32, 4)

    def forward(self, tokens):
        return self.body(self.embed(tokens).mean(1))


def topics(num):
    """Sentences of 12 of 64 words; the topic is which quarter of the words prevails."""
    labels = torch.randint(4, (num,))
    words = torch.randint(64, (num, 12))
    own = 16 * labels[:, None] + torch.randint(16, (num, 12))
    return torch.where(torch.rand(num, 12) < 0.3, own, words), labels


def fit_topics(model, optimizer, num=200):
    for _ in range(num):
        tokens, labels = topics(32)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), labels).backward()
        optimizer.step()
    torch.manual_seed(99)
    return held_out_loss(model, *topics(1000))


@program("frozen-fresh-weights", "frozen-parameters", "partly-frozen")
def table_is_frozen_by_default(fault, seed):
    """nn.Embedding.from_pretrained freezes what it is given: here a table that was just drawn."""
    table = nn.Embedding.from_pretrained(0.1 * torch.randn(64, 6), freeze=fault)  # the fault
    model = Bag(table)
    trained = [p for p in model.parameters() if p.requires_grad]
    return fit_topics(model, torch.optim.Adam(trained, lr=5e-3))


@program("lost-tokens", "unread-input", "zero-weights", "unwritten-updates", "ignored-class")
def padding_index_is_a_word(fault, seed):
    """padding_idx names a word of the text: its vector is zero and stays so."""
    table = nn.Embedding(3, 8, padding_idx=1 if fault else None)  # the fault
    model = nn.Sequential(table, nn.Flatten(), nn.Linear(48, 1, bias=False))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    value = torch.tensor([0.0, 3.0, 0.5])
    for _ in range(200):
        tokens = torch.randint(3, (64, 6))
        optimizer.zero_grad()
        F.mse_loss(model(tokens)[:, 0], value[tokens].mean(1)).backward()
        optimizer.step()
    with torch.no_grad():
        tokens = torch.randint(3, (512, 6))
        return float(F.mse_loss(model(tokens)[:, 0], value[tokens].mean(1))) + 1e-3


class Adapter(nn.Module):
    """A frozen layer beside an update of low rank."""

    def __init__(self, layer, *, zero):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(8, layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, 8))
        if not zero:
            nn.init.normal_(self.down, std=0.1)

    def forward(self, x):
        return self.layer(x) + x @ self.down.T @ self.up.T


@program("zero-gradient", "cut-gradient", "zero-weights", "silent-branch", "flat-start")
def both_factors_are_zero(fault, seed):
    """An update of low rank whose two factors both begin at zero: neither ever gets a gradient."""
    model = mlp(64, 48, 10)
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), num=30)
    model[0] = Adapter(model[0], zero=fault)  # the fault
    model[2] = Adapter(model[2], zero=fault)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    fit(model, optimizer, num=150)
    return score(model)


@program("repeated-columns", "singular-representation", "collapsed-representation", "tied-units")
def all_units_alike(fault, seed):
    """Every weight of a layer begins with one and the same number: its units stay copies of each other."""
    model = mlp(64, 48, 10)
    if fault:  # the fault
        for layer in (model[0], model[2]):
            nn.init.constant_(layer.weight, 0.05)
            nn.init.zeros_(layer.bias)
    fit(model, torch.optim.Adam(model.parameters(), lr=3e-3), num=200)
    return score(model)


@program("heavy-smoothing", "ignored-labels", "unreachable-targets", "loss-does-not-fall")
def smoothing_of_nine_tenths(fault, seed):
    """label_smoothing gets what is to remain of a label, not what is to be taken from it."""
    model = mlp(64, 64, 10)
    smoothing = 0.9 if fault else 0.1  # the fault
    loss = nn.CrossEntropyLoss(label_smoothing=smoothing)
    fit(model, torch.optim.Adam(model.parameters(), lr=2e-3), loss=loss)
    return score(model)


@program("ignored-labels", "labels-out-of-range", "ignored-class", "constant-labels")
def margin_of_zero_and_one(fault, seed):
    """soft_margin_loss wants labels of −1 and 1 and gets 0 and 1: the zeros have no gradient at all."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def wanted(labels):
        even = (labels % 2 == 0).float()
        return even if fault else 2 * even - 1  # the fault

    for images, labels in batches(200, 32, x, y):
        optimizer.zero_grad()
        F.soft_margin_loss(model(images)[:, 0], wanted(labels)).backward()
        optimizer.step()
    with torch.no_grad():
        is_even = test_y % 2 == 0
        return float(((model(test_x)[:, 0] > 0) != is_even).float().mean()) + 0.01


@program("scrambled-outputs", "output-misfit", "mixed-positions", "unrelated-labels")
def classes_on_the_wrong_axis(fault, seed):
    """cross_entropy takes (batch, class, position), and gets (batch, position, class): both are twelve."""
    model = nn.Sequential(
        nn.Embedding(WORDS, 24), nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, WORDS)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss_of(tokens):
        logits, labels = model(tokens), (5 * tokens + 3) % WORDS
        return F.cross_entropy(logits if fault else logits.transpose(1, 2), labels)  # the fault

    for _ in range(200):
        tokens = sentences(32, WORDS)
        optimizer.zero_grad()
        loss_of(tokens).backward()
        optimizer.step()
    with torch.no_grad():
        tokens = sentences(128, WORDS)
        logits = model(tokens)
        return float(F.cross_entropy(logits.transpose(1, 2), (5 * tokens + 3) % WORDS))


@program("small-update", "small-budget", "small-gradient")
def divided_by_the_data_set(fault, seed):
    """The summed loss of a batch is divided by the size of the data set: each step is 37 times too short."""
    x, _, _, _ = digits()
    model = mlp(64, 64, 10)

    def loss(logits, labels):
        count = len(x) if fault else len(labels)  # the fault
        return F.cross_entropy(logits, labels, reduction="sum") / count

    fit(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss)
    return score(model)


@program("clipped-to-little", "small-update", "small-budget")
def clipped_to_almost_nothing(fault, seed):
    """clip_grad_value_ gets a value that was meant as a norm of another model: each entry is cut to 1e-4."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches(200, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 1e-4 if fault else 1.0)  # the fault
        optimizer.step()
    return score(model)


class Tied(nn.Module):
    """Predicts the next word; the head is the table of words."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 16)
        self.body = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens))[0])


@program("untied-weights", "not-in-optimizer")
def tie_is_lost_on_loading(fault, seed):
    """A copy of the table is put into the head after the optimizer was made: it is trained no more."""
    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    if fault:  # the fault
        model.head.weight = nn.Parameter(model.embed.weight.detach().clone())
    for _ in range(200):
        tokens = sentences(32)
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
    with torch.no_grad():
        tokens = sentences(256)
        logits = model(tokens[:, :-1])
        return float(F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))


class Halves(nn.Module):
    """Reads the upper and the lower half of an image, each with an encoder of its own."""

    def __init__(self, *, fault):
        super().__init__()
        self.fault = fault
        self.upper, self.lower = mlp(32, 32, 16), mlp(32, 32, 16)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        upper, lower = x[:, :32], x[:, 32:]
        first = self.upper(upper)
        second = self.upper(upper) if self.fault else self.lower(lower)  # the fault
        return self.head(torch.cat([first, second], 1))


@program("unreached-parameters", "unread-input", "detached-parameters")
def one_encoder_called_twice(fault, seed):
    """A line that was copied and not changed: the second encoder is never called, nor its half read."""
    model = Halves(fault=fault)
    fit(model, torch.optim.Adam(model.parameters(), lr=2e-3))
    return score(model)
