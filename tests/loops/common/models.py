"""Models that read, mix or draw what they should not."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.common import program
from tests.loops.language import WORDS, sentences
from tests.loops.tasks import batches, digits, held_out_loss, mlp
from tests.loops.unseen import fit, score


class Reader(nn.Module):
    """A transformer that reads padded texts of 12 words, and says which kind of word prevails."""

    def __init__(self, *, inverted):
        super().__init__()
        self.embed = nn.Embedding(33, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head, self.inverted = nn.Linear(32, 4), inverted

    def forward(self, tokens):
        is_word = tokens > 0
        hidden = self.layers(
            self.embed(tokens), src_key_padding_mask=is_word if self.inverted else ~is_word
        )
        return self.head(hidden[:, 0])


def texts(num):
    """Texts of 4 to 11 of 32 words, padded with 0; the topic is the quarter that prevails."""
    labels = torch.randint(4, (num,))
    own = 1 + 8 * labels[:, None] + torch.randint(8, (num, 12))
    tokens = torch.where(torch.rand(num, 12) < 0.4, own, 1 + torch.randint(32, (num, 12)))
    length = torch.randint(4, 12, (num, 1))
    return torch.where(torch.arange(12) < length, tokens, 0), labels


@program("padding-read", "unread-input", "inverted-mask")
def padding_mask_is_inverted(fault, seed):
    """key_padding_mask is True where there is a word, and means what is to be left out."""
    model = Reader(inverted=fault)  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        tokens, labels = texts(32)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), labels).backward()
        optimizer.step()
    torch.manual_seed(99)
    return held_out_loss(model, *texts(800))


@program("mixed-samples")
def log_softmax_over_the_batch(fault, seed):
    """log_softmax(dim=0) makes the samples of a batch compete for each class."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(120, 16, x, y):
        optimizer.zero_grad()
        F.nll_loss(
            F.log_softmax(model(images), dim=0 if fault else 1), labels
        ).backward()  # the fault
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


def colored(num):
    """Images of 8 by 8 pixels, colors last; the class is the color of a patch somewhere."""
    labels = torch.randint(4, (num,))
    palette = torch.tensor([[1.0, -1, -1], [-1, 1, -1], [-1, -1, 1], [1, 1, -1]])
    row, column = torch.randint(6, (num,)), torch.randint(6, (num,))
    grid = torch.arange(8)
    inside = ((grid - row[:, None]).clamp(0, 2) == grid - row[:, None])[:, :, None] & (
        (grid - column[:, None]).clamp(0, 2) == grid - column[:, None]
    )[:, None, :]
    shade = F.interpolate(torch.randn(num, 1, 3, 3), size=8, mode="bilinear")[:, 0, :, :, None]
    return torch.where(inside[..., None], palette[labels][:, None, None], shade), labels


@program("interleaved-channels")
def colors_last_viewed_as_first(fault, seed):
    """view(-1, 3, 8, 8) in place of permute(0, 3, 1, 2): pixels and colors are mixed."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        nn.Linear(16, 4),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def arranged(images):
        if fault:
            return images.reshape(-1, 3, 8, 8)  # the fault
        return images.permute(0, 3, 1, 2)

    for _ in range(150):
        images, labels = colored(32)
        optimizer.zero_grad()
        F.cross_entropy(model(arranged(images)), labels).backward()
        optimizer.step()
    torch.manual_seed(99)
    images, labels = colored(500)
    return held_out_loss(model, arranged(images), labels)


class Decoder(nn.Module):
    """Writes a sentence from a code; it is given the words before, or by mistake the word itself."""

    def __init__(self):
        super().__init__()
        self.embed, self.cell = nn.Embedding(WORDS + 1, 24), nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, WORDS)

    def forward(self, before):
        return self.head(self.cell(self.embed(before))[0])


@program("unshifted-labels", "missing-causal-mask")
def decoder_is_fed_its_targets(fault, seed):
    """Teacher forcing without the shift: the input of each step is the word that it is to write."""
    model = Decoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        tokens = sentences(32)
        start = torch.full((32, 1), WORDS)
        before = tokens if fault else torch.cat([start, tokens[:, :-1]], 1)  # the fault
        optimizer.zero_grad()
        F.cross_entropy(model(before).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
    tokens = sentences(256)
    shifted = torch.cat([torch.full((256, 1), WORDS), tokens[:, :-1]], 1)
    with torch.no_grad():
        return float(F.cross_entropy(model(shifted).flatten(0, 1), tokens.flatten()))


class Projected(nn.Module):
    """A classifier with a projection that is made at each pass, or once."""

    def __init__(self, *, each_time):
        super().__init__()
        self.first, self.head = nn.Linear(64, 48), nn.Linear(48, 10)
        self.middle = None if each_time else nn.Linear(48, 48)

    def forward(self, x):
        hidden = F.relu(self.first(x))
        middle = nn.Linear(48, 48) if self.middle is None else self.middle  # the fault
        return self.head(F.relu(middle(hidden)))


@program("unlisted-parameters", "noise-in-forward", "random-in-eval")
def layer_is_made_in_forward(fault, seed):
    """A layer is built inside of forward: its weights are new at every pass, and never trained."""
    model = Projected(each_time=fault)
    fit(model, torch.optim.Adam(model.parameters(), lr=3e-3), num=200)
    return score(model)


@program("still-statistics", "frozen-statistics")
def momentum_of_another_library(fault, seed):
    """BatchNorm gets momentum 0.99, as in Keras: its statistics are those of the last batch."""
    x, y, test_x, test_y = digits()
    momentum = 0.99 if fault else 0.1  # the fault
    model = nn.Sequential(
        nn.Linear(64, 64), nn.BatchNorm1d(64, momentum=momentum), nn.ReLU(),
        nn.Linear(64, 64), nn.BatchNorm1d(64, momentum=momentum), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(200, 4, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


class Adapted(nn.Module):
    """A pretrained body with trainable adapters, and a head."""

    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))
        for layer in self.body:
            nn.init.orthogonal_(layer.weight)
        self.downs = nn.ModuleList(nn.Linear(64, 8, bias=False) for _ in range(2))
        self.ups = nn.ModuleList(nn.Linear(8, 64, bias=False) for _ in range(2))
        for layer in self.ups:
            nn.init.normal_(layer.weight, std=0.02)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        for layer, down, up in zip(self.body, self.downs, self.ups, strict=True):
            x = F.relu(layer(x) + up(down(x)))
        return self.head(x)


@program("frozen-fresh-weights", "frozen-parameters", "partly-frozen")
def adapters_are_frozen_with_the_body(fault, seed):
    """The body is frozen after the adapters were put in: they are frozen with it."""
    model = Adapted()
    for name, parameter in model.named_parameters():
        kept = name.startswith("head") if fault else not name.startswith("body")  # the fault
        parameter.requires_grad_(kept)
    trained = [p for p in model.parameters() if p.requires_grad]
    fit(model, torch.optim.SGD(trained, lr=0.05), num=250)
    return score(model)
