"""Healthy networks that mix samples, read ahead, drop input or sample at random by design.

Each function returns what `diagnose` is given: model, batch, loss.
"""

import functools

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from bathyscope import nets
from bathyscope.core.losses import token_cross_entropy

VOCABULARY = 13
CROSS_ENTROPY = F.cross_entropy


def tokens(samples=16, length=12):
    return torch.randint(1, VOCABULARY, (samples, length))


def padded(samples=16, length=12):
    """Tokens with zeros at the right, their lengths and labels."""
    result = tokens(samples, length)
    lengths = torch.randint(3, length + 1, (samples,))
    lengths[0] = length
    result[torch.arange(length) >= lengths[:, None]] = 0
    return result, lengths, torch.arange(samples) % 3


class Lambda(nn.Module):
    """A function with layers."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def lstm_tagger():
    model = Lambda(
        lambda m, x: m.head(m.rnn(m.embed(x))[0]),
        embed=nn.Embedding(VOCABULARY, 16),
        rnn=nn.LSTM(16, 16, batch_first=True, bidirectional=True),
        head=nn.Linear(32, 4),
    )
    x = tokens()
    return model, (x, (x + x.roll(1, 1)) % 4), token_cross_entropy


def packed_lstm():
    def forward(m, x, lengths):
        packed = pack_padded_sequence(m.embed(x), lengths, batch_first=True, enforce_sorted=False)
        return m.head(m.rnn(packed)[1][0][-1])

    model = Lambda(
        forward,
        embed=nn.Embedding(VOCABULARY, 16, padding_idx=0),
        rnn=nn.LSTM(16, 16, batch_first=True),
        head=nn.Linear(16, 3),
    )
    x, lengths, y = padded()
    return model, ((x, lengths), y), CROSS_ENTROPY


def time_first_language_model():
    model = Lambda(
        lambda m, x: m.head(m.rnn(m.embed(x))[0]),
        embed=nn.Embedding(VOCABULARY, 16),
        rnn=nn.LSTM(16, 16),
        head=nn.Linear(16, VOCABULARY),
    )
    x = tokens().T
    return model, (x[:-1], x[1:]), token_cross_entropy


def time_first_classifier():
    model = Lambda(lambda m, x: m.head(m.rnn(x)[0][-1]), rnn=nn.GRU(6, 16), head=nn.Linear(16, 3))
    return model, (torch.randn(9, 16, 6), torch.arange(16) % 3), CROSS_ENTROPY


def masked_encoder():
    """torch's encoder with its padding mask, and a mean over real tokens."""

    def forward(m, x):
        mask = x == 0
        states = m.encoder(m.embed(x), src_key_padding_mask=mask)
        real = (~mask).unsqueeze(-1).float()
        return m.head((states * real).sum(1) / real.sum(1))

    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = Lambda(
        forward,
        embed=nn.Embedding(VOCABULARY, 16),
        encoder=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        head=nn.Linear(16, 3),
    )
    x, _, y = padded()
    return model, (x, y), CROSS_ENTROPY


def text_convolution():
    """Convolution and a maximum over time, which reads padding as everyone's does."""
    model = Lambda(
        lambda m, x: m.head(m.conv(m.embed(x).mT).relu().amax(-1)),
        embed=nn.Embedding(VOCABULARY, 16, padding_idx=0),
        conv=nn.Conv1d(16, 24, 3, padding=1),
        head=nn.Linear(24, 3),
    )
    x, _, y = padded(32, 40)
    return model, (x, y), CROSS_ENTROPY


def masked_language_model():
    model = nets.build("bert-2", vocabulary=VOCABULARY, context=12, width=16, heads=2)
    x = tokens()
    hidden = torch.rand(x.shape) < 0.3
    return (
        model,
        (torch.where(hidden, 0, x), torch.where(hidden, x, -100)),
        token_cross_entropy,
    )


def gpt():
    model = nets.build("gpt-2", vocabulary=VOCABULARY, context=12, width=16, heads=2)
    x = tokens()
    return model, (x[:, :-1], x[:, 1:]), token_cross_entropy


def vit():
    model = nets.build("vit-2", num_classes=10)
    return model, (torch.randn(8, 3, 32, 32), torch.arange(8)), CROSS_ENTROPY


def resnet():
    return (
        nets.build("resnet-8", num_classes=10),
        (torch.randn(12, 3, 16, 16), torch.arange(12) % 10),
        CROSS_ENTROPY,
    )


def graph_with_dense_adjacency():
    model = Lambda(
        lambda m, x, a: m.two(a @ m.one(a @ x).relu()), one=nn.Linear(8, 16), two=nn.Linear(16, 3)
    )
    a = (torch.rand(30, 30) < 0.2).float() + torch.eye(30)
    a = a / a.sum(1, keepdim=True)
    return model, ((torch.randn(30, 8), a), torch.arange(30) % 3), CROSS_ENTROPY


def graph_with_edges():
    def forward(m, x, edges):
        gathered = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
        return m.two(m.one(gathered + x).relu())

    model = Lambda(forward, one=nn.Linear(8, 16), two=nn.Linear(16, 3))
    batch = (torch.randn(30, 8), torch.randint(30, (2, 90))), torch.arange(30) % 3
    return model, batch, CROSS_ENTROPY


def graph_in_a_buffer():
    model = Lambda(lambda m, x: m.one(m.adjacency @ x), one=nn.Linear(8, 3))
    a = torch.rand(30, 30).softmax(1)
    model.register_buffer("adjacency", a)
    return model, (torch.randn(30, 8), torch.arange(30) % 3), CROSS_ENTROPY


def contrastive(temperature=0.1):
    def loss(output, targets):
        one, two = F.normalize(output, dim=1).chunk(2)
        return F.cross_entropy(one @ two.T / temperature, torch.arange(len(one)))

    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16))
    x = torch.randn(48, 20)
    views = torch.cat([x, x + 0.3 * torch.randn_like(x)])
    return model, (views, torch.arange(96) % 48), loss


def pairs_of_samples():
    """Logits for all pairs of two views, as in CLIP."""
    model = Lambda(
        lambda m, a, b: F.normalize(m.one(a), dim=1) @ F.normalize(m.two(b), dim=1).T * 10,
        one=nn.Linear(8, 16),
        two=nn.Linear(6, 16),
    )
    return model, ((torch.randn(12, 8), torch.randn(12, 6)), torch.arange(12)), CROSS_ENTROPY


def triplet():
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16))

    def loss(output, targets):
        return F.triplet_margin_loss(*F.normalize(output, dim=1).chunk(3))

    return model, (torch.randn(30, 20), torch.arange(30) % 10), loss


def batch_norm():
    model = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    return model, (torch.randn(32, 20), torch.arange(32) % 4), CROSS_ENTROPY


def batch_norm_of_the_batch():
    """Statistics of the batch in eval mode too: mixes by design, which is worth a warning."""
    model = nn.Sequential(
        nn.Linear(20, 32),
        nn.BatchNorm1d(32, track_running_stats=False),
        nn.ReLU(),
        nn.Linear(32, 4),
    )
    return model, (torch.randn(32, 20), torch.arange(32) % 4), CROSS_ENTROPY


def mixup():
    """Samples are mixed in train mode, and their labels with them."""

    def forward(m, x):
        return m.net(0.7 * x + 0.3 * x.flip(0) if m.training else x)

    model = Lambda(forward, net=nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4)))
    y = F.one_hot(torch.arange(32) % 4, 4).float()
    return model, (torch.randn(32, 20), 0.7 * y + 0.3 * y.flip(0)), CROSS_ENTROPY


def variational_autoencoder():
    def forward(m, x):
        mean, log_variance = m.encoder(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return m.decoder(code), mean, log_variance

    def loss(output, x):
        y, mean, log_variance = output
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1)
        return (y - x).square().sum(1).mean() + divergence.mean()

    model = Lambda(forward, encoder=nn.Linear(20, 8), decoder=nn.Linear(4, 20))
    x = torch.randn(32, 20)
    return model, (x, x), loss


def small_penalty():
    model = Lambda(
        lambda m, x: (m.head(code := m.body(x).relu()), code),
        body=nn.Linear(20, 16),
        head=nn.Linear(16, 4),
    )

    def loss(output, targets):
        return F.cross_entropy(output[0], targets) + 1e-3 * output[1].abs().sum(1).mean()

    return model, (torch.randn(32, 20), torch.arange(32) % 4), loss


def segmentation():
    """Pixels of 255 are void, and ignored."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 3, padding=1))
    labels = torch.randint(5, (8, 16, 16))
    labels[:, :2] = 255
    loss = functools.partial(F.cross_entropy, ignore_index=255)
    return model, (torch.randn(8, 3, 16, 16), labels), loss


def translation():
    """The decoder is causal, the encoder is not; padding of the targets is ignored."""

    def forward(m, source, target):
        padding = source == 0
        memory = m.encoder(m.embed(source), src_key_padding_mask=padding)
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        states = m.decoder(m.embed(target), memory, tgt_mask=mask, memory_key_padding_mask=padding)
        return m.head(states)

    encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = Lambda(
        forward,
        embed=nn.Embedding(VOCABULARY, 16),
        encoder=nn.TransformerEncoder(encoder, 1, enable_nested_tensor=False),
        decoder=nn.TransformerDecoderLayer(16, 2, 32, batch_first=True),
        head=nn.Linear(16, VOCABULARY),
    )
    source, _, _ = padded()
    target, _, _ = padded(16, 9)

    def loss(output, targets):
        return F.cross_entropy(output.flatten(0, 1), targets.flatten(), ignore_index=0)

    return model, ((source, target[:, :-1]), target[:, 1:]), loss


def speech():
    """Recurrent network with strided convolution, and CTC."""
    model = Lambda(
        lambda m, x: m.head(m.rnn(m.conv(x.mT).relu().mT)[0]).log_softmax(-1),
        conv=nn.Conv1d(8, 16, 3, stride=2, padding=1),
        rnn=nn.GRU(16, 16, batch_first=True, bidirectional=True),
        head=nn.Linear(32, 6),
    )

    def loss(output, targets):
        n = len(output)
        lengths = torch.full((n,), output.shape[1]), torch.full((n,), targets.shape[1])
        return F.ctc_loss(output.transpose(0, 1), targets, *lengths)

    return model, (torch.randn(8, 30, 8), torch.randint(1, 6, (8, 5))), loss


def balanced_weights():
    y = torch.repeat_interleave(torch.arange(4), torch.tensor([40, 12, 8, 4]))
    counts = torch.bincount(y)
    loss = functools.partial(F.cross_entropy, weight=len(y) / (4 * counts))
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
    return model, (torch.randn(64, 20), y), loss


def distillation():
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))

    def loss(output, targets):
        return F.kl_div(F.log_softmax(output, 1), targets, reduction="batchmean")

    return model, (torch.randn(32, 20), torch.randn(32, 5).softmax(1)), loss


def tables_of_categories():
    """One embedding per column of whole numbers."""
    model = Lambda(
        lambda m, x: m.head(sum(table(x[:, i]) for i, table in enumerate(m.tables)).relu()),
        tables=nn.ModuleList(nn.Embedding(7, 16) for _ in range(5)),
        head=nn.Linear(16, 3),
    )
    return model, (torch.randint(7, (32, 5)), torch.arange(32) % 3), CROSS_ENTROPY


def one_hot_tokens():
    """Whole numbers without an embedding."""
    model = Lambda(
        lambda m, x: m.head(m.rnn(F.one_hot(x, VOCABULARY).float())[0]),
        rnn=nn.GRU(VOCABULARY, 16, batch_first=True),
        head=nn.Linear(16, VOCABULARY),
    )
    x = tokens()
    return model, (x[:, :-1], x[:, 1:]), token_cross_entropy


def shared_layer_called_in_a_loop():
    def forward(m, x):
        x = m.stem(x)
        for _ in range(3):
            x = x + m.layer(x).relu()
        return m.head(x)

    model = Lambda(forward, stem=nn.Linear(20, 16), layer=nn.Linear(16, 16), head=nn.Linear(16, 4))
    return model, (torch.randn(32, 20), torch.arange(32) % 4), CROSS_ENTROPY


def set_of_points():
    model = Lambda(
        lambda m, x: m.head(m.each(x).relu().amax(1)), each=nn.Linear(3, 32), head=nn.Linear(32, 4)
    )
    return model, (torch.randn(16, 40, 3), torch.arange(16) % 4), CROSS_ENTROPY


def audio_with_channels_first():
    model = nn.Sequential(
        nn.Conv1d(4, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
        nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip
    scales = torch.tensor([1.0, 2.0, 0.5, 1.5])[:, None]
    return model, (torch.randn(16, 4, 50) * scales, torch.arange(16) % 3), CROSS_ENTROPY


def last_token_of_left_padding():
    model = nets.build("gpt-2", vocabulary=VOCABULARY, context=12, width=16, heads=2)
    wrapped = Lambda(lambda m, x: m.body(x)[:, -1, :3], body=model)
    x, _, y = padded()
    return wrapped, (x.flip(1), y), CROSS_ENTROPY


HEALTHY = {
    name: value
    for name, value in dict(globals()).items()
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and name not in ("tokens", "padded", "Lambda")
}
