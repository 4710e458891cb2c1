"""Faults of who reads whom: each planted, its twin without it, and networks that mix by design."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from bathyscope.core import Severity
from bathyscope.diagnosis import diagnose
from bathyscope.rules import all_rules
from tests.diagnosis.components import tuning
from tests.diagnosis.judged import PROGRAMS
from tests.loops.language import WORDS, LanguageModel, sentences
from tests.loops.programs import st02, st04, st10, st12, st14, st22, st26, st28, st30, tc06, tc10
from tests.loops.tasks import digits, mlp
from tests.measure.dependence.architectures import Embedded, Masked
from tests.rules.dependent_networks import HEALTHY, VOCABULARY, Lambda, padded, tokens

OF_DEPENDENCE = {
    code
    for code, rule in all_rules().items()
    if {"dependence", "effective_targets"} & set(rule.reads)
}


def images(samples=32):
    x, y, _, _ = digits()
    return x[:samples], y[:samples]


def of_words(output, targets):
    return F.cross_entropy(output.reshape(-1, WORDS), targets.reshape(-1))


def next_word(ahead):
    text = sentences(16)
    return (text, text) if not ahead else (text[:, :-ahead], text[:, ahead:])


def no_causal_mask(fault):
    return LanguageModel(causal=not fault), next_word(1), of_words


def unshifted(fault):
    return LanguageModel(), next_word(0 if fault else 1), of_words


def shifted_twice(fault):
    return LanguageModel(), next_word(2 if fault else 1), of_words


def rare_classes_count_less(fault):
    y = torch.repeat_interleave(torch.arange(4), torch.tensor([40, 12, 8, 4]))
    counts = torch.bincount(y).float()
    loss = functools.partial(F.cross_entropy, weight=counts / 64 if fault else 16 / counts)
    return mlp(8, 16, 4), (torch.randn(64, 8), y), loss


def unnormalized_divergence(fault):
    def loss(output, x):
        y, mean, log_variance = output
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp())
        error = (y - x).square()
        if fault:
            return error.mean() + divergence.sum()
        return error.sum(1).mean() + divergence.sum(1).mean()

    x = images()[0]
    return st28.Autoencoder(), (x, x), loss


def no_temperature(fault):
    def loss(output, targets):
        one, two = F.normalize(output, dim=1).chunk(2)
        scores = one @ two.T / (1.0 if fault else 0.1)
        return F.cross_entropy(scores, torch.arange(len(one)))

    x = torch.randn(48, 20)
    views = torch.cat([x, x + 0.3 * torch.randn_like(x)])
    return mlp(20, 32, 16), (views, torch.arange(96) % 48), loss


def spectral_norms_in_eval_mode(fault):
    norm = tc06.spectral_norm
    model = nn.Sequential(norm(nn.Linear(64, 64)), nn.ReLU(), norm(nn.Linear(64, 10)))
    return model.train(not fault), images(), F.cross_entropy


def checkpoint_behind_a_frozen_embedding(fault):
    def forward(m, x):
        states = checkpoint(m.adapter, m.embed(x), use_reentrant=fault)
        return m.head(states.mean(1))

    model = Lambda(
        forward,
        embed=nn.Embedding(VOCABULARY, 16).requires_grad_(False),
        adapter=nn.Sequential(nn.Linear(16, 16), nn.ReLU()),
        head=nn.Linear(16, 3),
    )
    with torch.no_grad():
        model.embed.weight.mul_(0.5)  # as loaded
    return model, (tokens(), torch.arange(16) % 3), F.cross_entropy


def layers_in_a_list(fault):
    def forward(m, x):
        for layer in m.layers:
            x = layer(x).relu()
        return m.head(x)

    layers = [nn.Linear(8, 8) for _ in range(3)]
    model = Lambda(forward, head=nn.Linear(8, 3))
    model.layers = layers if fault else nn.ModuleList(layers)
    return model, (torch.randn(32, 8), torch.arange(32) % 3), F.cross_entropy


def layer_made_in_forward(fault):
    def forward(m, x):
        layer = nn.Linear(8, 8) if fault else m.layer
        return m.head(layer(x).relu())

    model = Lambda(forward, head=nn.Linear(8, 3))
    model.layer = None if fault else nn.Linear(8, 8)
    return model, (torch.randn(32, 8), torch.arange(32) % 3), F.cross_entropy


def masked_classifier(which):
    """Mean over real tokens after attention: the mask is passed on, left out or inverted."""

    def forward(m, input_ids, attention_mask):
        used = {"inverted": 1 - attention_mask, "forgotten": None}.get(which, attention_mask)
        states = m.body(input_ids, attention_mask=used)
        real = attention_mask.unsqueeze(-1).float()
        return m.head((states * real).sum(1) / real.sum(1))

    model = Lambda(forward, body=Embedded(Masked(), vocabulary=VOCABULARY), head=nn.Linear(5, 3))
    x, _, y = padded()
    return model, ({"input_ids": x, "attention_mask": (x != 0).long()}, y), F.cross_entropy


def mask_forgotten(fault):
    return masked_classifier("forgotten" if fault else "passed on")


def mask_inverted(fault):
    return masked_classifier("inverted" if fault else "passed on")


def documents_in_one_sequence(fault):
    def forward(m, input_ids, document_ids):
        return m.body(input_ids, document_ids=None if fault else document_ids)

    body = Embedded(Masked(causal=True), vocabulary=VOCABULARY)
    documents = (torch.arange(12) >= 5).long().expand(16, -1)
    given = {"input_ids": tokens(), "document_ids": documents}
    return (
        Lambda(forward, body=body),
        (given, torch.arange(16 * 12).reshape(16, 12) % 5),
        (lambda output, targets: F.cross_entropy(output.flatten(0, 1), targets.flatten())),
    )


def interleaved_pictures(fault):
    rows = torch.linspace(0, 3, 16)
    waves = torch.sin(rows[:, None] + rows[None]) + 0.1 * torch.randn(16, 16, 16)
    colors = torch.tensor([0.0, 1.0, -1.0]) + waves.unsqueeze(-1) * torch.tensor([1.0, 0.3, 0.6])
    pictures = colors.reshape(16, 3, 16, 16) if fault else colors.permute(0, 3, 1, 2)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 196, 4))
    return model, (pictures.contiguous(), torch.arange(16) % 4), F.cross_entropy


def momentum_of_keras(fault):
    norm = nn.BatchNorm1d(16, momentum=0.99 if fault else 0.01)
    model = nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 3))
    return model, (torch.randn(32, 8), torch.arange(32) % 3), F.cross_entropy


def momentum_of_zero(fault):
    norm = nn.BatchNorm1d(16, momentum=0.0 if fault else 0.1)
    model = nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 3))
    return model, (torch.randn(32, 8), torch.arange(32) % 3), F.cross_entropy


def divergence_of_probabilities(fault):
    def loss(output, targets):
        return F.kl_div(output, targets, reduction="batchmean")

    end = nn.Softmax(1) if fault else nn.LogSoftmax(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5), end)
    return model, (torch.randn(32, 8), torch.randn(32, 5).softmax(1)), loss


def every_second_token(fault):
    model = Lambda(
        lambda m, x: m.head(m.rnn(m.embed(x[:, ::2] if fault else x))[0].mean(1)),
        embed=nn.Embedding(VOCABULARY, 16),
        rnn=nn.GRU(16, 16, batch_first=True),
        head=nn.Linear(16, 3),
    )
    return model, (tokens(), torch.arange(16) % 3), F.cross_entropy


def left_half_of_pictures(fault):
    model = Lambda(
        lambda m, x: m.net(x[..., :8] if fault else x),
        net=nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(32, 3),
        ),
    )  # fmt: skip
    return model, (torch.randn(16, 1, 16, 16), torch.arange(16) % 3), F.cross_entropy


def frozen_as_drawn(fault):
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model[0].requires_grad_(False)
    if not fault:
        with torch.no_grad():
            model[0].weight.add_(0.05 * torch.randn(64, 64))  # as trained
    return model, images(), F.cross_entropy


def tags(fault):
    loss = functools.partial(F.cross_entropy, ignore_index=0 if fault else -100)
    return st10.Tagger(), st10.sample(16), loss


def logits_viewed(fault):
    """(samples, positions, classes) viewed as (samples, classes, positions), or transposed."""

    def loss(output, targets):
        swapped = output.reshape(len(output), 7, -1) if fault else output.transpose(1, 2)
        return F.cross_entropy(swapped, targets)

    model = Lambda(
        lambda m, x: m.head(m.rnn(m.embed(x))[0]),
        embed=nn.Embedding(VOCABULARY, 16),
        rnn=nn.GRU(16, 16, batch_first=True),
        head=nn.Linear(16, 7),
    )
    x = tokens()
    return model, (x, x % 7), loss


def hidden_state_kept(fault):
    def forward(m, x):
        states, last = m.rnn(x, m.hidden)
        m.hidden = last.detach() if fault else None
        return m.head(states[:, -1])

    model = Lambda(forward, rnn=nn.GRU(6, 16, batch_first=True), head=nn.Linear(16, 4))
    model.hidden = None
    return model, (torch.randn(16, 9, 6), torch.arange(16) % 4), F.cross_entropy


PLANTED = {
    "scrambled-outputs": logits_viewed,
    "crossed-heads": lambda fault: (st02.Attention(fault), st02.sample(32), F.cross_entropy),
    "mixed-samples, recurrent": lambda fault: (st04.RowReader(fault), images(), F.cross_entropy),
    "mixed-samples, softmax": lambda fault: (st12.Pool(fault), st12.sample(32), F.cross_entropy),
    "missing-causal-mask": no_causal_mask,
    "unshifted-labels": unshifted,
    "labels-shifted-twice": shifted_twice,
    "ignored-class": tags,
    "repeated-layer": lambda fault: (st14.Encoders(fault), st14.sample(64), F.mse_loss),
    "detached-parameters": checkpoint_behind_a_frozen_embedding,
    "norm-over-wrong-axis": lambda fault: (st22.Activity(fault), st22.sample(32), F.cross_entropy),
    "frequent-classes-weigh-more": rare_classes_count_less,
    "place-in-batch": lambda fault: (st26.Reader(fault), st26.sample(32), F.cross_entropy),
    "unbalanced-terms": unnormalized_divergence,
    "state-behind-padding": lambda fault: (
        st30.Classifier(fault),
        st30.sample(32),
        F.cross_entropy,
    ),
    "missing-temperature": no_temperature,
    "unnormalized-weights": spectral_norms_in_eval_mode,
    "random-in-eval": lambda fault: (tc10.RowAttention(fault), images(), F.cross_entropy),
    "unlisted-parameters, list": layers_in_a_list,
    "unlisted-parameters, forward": layer_made_in_forward,
    "padding-read, forgotten": mask_forgotten,
    "padding-read, inverted": mask_inverted,
    "interleaved-channels": interleaved_pictures,
    "still-statistics, 0.99": momentum_of_keras,
    "still-statistics, 0": momentum_of_zero,
    "missing-logarithm": divergence_of_probabilities,
    "unread-input, tokens": every_second_token,
    "unread-input, pixels": left_half_of_pictures,
}
WARNINGS = {
    "crossed-documents": documents_in_one_sequence,
    "carried-state": hidden_state_kept,
    "frozen-fresh-weights": frozen_as_drawn,
}


def diagnosed(build, *args):
    torch.manual_seed(0)
    model, batch, loss = build(*args)
    trained = [p for p in model.parameters() if p.requires_grad]
    return diagnose(model, batch, loss=loss, optimizer=torch.optim.Adam(trained, lr=1e-3))


def codes(diagnosis, *severities):
    return [f.code for f in diagnosis.findings if f.severity in severities]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_a_problem_among_the_first_three(name):
    code = name.partition(",")[0]
    assert code in codes(diagnosed(PLANTED[name], True), Severity.PROBLEM)[:3]


@pytest.mark.parametrize("name", PLANTED)
def test_its_twin_without_the_fault_has_no_such_problem(name):
    result = diagnosed(PLANTED[name], False)
    assert not OF_DEPENDENCE & set(codes(result, Severity.PROBLEM))
    assert name.partition(",")[0] not in codes(result, *Severity)


@pytest.mark.parametrize("name", WARNINGS)
def test_what_may_be_meant_is_a_warning(name):
    assert name in codes(diagnosed(WARNINGS[name], True), Severity.WARNING)
    assert name not in codes(diagnosed(WARNINGS[name], False), *Severity)


@pytest.mark.parametrize("name", HEALTHY)
def test_networks_that_depend_by_design_have_no_problem(name):
    result = diagnosed(HEALTHY[name])
    assert not OF_DEPENDENCE & set(codes(result, Severity.PROBLEM))


def test_every_rule_of_dependence_is_planted():
    planted = {name.partition(",")[0] for name in (*PLANTED, *WARNINGS)}
    planted |= {code for fault in tuning.FAULTS for code in fault.codes}
    planted |= {code for _, codes in PROGRAMS.values() for code in codes}
    elsewhere = {"untied-weights", "fresh-head", "end-never-asked"}  # each in a test of its own
    assert planted >= OF_DEPENDENCE - elsewhere


def test_a_configured_tie_that_is_not_there_is_a_warning():
    class Config:
        tie_word_embeddings = True

    class Model(nn.Module):
        def __init__(self, tied):
            super().__init__()
            self.config = Config()
            self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
            if tied:
                self.head.weight = self.embed.weight

        def get_input_embeddings(self):
            return self.embed

        def get_output_embeddings(self):
            return self.head

        def forward(self, x):
            return self.head(self.embed(x).mean(1))

    def build(tied):
        return Model(tied), (torch.randint(11, (16, 5)), torch.arange(16) % 11), F.cross_entropy

    assert "untied-weights" in codes(diagnosed(build, False), Severity.WARNING)
    assert "untied-weights" not in codes(diagnosed(build, True), *Severity)
