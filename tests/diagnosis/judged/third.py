"""A third set of programs, written after the second had been tuned on, and scored before this one was."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.diagnosis.judged.sequences import LENGTH, WIDTH, WORDS, adamw, next_word, series
from tests.diagnosis.judged.vision import adam, convnet, digits, mlp, rows


def flipped_apart(fault):
    """Segmentation: augmentation mirrors half of the pictures, and not their masks."""
    x, _ = digits()
    wide = F.interpolate(x, size=16, mode="bilinear")
    target = (wide[:, 0] > 0).long()
    if fault:
        wide = torch.where((torch.arange(64) % 2 == 0)[:, None, None, None], wide.flip(3), wide)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 2, 1),
    )  # fmt: skip
    return model, (wide, target), F.cross_entropy, adam(model)


class Encoder(nn.Module):
    """A text classifier that takes an attention mask, and may forget to hand it on."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 64, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, input_ids, attention_mask):
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        hidden = None if self.fault else attention_mask == 0
        return self.head(self.body(x, src_key_padding_mask=hidden)[:, 0])


def mask_not_handed_on(fault):
    x, _ = next_word()
    mask = torch.arange(LENGTH)[None] < (torch.arange(24) % 8 + 6)[:, None]
    model = Encoder(fault)
    given = {"input_ids": x.masked_fill(~mask, 0), "attention_mask": mask.long()}
    return model, (given, x[:, 2] % 3), F.cross_entropy, adamw(model)


def teacher_without_softmax(fault):
    """Distillation from the teacher's scores, not its probabilities."""
    x, _ = digits()
    torch.manual_seed(9)
    scores = 3 * convnet()(x).detach() + torch.randn(64, 10)
    model = convnet()

    def loss(output, targets):
        wanted = targets if fault else targets.softmax(1)
        return F.kl_div(output.log_softmax(1), wanted, reduction="batchmean")

    return model, (x, scores), loss, adam(model)


class Sorting(nn.Module):
    """Sorts the texts by length for the recurrent layer, and may not put them back into order."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.words = nn.Embedding(WORDS, WIDTH)
        self.rnn, self.head = nn.GRU(WIDTH, WIDTH, batch_first=True), nn.Linear(WIDTH, 3)

    def forward(self, tokens, lengths):
        order = lengths.argsort(descending=True, stable=True)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.words(tokens[order]), lengths[order].cpu(), batch_first=True
        )
        state = self.rnn(packed)[1][-1]
        return self.head(state if self.fault else state[order.argsort()])


def left_in_sorted_order(fault):
    x, _ = next_word()
    lengths = torch.arange(24) * 7 % 15 + 4
    model = Sorting(fault)
    return model, ({"tokens": x, "lengths": lengths}, x[:, 2] % 3), F.cross_entropy, adamw(model)


class Codebook(nn.Module):
    """Features are replaced by the nearest of 32 codes; without a loss of their own the codes never move."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(64, 16), nn.Linear(16, 64)
        self.codes = nn.Parameter(torch.randn(32, 16))

    def forward(self, x):
        z = self.encoder(x.flatten(1))
        nearest = self.codes[torch.cdist(z, self.codes).argmin(1)]
        straight = z + (nearest - z).detach()
        return self.decoder(straight), z, nearest


def codes_never_move(fault):
    x, _ = digits()
    model = Codebook()

    def loss(output, targets):
        picture, z, nearest = output
        error = F.mse_loss(picture, targets) + 0.25 * F.mse_loss(z, nearest.detach())
        return error if fault else error + F.mse_loss(nearest, z.detach())

    return model, (x, x.flatten(1)), loss, adam(model)


class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU())
        self.two = nn.Sequential(nn.Linear(5, 32), nn.ReLU())
        self.head = nn.Linear(64, 10)

    def forward(self, picture, facts):
        return self.head(torch.cat([self.one(picture), self.two(facts)], 1))


def second_input_not_scaled(fault):
    """Pictures are scaled; the prices beside them are in cents."""
    x, y = digits()
    facts = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
    model = Fused()
    given = {"picture": x, "facts": facts * 20_000 + 60_000 if fault else facts}
    return model, (given, y), F.cross_entropy, adam(model)


def all_pairs_with_the_first(fault):
    """Contrastive learning: every sample's partner is said to be the first one."""
    x, _ = digits()
    model = convnet()
    noise = 0.1 * torch.randn(x.shape, generator=torch.Generator().manual_seed(2))

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = model

        def forward(self, x):
            one, two = (F.normalize(self.body(v), dim=1) for v in (x, x + noise[: len(x)]))
            return one @ two.T / 0.1

    pair = Pair()

    def loss(output, targets):
        del targets
        partner = torch.zeros(len(output)).long() if fault else torch.arange(len(output))
        return F.cross_entropy(output, partner)

    return pair, (x, torch.zeros(64)), loss, adam(pair)


def norm_at_the_end(fault):
    """Targets of hundreds behind a batch norm that gives numbers of about one."""
    x, y = rows()
    end = (nn.BatchNorm1d(1, affine=False),) if fault else ()
    model = mlp(*end, nn.Flatten(0))
    return model, (x, 300 * y if fault else y), F.mse_loss, adam(model)


class StartingState(nn.Module):
    """A learned first state of a recurrent layer, of its own for every place in the batch."""

    def __init__(self, fault):
        super().__init__()
        self.rnn, self.head = nn.GRU(6, WIDTH, batch_first=True), nn.Linear(WIDTH, 4)
        self.start = nn.Parameter(torch.randn(1, 32 if fault else 1, WIDTH))

    def forward(self, x):
        start = (
            self.start[:, : len(x)] if self.start.shape[1] > 1 else self.start.expand(1, len(x), -1)
        )
        return self.head(self.rnn(x, start.contiguous())[0][:, -1])


def state_for_every_place(fault):
    model = StartingState(fault)
    return model, series(), F.cross_entropy, adam(model)


def class_masked_out(fault):
    """The scores of classes that are not offered are hidden; one that is among the labels is too."""

    class Offered(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = convnet()
            hidden = torch.zeros(10, dtype=torch.bool)
            hidden[3] = fault
            self.register_buffer("hidden", hidden)

        def forward(self, x):
            return self.body(x).masked_fill(self.hidden, -50.0)

    model = Offered()
    return model, digits(), F.cross_entropy, adam(model)


def signs_as_bits(fault):
    """cosine_embedding_loss wants 1 and −1, and is given 1 and 0."""
    x, y = digits()
    same = (y == y.roll(1)).float()
    model = convnet()

    def loss(output, targets):
        wanted = targets if fault else 2 * targets - 1
        return F.cosine_embedding_loss(output, output.roll(1, 0), wanted)

    return model, (x, same), loss, adam(model)


PROGRAMS = {
    "flipped apart": (flipped_apart, ("flipped-targets",)),
    "mask not handed on": (mask_not_handed_on, ("padding-read",)),
    "teacher without softmax": (
        teacher_without_softmax,
        ("missing-logarithm", "labels-out-of-range"),
    ),
    "left in sorted order": (left_in_sorted_order, ("mixed-samples", "place-in-batch")),
    "codes that never move": (codes_never_move, ("unreached-parameters", "detached-parameters")),
    "second input not scaled": (second_input_not_scaled, ("unscaled-input",)),
    "all pairs with the first": (all_pairs_with_the_first, ("constant-labels", "ignored-class")),
    "a norm at the end": (norm_at_the_end, ("unscaled-targets", "unreachable-targets")),
    "a state for every place": (state_for_every_place, ("place-in-batch",)),
    "a class masked out": (class_masked_out, ("constant-classes", "ignored-class", "poor-start")),
    "signs as bits": (signs_as_bits, ("labels-out-of-range", "ignored-class", "unrelated-labels")),
}
