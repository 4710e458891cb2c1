import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.data import flip_and_shift


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def _all_moves(image, shift):
    """Every possible result for one image, the slow way: a dict result → (row, column, mirrored)."""
    channels, height, width = image.shape
    padded = torch.zeros(channels, height + 2 * shift, width + 2 * shift, dtype=image.dtype)
    padded[:, shift : shift + height, shift : shift + width] = image
    moves = {}
    for row in range(2 * shift + 1):
        for column in range(2 * shift + 1):
            window = padded[:, row : row + height, column : column + width]
            moves[window.numpy().tobytes()] = (row, column, False)
            moves[window.flip(-1).contiguous().numpy().tobytes()] = (row, column, True)
    return moves


def test_every_result_is_a_move_and_all_moves_come_equally_often():
    image = torch.rand(3, 5, 6, generator=_generator(1)) + 1
    batch = image.expand(9_000, -1, -1, -1)
    moves = _all_moves(image, 1)
    assert len(moves) == 18
    counts = dict.fromkeys(moves.values(), 0)
    for result in flip_and_shift(batch, generator=_generator(), shift=1):
        counts[moves[result.contiguous().numpy().tobytes()]] += 1
    # 18 equally likely moves: 500 each, deviation 21.7; six deviations fail once in 3e7 draws.
    assert all(abs(count - 500) < 131 for count in counts.values())


def test_channels_move_together_and_samples_apart():
    batch = torch.rand(64, 1, 8, 8, generator=_generator(1)).repeat(1, 3, 1, 1)
    moved = flip_and_shift(batch, generator=_generator())
    assert torch.equal(moved[:, 0], moved[:, 2])
    same = torch.ones(64, 1, 8, 8)
    assert len(flip_and_shift(same, generator=_generator()).flatten(1).unique(dim=0)) > 10


def test_the_same_generator_state_gives_the_same_batch_and_the_input_is_untouched():
    batch = torch.rand(8, 3, 32, 32, generator=_generator(1))
    before = batch.clone()
    first = flip_and_shift(batch, generator=_generator(3))
    assert torch.equal(first, flip_and_shift(batch, generator=_generator(3)))
    assert not torch.equal(first, flip_and_shift(batch, generator=_generator(4)))
    assert torch.equal(batch, before)


def test_no_shift_and_no_flip_change_nothing():
    batch = torch.rand(8, 3, 9, 7, generator=_generator(1))
    assert torch.equal(flip_and_shift(batch, generator=_generator(), shift=0, flip=False), batch)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64])
def test_dtype_follows_the_input(dtype):
    batch = torch.ones(4, 1, 8, 8, dtype=dtype)
    assert flip_and_shift(batch, generator=_generator()).dtype == dtype


def test_an_empty_batch_stays_empty():
    assert flip_and_shift(torch.zeros(0, 3, 8, 8), generator=_generator()).shape == (0, 3, 8, 8)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_device_follows_the_input():
    batch = torch.rand(8, 3, 8, 8, generator=_generator(1))
    moved = flip_and_shift(batch.cuda(), generator=_generator())
    assert torch.equal(moved.cpu(), flip_and_shift(batch, generator=_generator()))


def test_a_negative_shift_is_refused():
    with pytest.raises(UsageError, match="-1"):
        flip_and_shift(torch.zeros(1, 1, 8, 8), generator=_generator(), shift=-1)
