import pytest
import torch

from bathyscope.data import load, names

SYNTHETIC = [name for name in names() if name.startswith("synthetic:")]


@pytest.mark.parametrize("name", SYNTHETIC)
def test_every_law_is_complete_finite_and_decided_by_its_seed(name):
    first, again, other = load(name, seed=1), load(name, seed=1), load(name, seed=2)
    assert (len(first.train_labels), len(first.test_labels)) == (2000, 500)
    assert torch.isfinite(first.train_inputs).all()
    assert len(first.train_labels.unique()) == first.num_classes
    assert torch.equal(first.train_inputs, again.train_inputs)
    assert torch.equal(first.test_labels, again.test_labels)
    assert not torch.equal(first.train_inputs, other.train_inputs)


def _linear_accuracy(dataset):
    """Least squares from [x 1] to one-hot labels, the plainest classifier there is."""
    targets = torch.nn.functional.one_hot(dataset.train_labels, dataset.num_classes).double()

    def features(inputs):
        flat = inputs.flatten(1).double()
        return torch.cat([flat, torch.ones(len(flat), 1, dtype=flat.dtype)], 1)

    weights = torch.linalg.lstsq(features(dataset.train_inputs), targets).solution
    predicted = (features(dataset.test_inputs) @ weights).argmax(1)
    return (predicted == dataset.test_labels).double().mean().item()


def test_clouds_are_linearly_separable_and_the_other_laws_are_not():
    assert _linear_accuracy(load("synthetic:gaussian")) > 0.8
    assert _linear_accuracy(load("synthetic:spirals")) < 0.7
    assert _linear_accuracy(load("synthetic:gratings")) < 0.5


def test_spirals_and_gratings_can_be_learned_from_their_neighbors():
    spirals = load("synthetic:spirals")
    distance = torch.cdist(spirals.test_inputs.flatten(1), spirals.train_inputs.flatten(1))
    nearest = spirals.train_labels[distance.argmin(1)]
    assert (nearest == spirals.test_labels).float().mean() > 0.9
    gratings = load("synthetic:gratings")
    # The power spectrum forgets phase and keeps the angle.
    spectrum = [torch.fft.fft2(x.mean(1)).abs().flatten(1) for x in
                (gratings.train_inputs, gratings.test_inputs)]  # fmt: skip
    means = torch.stack([spectrum[0][gratings.train_labels == c].mean(0) for c in range(10)])
    nearest = torch.cdist(spectrum[1], means).argmin(1)
    assert (nearest == gratings.test_labels).float().mean() > 0.9


def test_a_hundred_classes_of_angles_and_hues_show_in_the_spectrum_of_each_channel():
    """Nearest class mean of the channels' amplitude spectra, which do not know the phase."""
    hues = load("synthetic:hues")
    assert hues.num_classes == 100
    assert hues.train_labels.unique().numel() == 100
    train, test = (
        torch.fft.fft2(x).abs().flatten(1) for x in (hues.train_inputs, hues.test_inputs)
    )
    means = torch.stack([train[hues.train_labels == c].mean(0) for c in range(100)])
    nearest = torch.cdist(test, means).argmin(1)
    assert (nearest == hues.test_labels).float().mean() > 0.8
