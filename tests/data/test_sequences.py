"""Sequences of tokens: the answers are right, and the same draw gives the same sequences."""

import hashlib
import sysconfig
from pathlib import Path

import pytest
import torch

from bathyscope import data, nets
from bathyscope.core import UsageError
from bathyscope.core.losses import IGNORED, token_cross_entropy
from bathyscope.core.nested import class_axis
from bathyscope.data.sequences import SEQUENCES, sequences
from bathyscope.diagnosis.race import label_accuracy


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_same_seed_gives_the_same_sequences(name):
    first, again, other = (sequences(name, num_train=20, num_test=5, seed=s) for s in (0, 0, 1))
    assert torch.equal(first.train_inputs, again.train_inputs)
    assert first.sha256 == again.sha256
    assert not torch.equal(first.train_inputs, other.train_inputs)


@pytest.mark.parametrize("name", SEQUENCES)
def test_tokens_lie_in_the_vocabulary_and_shapes_fit(name):
    result = sequences(name, context=9, num_train=20, num_test=5)
    for inputs, targets in (
        (result.train_inputs, result.train_targets),
        (result.test_inputs, result.test_targets),
    ):
        assert inputs.shape == targets.shape
        assert inputs.shape[1] <= 9
        assert 0 <= int(inputs.min()) <= int(inputs.max()) < result.vocabulary
        known = targets[targets != IGNORED]
        assert len(known)
        assert 0 <= int(known.min()) <= int(known.max()) < result.vocabulary


@pytest.mark.parametrize(("name", "expected"), [("copy", list), ("sorting", sorted)])
def test_answers_of_copy_and_sorting(name, expected):
    result = sequences(name, context=10, num_train=50, num_test=5)
    for row, target in zip(
        result.train_inputs.tolist(), result.train_targets.tolist(), strict=True
    ):
        digits = row[:5]
        assert row[5] == 10
        assert target == [IGNORED] * 5 + expected(digits)
        assert row[6:] == expected(digits)[:-1]


def test_answers_of_addition_and_no_pair_in_both_parts():
    result = sequences("addition", num_train=3000, num_test=1000)
    for a, b, mark in result.train_inputs[:50].tolist():
        row = result.train_inputs.tolist().index([a, b, mark])
        assert result.train_targets[row].tolist() == [IGNORED, IGNORED, (a + b) % 97]
    both = {tuple(r) for r in result.train_inputs.tolist()} & {
        tuple(r) for r in result.test_inputs.tolist()
    }
    assert not both


def test_text_is_the_standard_library_and_targets_are_shifted():
    result = sequences("text", context=32, num_train=20, num_test=5)
    assert torch.equal(result.train_inputs[:, 1:], result.train_targets[:, :-1])
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"), key=lambda p: p.name)
    whole = "".join(
        p.read_text(encoding="utf-8", errors="replace")
        for p in files
        if not p.name.startswith("_sysconfigdata")
    )
    assert result.sha256 == hashlib.sha256(whole.encode()).hexdigest()
    letters = "\t\n" + "".join(map(chr, range(32, 127))) + "?"
    row = "".join(letters[i] for i in result.train_inputs[0].tolist())
    assert row in "".join(c if c in letters else "?" for c in whole)


def test_what_cannot_be_had():
    with pytest.raises(UsageError, match="set of sequences named 'texts'"):
        sequences("texts")
    with pytest.raises(UsageError, match="context is a whole number of at least 3, but 2"):
        sequences("copy", context=2)
    with pytest.raises(UsageError, match="9409 sums modulo 97"):
        sequences("addition", num_train=9000, num_test=1000)
    with pytest.raises(UsageError, match="1 to 2000 sequences, but 3000"):
        data.sequences("copy").batch(3000)


def test_a_gpt_learns_to_copy():
    result = sequences("copy", context=8, num_train=2000, num_test=200)
    model = nets.build_for("gpt-2", (8,), num_classes=result.vocabulary, seed=0, width=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(150):
        inputs, targets = result.batch(64, generator=generator)
        optimizer.zero_grad()
        token_cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    with torch.no_grad():
        guesses = model(result.test_inputs).argmax(-1)
    asked = result.test_targets != IGNORED
    assert float((guesses == result.test_targets)[asked].double().mean()) > 0.5  # chance is 0.1


def test_token_cross_entropy_by_hand():
    logits = torch.randn(2, 3, 5, dtype=torch.float64)
    targets = torch.tensor([[1, IGNORED, 4], [0, 2, IGNORED]])
    known = [(0, 0, 1), (0, 2, 4), (1, 0, 0), (1, 1, 2)]
    expected = -sum(logits[n, t].log_softmax(0)[c] for n, t, c in known) / 4
    assert torch.allclose(token_cross_entropy(logits, targets), expected)
    images = torch.randn(4, 5)
    labels = torch.tensor([0, 1, 2, 3])
    assert torch.allclose(
        token_cross_entropy(images, labels), torch.nn.functional.cross_entropy(images, labels)
    )


def test_labels_of_tokens_are_counted_and_checked():
    targets = torch.tensor([[1, IGNORED, 4], [0, 2, IGNORED]])
    logits = torch.nn.functional.one_hot(targets.clamp(min=0), 5).double()
    logits[0, 0] = torch.tensor([1.0, 0, 0, 0, 0])
    assert class_axis(logits, targets) == -1
    assert label_accuracy(logits, targets) == 0.75
    assert label_accuracy(logits.movedim(-1, 1), targets) == 0.75
