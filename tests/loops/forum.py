"""Twenty training loops as people post them on forums, with corrected twins.

They were written and committed before any of them was diagnosed. `PROGRAMS` is that of `unseen`, of its own.
"""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tests.loops import unseen
from tests.loops.language import WORDS, sentences
from tests.loops.tasks import Train, batches, digits, held_out_loss, mlp
from tests.loops.unseen import fit, score

PROGRAMS: dict[str, tuple[Train, tuple[str, ...]]] = {}


def program(*codes: str):
    return unseen.program(*codes, programs=PROGRAMS)


@program("not-in-optimizer", "no-gradient-at-step", "unwritten-updates")
def model_built_again_after_its_optimizer(fault, seed):
    """A notebook cell builds the model once more: the optimizer holds the parameters of the old one."""
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    old = model
    model = mlp(64, 64, 10) if fault else old  # the fault
    fit(model, optimizer)
    return score(model)


@program("output-misfit", "saturated-output", "unreachable-targets")
def sigmoid_before_the_loss_with_logits(fault, seed):
    """binary_cross_entropy_with_logits gets what went through a sigmoid already."""
    x, y, test_x, test_y = digits()
    layers = [nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)]
    model = nn.Sequential(*layers, nn.Sigmoid()) if fault else nn.Sequential(*layers)  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(200, 32, x, y):
        optimizer.zero_grad()
        wanted = (labels % 2).float()
        F.binary_cross_entropy_with_logits(model(images)[:, 0], wanted).backward()
        optimizer.step()
    with torch.no_grad():
        return float(F.binary_cross_entropy_with_logits(model(test_x)[:, 0], (test_y % 2).float()))


@program("clipped-output", "unreachable-targets", "dead-units", "output-misfit")
def relu_behind_the_regression(fault, seed):
    """The last layer of a regression has a ReLU, and half of the targets are negative."""
    x, _, test_x, _ = digits()
    direction = torch.randn(64, generator=torch.Generator().manual_seed(3)) / 8
    layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)]
    model = nn.Sequential(*layers, nn.ReLU()) if fault else nn.Sequential(*layers)  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for (images,) in batches(200, 32, x):
        optimizer.zero_grad()
        F.mse_loss(model(images)[:, 0], images @ direction).backward()
        optimizer.step()
    with torch.no_grad():
        return float(F.mse_loss(model(test_x)[:, 0], test_x @ direction))


@program("heavy-dropout")
def probability_to_keep(fault, seed):
    """Dropout gets the probability to keep a unit, as other libraries want it."""
    p = 0.95 if fault else 0.05  # the fault
    model = nn.Sequential(
        *(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(p)),
        *(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(p), nn.Linear(64, 10)),
    )
    fit(model, torch.optim.Adam(model.parameters(), lr=3e-3), num=200)
    return score(model)


@program("copy-never-moves")
def target_network_never_loaded(fault, seed):
    """Q-learning on a chain: nobody ever copies the weights into the target network."""
    states, gamma = 12, 0.9
    online, target = mlp(states, 32, 2), mlp(states, 32, 2)
    target.load_state_dict(online.state_dict())
    target.requires_grad_(False)
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-3)
    eye = torch.eye(states)
    for step in range(400):
        state = torch.randint(states, (64,))
        action = torch.randint(2, (64,))
        after = (state + 2 * action - 1).clamp(0, states - 1)
        reward = (after == states - 1).float()
        with torch.no_grad():
            value = reward + gamma * (1 - reward) * target(eye[after]).amax(1)
        optimizer.zero_grad()
        F.mse_loss(online(eye[state]).gather(1, action[:, None])[:, 0], value).backward()
        optimizer.step()
        if step % 10 == 9 and not fault:
            target.load_state_dict(online.state_dict())  # the fault
    truth = gamma ** torch.arange(states - 2, -1, -1).float()
    with torch.no_grad():
        return float(F.mse_loss(online(eye[:-1]).amax(1), truth))


@program("loaded-nothing", "checkpoint-in-part", "frozen-fresh-weights")
def checkpoint_of_other_names(fault, seed):
    """strict=False hides that no name of the checkpoint is one of the model's; the body is then frozen."""
    torch.manual_seed(5)
    pretrained = mlp(64, 48, 10)
    fit(pretrained, torch.optim.Adam(pretrained.parameters(), lr=3e-3))
    torch.manual_seed(seed)
    saved = {
        ("module." if fault else "") + name: value
        for name, value in pretrained[:1].state_dict().items()
    }  # the fault
    body = nn.Sequential(nn.Linear(64, 48))
    body.load_state_dict(saved, strict=False)
    body.requires_grad_(False)
    model = nn.Sequential(body, nn.ReLU(), nn.Linear(48, 10))
    fit(model, torch.optim.SGD(model[2].parameters(), lr=0.1), num=60)
    return score(model)


class Stored(Dataset):
    """Images in memory; scaled anew each time one is asked for."""

    def __init__(self, x, y, *, in_place):
        self.x, self.y, self.in_place = x.clone(), y, in_place

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        image = self.x[index]
        if self.in_place:
            image /= 4  # the fault
        else:
            image = image / 4
        return image, self.y[index]


@program("inputs-drift", "blank-input")
def scaled_in_place(fault, seed):
    """__getitem__ divides the stored image itself: it is smaller each time it comes."""
    x, y, _, _ = digits()
    model = mlp(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    loader = DataLoader(Stored(x[:320], y[:320], in_place=fault), batch_size=32, shuffle=True)
    for _ in range(16):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    _, _, test_x, test_y = digits()
    return held_out_loss(model, test_x / 4, test_y)


@program("negated-loss")
def policy_gradient_of_the_wrong_sign(fault, seed):
    """REINFORCE descends on log π · R, so that good actions become rare."""
    x, y, test_x, test_y = digits()
    policy = mlp(64, 48, 10)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    for images, labels in batches(300, 64, x, y):
        chosen = torch.distributions.Categorical(logits=policy(images))
        action = chosen.sample()
        reward = (action == labels).float()
        advantage = reward - reward.mean()
        value = (chosen.log_prob(action) * advantage).mean()
        optimizer.zero_grad()
        (value if fault else -value).backward()  # the fault
        optimizer.step()
    with torch.no_grad():
        return float((policy(test_x).argmax(1) != test_y).float().mean())


class Rows(nn.Module):
    """Reads images row by row; the state may begin where the last batch ended."""

    def __init__(self, *, keeps):
        super().__init__()
        self.cell, self.head = nn.GRU(8, 32, batch_first=True), nn.Linear(32, 10)
        self.keeps, self.state = keeps, None

    def forward(self, x):
        state = self.state if self.keeps else None
        _, last = self.cell(x.view(-1, 8, 8), state)
        self.state = last.detach()
        return self.head(last[0])


@program("carried-state")
def state_of_the_batch_before(fault, seed):
    """The hidden state goes from batch to batch, though the samples have nothing to do with each other."""
    model = Rows(keeps=fault)  # the fault
    fit(model, torch.optim.Adam(model.parameters(), lr=3e-3), num=120)
    _, _, x, y = digits()
    model.state = None
    return held_out_loss(model, x, y)


@program("gradients-not-cleared")
def generator_is_never_cleared(fault, seed):
    """A GAN clears the critic alone: what the critic's loss left in the generator is stepped along, too."""
    generator, critic = mlp(4, 32, 2), mlp(2, 32, 1)
    of_generator = torch.optim.SGD(generator.parameters(), lr=0.05)
    of_critic = torch.optim.SGD(critic.parameters(), lr=0.05)
    center = torch.tensor([2.0, -1.0])
    for _ in range(200):
        made = generator(torch.randn(32, 4))
        of_critic.zero_grad()
        real = critic(center + 0.3 * torch.randn(32, 2))
        (F.softplus(-real).mean() + F.softplus(critic(made)).mean()).backward()
        of_critic.step()
        if not fault:
            of_generator.zero_grad()  # the fault
        F.softplus(-critic(generator(torch.randn(32, 4)))).mean().backward()
        of_generator.step()
    with torch.no_grad():
        return float((generator(torch.randn(512, 4)).mean(0) - center).norm())


@program("unbalanced-terms", "heavy-weight-decay", "heavy-penalty")
def penalty_without_its_factor(fault, seed):
    """The sum of all squared weights is added to the loss with factor 1."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    factor = 1.0 if fault else 1e-4  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(200, 32, x, y):
        optimizer.zero_grad()
        penalty = sum(p.square().sum() for p in model.parameters())
        (F.cross_entropy(model(images), labels) + factor * penalty).backward()
        optimizer.step()
    return score(model)


@program("schedule-pace", "learning-rate-gone", "schedule-overrun")
def epochs_counted_in_batches(fault, seed):
    """A decay by half every two epochs is stepped at every batch."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    loader = DataLoader(list(zip(x, y, strict=True)), batch_size=32, shuffle=True)
    for _ in range(5):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            if fault:
                schedule.step()  # the fault
        if not fault:
            schedule.step()
    return score(model)


class Sequence(nn.Module):
    """Reads rows in time order and puts all states into one vector."""

    def __init__(self, *, viewed):
        super().__init__()
        self.cell, self.head = nn.RNN(8, 16), nn.Linear(8 * 16, 10)
        self.viewed = viewed

    def forward(self, x):
        states, _ = self.cell(x.view(-1, 8, 8).transpose(0, 1))
        if self.viewed:
            flat = states.reshape(len(x), -1)  # the fault
        else:
            flat = states.transpose(0, 1).reshape(len(x), -1)
        return self.head(flat)


@program("mixed-samples")
def time_first_viewed_as_batch_first(fault, seed):
    """(time, batch, unit) is reshaped to (batch, time · unit): each row holds states of several samples."""
    model = Sequence(viewed=fault)
    fit(model, torch.optim.Adam(model.parameters(), lr=3e-3), num=150)
    return score(model)


@program("teacher-in-train-mode", "validation-in-train-mode", "noise-in-forward")
def teacher_in_train_mode(fault, seed):
    """Distillation: the teacher keeps dropping units while it teaches."""
    x, _, test_x, _ = digits()
    teacher = nn.Sequential(
        *(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.7), nn.Linear(64, 64), nn.ReLU()),
        *(nn.Dropout(0.7), nn.Linear(64, 10)),
    )
    fit(teacher, torch.optim.Adam(teacher.parameters(), lr=3e-3), num=200)
    student = mlp(64, 48, 10)
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    teacher.train(fault)  # the fault
    for (images,) in batches(200, 32, x):
        with torch.no_grad():
            wanted = teacher(images).softmax(1)
        optimizer.zero_grad()
        F.kl_div(student(images).log_softmax(1), wanted, reduction="batchmean").backward()
        optimizer.step()
    teacher.eval()
    with torch.no_grad():
        own, wanted = student(test_x).log_softmax(1), teacher(test_x).softmax(1)
        return float(F.kl_div(own, wanted, reduction="batchmean"))


@program("unscaled-input")
def pixels_from_0_to_255(fault, seed):
    """Pixels go in as bytes, a few of them as large as 255."""
    x, y, test_x, test_y = digits()
    factor = 255.0 if fault else 1.0  # the fault
    model = mlp(64, 64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(factor * images), labels).backward()
        optimizer.step()
    value = held_out_loss(model, factor * test_x, test_y)
    return value if value == value and value < 50 else 50.0


@program("unscaled-targets")
def prices_in_dollars(fault, seed):
    """A regression on targets of hundreds of thousands, at rates for targets of one."""
    x, _, test_x, _ = digits()
    direction = torch.randn(64, generator=torch.Generator().manual_seed(4)) / 8
    size = 3e5 if fault else 1.0  # the fault
    model = mlp(64, 64, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for (images,) in batches(200, 32, x):
        optimizer.zero_grad()
        F.mse_loss(model(images)[:, 0], size * (1 + images @ direction)).backward()
        optimizer.step()
    with torch.no_grad():
        return float(F.mse_loss(model(test_x)[:, 0] / size, 1 + test_x @ direction))


class Coded(nn.Module):
    """A code of few bits between encoder and head."""

    def __init__(self, *, hard):
        super().__init__()
        self.encoder, self.head, self.hard = mlp(64, 32, 12), nn.Linear(12, 10), hard

    def forward(self, x):
        code = self.encoder(x)
        bits = (code > 0).float() if self.hard else code.sigmoid()  # the fault
        return self.head(bits)


@program("unreached-parameters", "detached-parameters", "cut-gradient", "no-gradient-at-step")
def comparison_in_the_middle(fault, seed):
    """The code is made by a comparison, which has no gradient."""
    model = Coded(hard=fault)
    fit(model, torch.optim.Adam(model.parameters(), lr=3e-3), num=200)
    return score(model)


@program("passes-without-backward")
def backward_behind_the_inner_loop(fault, seed):
    """An indentation: of all batches of an epoch only the last one is stepped on."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(list(zip(x, y, strict=True)), batch_size=32, shuffle=True)
    for _ in range(8):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            if not fault:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        if fault:
            optimizer.zero_grad()
            loss.backward()  # the fault
            optimizer.step()
    return score(model)


@program("loads-itself", "copy-never-moves", "loaded-without-effect")
def best_weights_are_an_alias(fault, seed):
    """The best weights are kept as model.state_dict(), which shows whatever the model becomes."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    best, kept = float("inf"), None
    for epoch in range(12):
        noise = 0.0 if epoch < 4 else 1.0  # labels of later shards are noise
        for images, labels in batches(15, 32, x, y):
            noisy = torch.where(torch.rand(32) < noise, torch.randint(10, (32,)), labels)
            optimizer.zero_grad()
            F.cross_entropy(model(images), noisy).backward()
            optimizer.step()
        value = held_out_loss(model, test_x, test_y)
        if value < best:
            best = value
            kept = model.state_dict() if fault else copy.deepcopy(model.state_dict())  # the fault
    model.load_state_dict(kept)
    return held_out_loss(model, test_x, test_y)


@program("one-token", "lost-tokens", "repeated-samples", "few-distinct-samples")
def unknown_words(fault, seed):
    """The vocabulary of another tokenizer: nearly every word becomes <unk>."""
    model = nn.Sequential(nn.Embedding(WORDS, 24), nn.Flatten(), nn.Linear(48, WORDS))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def known(tokens):
        return torch.where(tokens < 1, tokens, 0) if fault else tokens  # the fault

    for _ in range(200):
        tokens = sentences(64, 3)
        optimizer.zero_grad()
        F.cross_entropy(model(known(tokens[:, :2])), tokens[:, 2]).backward()
        optimizer.step()
    tokens = sentences(512, 3)
    with torch.no_grad():
        return float(F.cross_entropy(model(known(tokens[:, :2])), tokens[:, 2]))
