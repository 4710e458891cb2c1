"""Healthy loops with more than one model or optimizer, or another way to step."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.language import WORDS, LanguageModel, generation_loss, sentences
from tests.loops.programs.lo14 import GAMMA, STATES, chain, true_values
from tests.loops.tasks import batches, digits, held_out_loss, mlp


def adversarial():
    """A GAN for points on a circle; the score is the distance to it."""
    generator, critic = mlp(4, 32, 2), mlp(2, 32, 1)
    step_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.99))
    step_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.99))

    def distance():
        with torch.no_grad():
            return float((generator(torch.randn(256, 4)).norm(dim=1) - 2).abs().mean())

    first = distance()
    for _ in range(150):
        angle = 6.2832 * torch.rand(64)
        real = 2 * torch.stack((angle.cos(), angle.sin()), 1)
        fake = generator(torch.randn(64, 4))
        step_d.zero_grad()
        F.binary_cross_entropy_with_logits(critic(real), torch.ones(64, 1)).backward()
        F.binary_cross_entropy_with_logits(critic(fake.detach()), torch.zeros(64, 1)).backward()
        step_d.step()
        step_g.zero_grad()
        F.binary_cross_entropy_with_logits(critic(fake), torch.ones(64, 1)).backward()
        step_g.step()
    return first, distance()


def wasserstein():
    """A GAN whose critic's weights are clamped after each of its steps."""
    generator, critic = mlp(4, 32, 2), mlp(2, 64, 1)
    step_g = torch.optim.RMSprop(generator.parameters(), lr=2e-3)
    step_d = torch.optim.RMSprop(critic.parameters(), lr=2e-3)
    goal = torch.tensor([3.0, -2.0])

    def distance():
        with torch.no_grad():
            return float((generator(torch.randn(256, 4)).mean(0) - goal).norm())

    first = distance()
    for _ in range(100):
        for _ in range(2):
            real, fake = goal + 0.1 * torch.randn(64, 2), generator(torch.randn(64, 4)).detach()
            step_d.zero_grad()
            (critic(fake).mean() - critic(real).mean()).backward()
            step_d.step()
            for parameter in critic.parameters():
                parameter.data.clamp_(-0.3, 0.3)
        step_g.zero_grad()
        (-critic(generator(torch.randn(64, 4))).mean()).backward()
        step_g.step()
    return first, distance()


def q_learning(*, soft=False):
    online = mlp(STATES, 64, 2)
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-3)

    def error():
        with torch.no_grad():
            return float((online(torch.eye(STATES)) - true_values()).square().mean())

    first = error()
    for step in range(1, 301):
        state, action = torch.randint(STATES, (32,)), torch.randint(2, (32,))
        after, reward = chain(state, action)
        with torch.no_grad():
            best = target(F.one_hot(after, STATES).float()).max(1).values
        value = online(F.one_hot(state, STATES).float())[torch.arange(32), action]
        loss = F.smooth_l1_loss(value, reward + GAMMA * best)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if soft:
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.data.mul_(0.95).add_(fast.data, alpha=0.05)
        elif step % 20 == 0:
            target.load_state_dict(online.state_dict())
    return first, error()


def q_learning_soft():
    return q_learning(soft=True)


def lbfgs():
    x, y, test_x, test_y = digits()
    x, y = x[:300], y[:300]
    model = nn.Linear(64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) + 1e-2 * model.weight.square().sum()
        loss.backward()
        return loss

    for _ in range(10):
        optimizer.step(closure)
    return first, held_out_loss(model, test_x, test_y)


def language_model():
    model = LanguageModel()
    first = generation_loss(model)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=5e-3
    )
    for _ in range(80):
        tokens = sentences(16)
        loss = F.cross_entropy(model(tokens[:, :-1]).reshape(-1, WORDS), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return first, generation_loss(model)


def two_optimizers():
    """Embeddings and the rest have an optimizer each."""
    embed = nn.Embedding(20, 16)
    rest = mlp(16, 32, 1)
    truth = torch.randn(20)
    for_embedding = torch.optim.Adagrad(embed.parameters(), lr=0.1)
    for_rest = torch.optim.SGD(rest.parameters(), lr=0.05)

    def error():
        with torch.no_grad():
            return float((rest(embed(torch.arange(20))).squeeze(1) - truth).square().mean())

    first = error()
    for _ in range(150):
        index = torch.randint(20, (32,))
        for_embedding.zero_grad()
        for_rest.zero_grad()
        (rest(embed(index)).squeeze(1) - truth[index]).square().mean().backward()
        for_embedding.step()
        for_rest.step()
    return first, error()


def distilled():
    x, y, test_x, test_y = digits()
    teacher, student = mlp(64, 128, 10), mlp(64, 32, 10)
    for model in (teacher, student):
        first = held_out_loss(model, test_x, test_y)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for images, labels in batches(100, 32, x, y):
            goal = labels
            if model is student:
                with torch.no_grad():
                    goal = teacher(images).softmax(1)
            optimizer.zero_grad()
            F.cross_entropy(model(images), goal).backward()
            optimizer.step()
        teacher.eval()
    return first, held_out_loss(student, test_x, test_y)


OTHERS = {
    loop.__name__: loop
    for loop in (
        adversarial, wasserstein, q_learning, q_learning_soft, lbfgs, language_model, two_optimizers,
        distilled,
    )
}  # fmt: skip
