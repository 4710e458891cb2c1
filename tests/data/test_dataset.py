import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.data import load


def test_normalizing_uses_the_training_images_and_is_done_once():
    raw = load("digits")
    done = raw.normalized()
    expected = (raw.test_inputs - raw.mean[:, None, None]) / raw.std[:, None, None]
    torch.testing.assert_close(done.test_inputs, expected)
    assert done.normalized() is done
    assert not raw.is_normalized


def test_a_subset_is_drawn_without_replacement_the_same_for_the_same_seed():
    digits = load("digits")
    part = digits.subset(100, 50, seed=3)
    assert (len(part.train_labels), len(part.test_inputs)) == (100, 50)
    assert len(part.train_inputs.flatten(1).unique(dim=0)) == 100
    assert torch.equal(part.train_inputs, digits.subset(100, 50, seed=3).train_inputs)
    assert not torch.equal(part.train_inputs, digits.subset(100, 50, seed=4).train_inputs)


@pytest.mark.parametrize("wanted", [0, 1443])
def test_an_impossible_subset_is_refused(wanted):
    with pytest.raises(UsageError, match="between 1 and 1442"):
        load("digits").subset(wanted)


def test_a_set_tells_its_sizes_and_not_its_pixels():
    result = repr(load("digits", num_train=32))
    assert result.startswith("<DataSet digits: 32 images to train on")
    assert len(result) < 100
