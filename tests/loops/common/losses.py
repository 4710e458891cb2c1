"""Losses that ask for something else than was meant, and steps that lose what they were asked for."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.common import program
from tests.loops.tasks import batches, digits, held_out_error, held_out_loss, mlp
from tests.loops.unseen import fit, score


@program("missing-logarithm", "negated-loss", "unbounded-loss")
def likelihood_of_plain_logits(fault, seed):
    """nll_loss gets logits: it falls for ever, as they grow."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(150, 32, x, y):
        output = model(images)
        optimizer.zero_grad()
        F.nll_loss(output if fault else output.log_softmax(1), labels).backward()  # the fault
        optimizer.step()
    return min(held_out_loss(model, test_x, test_y), 50.0)


@program("negated-loss", "unbalanced-terms", "unbounded-loss")
def divergence_of_the_wrong_sign(fault, seed):
    """VAE: the divergence is taken from the loss in place of added, so that codes run away."""
    x, _, test_x, _ = digits()
    encoder, decoder = mlp(64, 64, 16), mlp(8, 64, 64)
    both = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(both, lr=1e-3)

    def parts(images):
        mean, logvar = encoder(images).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        error = F.mse_loss(decoder(code), images, reduction="none").sum(1).mean()
        return error, -0.5 * (1 + logvar - mean.square() - logvar.exp()).sum(1).mean()

    for (images,) in batches(150, 32, x):
        error, divergence = parts(images)
        optimizer.zero_grad()
        (error - 0.1 * divergence if fault else error + 0.1 * divergence).backward()  # the fault
        nn.utils.clip_grad_norm_(both, 5.0)
        optimizer.step()
    with torch.no_grad():
        error, divergence = parts(test_x)
        value = float(error + 0.1 * divergence)
    return value if value == value and value < 1e6 else 1e6


@program("frequent-classes-weigh-more")
def positives_weigh_less(fault, seed):
    """pos_weight is positives over negatives, and should be negatives over positives."""
    x, y, test_x, test_y = digits()
    rare = float((y == 3).float().mean())
    weight = rare / (1 - rare) if fault else (1 - rare) / rare  # the fault
    loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(weight))
    model = mlp(64, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches(100, 64, x, y):
        optimizer.zero_grad()
        loss(model(images)[:, 0], (labels == 3).float()).backward()
        optimizer.step()
    with torch.no_grad():
        found = model(test_x)[:, 0] > 0
    return float((~found[test_y == 3]).float().mean()) + 0.01


@program("padding-asked", "padding-learned", "one-token", "padding-read", "ignored-class")
def padding_counts_in_the_loss(fault, seed):
    """A tagger of short texts learns the padding as well, which is nine tenths of all labels."""
    table = torch.randint(1, 6, (40,), generator=torch.Generator().manual_seed(1))
    model = nn.Sequential(nn.Embedding(41, 16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

    def tagged(num):
        words = torch.randint(40, (num, 40))
        is_word = torch.arange(40) < torch.randint(2, 6, (num, 1))
        return torch.where(is_word, words + 1, 0), torch.where(is_word, table[words], 0)

    loss = nn.CrossEntropyLoss(ignore_index=-100 if fault else 0)  # the fault
    for _ in range(150):
        tokens, tags = tagged(32)
        optimizer.zero_grad()
        loss(model(tokens).flatten(0, 1), tags.flatten()).backward()
        optimizer.step()
    tokens, tags = tagged(200)
    with torch.no_grad():
        return float(F.cross_entropy(model(tokens).flatten(0, 1), tags.flatten(), ignore_index=0))


@program("unrelated-labels", "loss-does-not-fall", "unread-input")
def other_noise_in_the_target(fault, seed):
    """Denoising: the target is a new sample of noise, and not the one that was added."""
    x, _, test_x, _ = digits()
    model = mlp(65, 128, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def noised(images):
        part, noise = torch.rand(len(images), 1), torch.randn_like(images)
        mixed = (1 - part).sqrt() * images + part.sqrt() * noise
        return torch.cat([mixed, part], 1), noise

    for (images,) in batches(200, 32, x):
        inputs, noise = noised(images)
        goal = torch.randn_like(images) if fault else noise  # the fault
        optimizer.zero_grad()
        F.mse_loss(model(inputs), goal).backward()
        optimizer.step()
    inputs, noise = noised(test_x)
    with torch.no_grad():
        return float(F.mse_loss(model(inputs), noise))


@program("broadcast-loss")
def advantage_of_every_pair(fault, seed):
    """Returns have shape (batch,), values (batch, 1): their difference is a matrix of all pairs."""
    critic = mlp(6, 64, 1)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)

    def sample(num):
        state = torch.randn(num, 6)
        return state, state[:, 0] * state[:, 1] + state[:, 2]

    for _ in range(150):
        state, returns = sample(64)
        values = critic(state)
        advantage = returns - (values if fault else values.squeeze(1))  # the fault
        optimizer.zero_grad()
        advantage.square().mean().backward()
        optimizer.step()
    state, returns = sample(512)
    with torch.no_grad():
        return float(F.mse_loss(critic(state).squeeze(1), returns))


@program("swallowed-by-epsilon", "small-update", "small-budget")
def epsilon_of_another_network(fault, seed):
    """Adam's epsilon is 1, as the example for another network has it: steps are tiny gradients times lr."""
    model = mlp(64, 64, 10)
    eps = 1.0 if fault else 1e-8  # the fault
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3, eps=eps), num=200)
    return score(model)


@program("non-finite", "passes-without-backward", "skipped-steps", "turns-non-finite")
def steps_left_out_where_the_loss_is_nan(fault, seed):
    """A constant column is divided by its deviation of zero, and every NaN is passed over in silence."""
    x, y, test_x, test_y = digits()
    mean, deviation = x.mean(0), x.std(0)
    if not fault:
        deviation = deviation + 1e-3  # the fault
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(120, 32, x, y):
        loss = F.cross_entropy(model((images - mean) / deviation), labels)
        if not torch.isfinite(loss):
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return held_out_error(model, (test_x - mean) / (deviation + 1e-3), test_y)
