"""Programs whose loss asks for something else than was meant."""

import torch
import torch.nn.functional as F

from tests.diagnosis.judged.vision import adam, convnet, digits, mlp, rows


def likelihood_of_scores(fault):
    """`nll_loss` on scores that no log_softmax has seen."""
    model = convnet()

    def loss(output, targets):
        return F.nll_loss(output if fault else output.log_softmax(1), targets)

    return model, digits(), loss, adam(model)


def smoothed_away(fault):
    model = convnet()

    def loss(output, targets):
        return F.cross_entropy(output, targets, label_smoothing=0.95 if fault else 0.05)

    return model, digits(), loss, adam(model)


def rows_against_columns(fault):
    model = mlp()

    def loss(output, targets):
        return ((output if fault else output[:, 0]) - targets).abs().mean()

    return model, rows(), loss, adam(model)


def own_pair_counted(fault):
    """Contrastive learning: each sample is its own nearest negative, because the diagonal is not masked."""
    x, _ = digits()
    model = convnet()

    def loss(output, targets):
        del targets
        z = F.normalize(torch.cat([output, output.roll(1, 0).detach() + 0.1 * output]), dim=1)
        scores = z @ z.T / 0.1
        if not fault:
            scores = scores.masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
        n = len(output)
        return F.cross_entropy(scores, torch.arange(2 * n).roll(n))

    return model, (x, torch.zeros(64)), loss, adam(model)


def penalty_far_too_large(fault):
    model = mlp()

    def loss(output, targets):
        weights = sum(p.abs().sum() for p in model.parameters())
        return F.mse_loss(output[:, 0], targets) + (1.0 if fault else 1e-6) * weights

    return model, rows(), loss, adam(model)


def maximized(fault):
    """A similarity is minimized that is to grow."""
    x, y = rows()
    model = mlp(outputs=4)
    wanted = torch.stack([y, -y, y**2, torch.ones_like(y)], 1)

    def loss(output, targets):
        return (1 if fault else -1) * F.cosine_similarity(output, targets).mean()

    return model, (x, wanted), loss, adam(model)


def labels_in_another_order(fault):
    """The labels are sorted, the pictures are not."""
    x, y = digits(128)
    model = convnet()
    return model, (x, y.sort().values if fault else y), F.cross_entropy, adam(model)


PROGRAMS = {
    "likelihood of scores": (likelihood_of_scores, ("missing-logarithm",)),
    "smoothed away": (smoothed_away, ("heavy-smoothing", "unrelated-labels")),
    "rows against columns": (rows_against_columns, ("broadcast-loss",)),
    "its own negative": (own_pair_counted, ("own-pair", "missing-temperature", "unrelated-labels")),
    "penalty far too large": (penalty_far_too_large, ("unbalanced-terms",)),
    "similarity minimized": (maximized, ("negated-loss",)),
    "labels sorted alone": (labels_in_another_order, ("unrelated-labels", "pairs-shuffled-apart")),
}
