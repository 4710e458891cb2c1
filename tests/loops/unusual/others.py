"""Unusual loops with several models, inner loops, or an update rule of their own."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from tests.loops.language import WORDS, sentences
from tests.loops.tasks import batches, digits, held_out_loss, mlp
from tests.loops.unusual import loop


@loop
def hinge_gan_with_spectral_norms():
    """Three critic steps for each generator step, at another rate."""
    norm = nn.utils.parametrizations.spectral_norm
    generator = nn.Sequential(nn.Linear(4, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(
        norm(nn.Linear(2, 48)), nn.LeakyReLU(0.2), norm(nn.Linear(48, 48)), nn.LeakyReLU(0.2),
        norm(nn.Linear(48, 1)),
    )  # fmt: skip
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.0, 0.9))
    of_critic = torch.optim.Adam(critic.parameters(), lr=6e-3, betas=(0.0, 0.9))
    center = torch.tensor([1.5, -1.0])

    def distance():
        with torch.no_grad():
            return float((generator(torch.randn(256, 4)).mean(0) - center).norm())

    first = distance()
    for _ in range(60):
        for _ in range(3):
            with torch.no_grad():
                made = generator(torch.randn(64, 4))
            real = critic(center + 0.3 * torch.randn(64, 2))
            of_critic.zero_grad()
            (F.relu(1 - real).mean() + F.relu(1 + critic(made)).mean()).backward()
            of_critic.step()
        of_generator.zero_grad()
        (-critic(generator(torch.randn(64, 4))).mean()).backward()
        of_generator.step()
    return first, distance()


@loop
def gradient_penalty():
    """WGAN-GP on points."""
    generator, critic = mlp(4, 32, 2), mlp(2, 64, 1)
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    center = torch.tensor([2.0, 1.0])

    def distance():
        with torch.no_grad():
            return float((generator(torch.randn(256, 4)).mean(0) - center).norm())

    first = distance()
    for step in range(160):
        real = center + 0.2 * torch.randn(64, 2)
        fake = generator(torch.randn(64, 4)).detach()
        mixed = (real + torch.rand(64, 1) * (fake - real)).requires_grad_(True)
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).square().mean()
        of_critic.zero_grad()
        (critic(fake).mean() - critic(real).mean() + 10 * penalty).backward()
        of_critic.step()
        if step % 2:
            of_generator.zero_grad()
            (-critic(generator(torch.randn(64, 4))).mean()).backward()
            of_generator.step()
    return first, distance()


@loop
def learns_to_learn():
    """MAML: inner steps through functional_call, whose graph the outer step goes through."""
    model = mlp(1, 32, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def adapted_loss(*, trains):
        height, shift = 0.5 + 2 * torch.rand(()), 3 * torch.rand(())
        x = 6 * torch.rand(20, 1) - 3
        y = height * torch.sin(x + shift)
        weights = dict(model.named_parameters())
        inner = F.mse_loss(functional_call(model, weights, (x[:10],)), y[:10])
        slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=trains)
        weights = {n: w - 0.05 * g for (n, w), g in zip(weights.items(), slopes, strict=True)}
        return F.mse_loss(functional_call(model, weights, (x[10:],)), y[10:])

    def error():
        torch.manual_seed(7)
        return sum(adapted_loss(trains=False).item() for _ in range(50)) / 50

    first = error()
    for _ in range(120):
        optimizer.zero_grad()
        (sum(adapted_loss(trains=True) for _ in range(4)) / 4).backward()
        optimizer.step()
    return first, error()


@loop
def reptile():
    """Each task trains a copy; the model moves a part of the way to it."""
    model = mlp(1, 32, 32, 1)

    def task():
        height, shift = 0.5 + 2 * torch.rand(()), 3 * torch.rand(())
        x = 6 * torch.rand(20, 1) - 3
        return x, height * torch.sin(x + shift)

    def error():
        torch.manual_seed(7)
        losses = []
        for _ in range(30):
            x, y = task()
            tried = copy.deepcopy(model)
            tuning = torch.optim.SGD(tried.parameters(), lr=0.02)
            for _ in range(5):
                tuning.zero_grad()
                F.mse_loss(tried(x[:10]), y[:10]).backward()
                tuning.step()
            with torch.no_grad():
                losses.append(float(F.mse_loss(tried(x[10:]), y[10:])))
        return sum(losses) / 30

    first = error()
    for _ in range(60):
        x, y = task()
        inner = copy.deepcopy(model)
        optimizer = torch.optim.SGD(inner.parameters(), lr=0.05)
        for _ in range(8):
            optimizer.zero_grad()
            F.mse_loss(inner(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(model.parameters(), inner.parameters(), strict=True):
                slow.lerp_(fast, 0.2)
    return first, error()


@loop
def policy_and_value():
    """PPO on a bandit with contexts: the old policy's probabilities are kept, four epochs each."""
    x, y, test_x, test_y = digits()
    policy, critic = mlp(64, 48, 10), mlp(64, 48, 1)
    both = [*policy.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(both, lr=3e-3)
    first = held_out_loss(policy, test_x, test_y)
    for states, labels in batches(40, 128, x, y):
        with torch.no_grad():
            old = torch.distributions.Categorical(logits=policy(states))
            actions = old.sample()
            kept = old.log_prob(actions)
            reward = (actions == labels).float()
            advantage = reward - critic(states)[:, 0]
        for _ in range(4):
            new = torch.distributions.Categorical(logits=policy(states))
            ratio = (new.log_prob(actions) - kept).exp()
            gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            error = F.mse_loss(critic(states)[:, 0], reward)
            optimizer.zero_grad()
            (-gain + 0.5 * error - 0.01 * new.entropy().mean()).backward()
            nn.utils.clip_grad_norm_(both, 0.5)
            optimizer.step()
    return first, held_out_loss(policy, test_x, test_y)


@loop
def momentum_encoder():
    """MoCo: keys come from a slow copy and from a queue of earlier ones."""
    x, _, test_x, _ = digits()
    fast = mlp(64, 64, 16)
    slow = copy.deepcopy(fast).requires_grad_(False)
    queue = F.normalize(torch.randn(256, 16), dim=1)
    optimizer = torch.optim.SGD(fast.parameters(), lr=0.1, momentum=0.9)

    def noised(images):
        return images + 0.3 * torch.randn_like(images)

    def loss_of(images):
        asked = F.normalize(fast(noised(images)), dim=1)
        with torch.no_grad():
            keys = F.normalize(slow(noised(images)), dim=1)
        logits = torch.cat([(asked * keys).sum(1, keepdim=True), asked @ queue.T], 1) / 0.2
        return F.cross_entropy(logits, torch.zeros(len(images), dtype=torch.long)), keys

    def error():
        with torch.no_grad():
            a, b = (F.normalize(fast(noised(test_x)), dim=1) for _ in range(2))
            return float(F.cross_entropy(a @ b.T / 0.2, torch.arange(len(a))))

    first = error()
    for (images,) in batches(150, 64, x):
        loss, keys = loss_of(images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, p in zip(slow.parameters(), fast.parameters(), strict=True):
                mean.lerp_(p, 0.05)
        queue = torch.cat([keys, queue])[:256]
    return first, error()


class ScheduleFree(torch.optim.Optimizer):
    """SGD without a schedule: gradients are taken at a point between the iterate and its average."""

    def __init__(self, params, lr=0.3, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta, "steps": 0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["steps"] += 1
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["z"], state["x"] = p.clone(), p.clone()
                state["z"].add_(p.grad, alpha=-group["lr"])
                state["x"].lerp_(state["z"], 1 / group["steps"])
                p.copy_(state["z"].lerp(state["x"], group["beta"]))

    @torch.no_grad()
    def swap(self, name):
        for group in self.param_groups:
            for p in group["params"]:
                if self.state[p]:
                    state = self.state[p]
                    mean = state["z"].lerp(state["x"], group["beta"])
                    p.copy_(state["x"] if name == "eval" else mean)


@loop
def schedule_free():
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = ScheduleFree(model.parameters())
    for _ in range(5):
        model.train()
        optimizer.swap("train")
        for images, labels in batches(35, 32, x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        model.eval()
        optimizer.swap("eval")
        last = held_out_loss(model, test_x, test_y)
    return first, last


@loop
def truncated_time():
    """A recurrent network on a long text, a stretch at a time; the state goes on, detached."""
    torch.manual_seed(3)
    text = sentences(16, 600)
    embed, cell, head = (
        nn.Embedding(WORDS, 24),
        nn.LSTM(24, 48, batch_first=True),
        nn.Linear(48, WORDS),
    )
    model = nn.ModuleList([embed, cell, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss_of(part, state):
        hidden, state = cell(embed(part[:, :-1]), state)
        loss = F.cross_entropy(head(hidden).flatten(0, 1), part[:, 1:].flatten())
        return loss, tuple(one.detach() for one in state)

    with torch.no_grad():
        first = float(loss_of(sentences(64), None)[0])
    for _ in range(3):
        state = None
        for begin in range(0, 580, 16):
            loss, state = loss_of(text[:, begin : begin + 17], state)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    with torch.no_grad():
        return first, float(loss_of(sentences(64), None)[0])


@loop
def code_of_growing_weight():
    """A VAE whose divergence is given its weight over the first half of the training."""
    x, _, test_x, _ = digits()
    encoder, decoder = mlp(64, 64, 16), mlp(8, 64, 64)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=2e-3)

    def parts(images):
        mean, logvar = encoder(images).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        error = F.mse_loss(decoder(code), images, reduction="none").sum(1).mean()
        return error, -0.5 * (1 + logvar - mean.square() - logvar.exp()).sum(1).mean()

    with torch.no_grad():
        first = float(sum(parts(test_x)))
    for step, (images,) in enumerate(batches(180, 32, x)):
        error, divergence = parts(images)
        optimizer.zero_grad()
        (error + min(1.0, (step + 1) / 90) * divergence).backward()
        optimizer.step()
    with torch.no_grad():
        return first, float(sum(parts(test_x)))


@loop
def denoising():
    """Diffusion: the noise that was added is predicted from the mixture and its time."""
    x, _, test_x, _ = digits()
    model = mlp(65, 128, 64)
    slow = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def loss_of(network, images):
        part, noise = torch.rand(len(images), 1), torch.randn_like(images)
        mixed = (1 - part).sqrt() * images + part.sqrt() * noise
        return F.mse_loss(network(torch.cat([mixed, part], 1)), noise)

    with torch.no_grad():
        first = float(loss_of(model, test_x))
    for (images,) in batches(200, 64, x):
        optimizer.zero_grad()
        loss_of(model, images).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        slow.update_parameters(model)
    with torch.no_grad():
        return first, float(loss_of(slow, test_x))
