import torch

from bathyscope.data import load


def test_digits_are_split_by_class_without_overlap():
    digits = load("digits")
    assert digits.shape == (1, 8, 8)
    assert (len(digits.train_labels), len(digits.test_labels)) == (1442, 355)
    counts = torch.bincount(digits.test_labels, minlength=10)
    assert counts.min() >= 34
    assert counts.max() <= 37
    everything = torch.cat([digits.train_inputs, digits.test_inputs]).flatten(1)
    assert len(everything.unique(dim=0)) == 1797


def test_pixels_lie_between_zero_and_one_and_labels_fit_them():
    digits = load("digits")
    assert (digits.train_inputs.min(), digits.train_inputs.max()) == (0, 1)
    # The mean image of a class is nearest to the test images of that class, mostly.
    means = torch.stack([digits.train_inputs[digits.train_labels == c].mean(0) for c in range(10)])
    nearest = torch.cdist(digits.test_inputs.flatten(1), means.flatten(1)).argmin(1)
    assert (nearest == digits.test_labels).float().mean() > 0.85


def test_the_file_that_is_read_holds_what_scikit_learn_gives(monkeypatch):
    whole = load("digits")
    monkeypatch.setattr("bathyscope.data.digits.find_spec", lambda name: None)
    given = load("digits")
    assert torch.equal(whole.train_inputs, given.train_inputs)
    assert torch.equal(whole.test_labels, given.test_labels)
    assert len(whole.train_labels) + len(whole.test_labels) == 1797
