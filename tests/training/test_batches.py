import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.training import TrainingConfig
from bathyscope.training.batches import TrainingBatches, check_examples


def numbered(n, **settings):
    x = torch.arange(n, dtype=torch.float32)
    return TrainingBatches((x[:, None], x.long()), TrainingConfig(**settings))


def test_an_epoch_is_a_permutation_and_epochs_differ():
    batches = numbered(23, batch_size=5)
    epochs = [torch.cat([y for _, y in batches.epoch(e)]) for e in (0, 1)]
    for order in epochs:
        assert sorted(order.tolist()) == list(range(23))
    assert not torch.equal(*epochs)


def test_inputs_and_targets_stay_together():
    for x, y in numbered(23, batch_size=5).epoch(3):
        assert torch.equal(x[:, 0].long(), y)


@pytest.mark.parametrize("start", [0, 1, 3, 4])
def test_an_epoch_can_be_taken_up_anywhere_with_its_augmentation(start):
    images = torch.randn(23, 1, 6, 6)
    batches = TrainingBatches(
        (images, torch.zeros(23)), TrainingConfig(batch_size=5, flip=True, shift=2)
    )
    whole, rest = list(batches.epoch(2)), list(batches.epoch(2, start=start))
    assert len(rest) == 5 - start
    for (a, _), (b, _) in zip(whole[start:], rest, strict=True):
        assert torch.equal(a, b)


def test_the_number_of_batches_counts_the_last_small_one_unless_dropped():
    assert numbered(23, batch_size=5).per_epoch == 5
    assert numbered(23, batch_size=5, drop_last=True).per_epoch == 4
    assert numbered(23, batch_size=None).per_epoch == 1
    assert numbered(3, batch_size=64, drop_last=True).per_epoch == 1


def test_augmentation_of_vectors_is_refused():
    with pytest.raises(UsageError, match="images"):
        check_examples((torch.zeros(4, 3), torch.zeros(4)), TrainingConfig(flip=True), what="t")


def test_unequal_numbers_are_refused():
    with pytest.raises(UsageError, match="4 inputs and 3 targets"):
        check_examples((torch.zeros(4, 3), torch.zeros(3)), TrainingConfig(), what="training")
