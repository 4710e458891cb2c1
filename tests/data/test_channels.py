import numpy as np
import torch

from bathyscope.data import channel_statistics, normalize


def test_statistics_agree_with_numpy():
    images = torch.rand(50, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    mean, std = channel_statistics(images)
    np.testing.assert_allclose(mean, images.numpy().mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(std, images.numpy().std((0, 2, 3)), rtol=1e-5)


def test_normalized_images_have_zero_mean_and_unit_deviation():
    images = 7 + 3 * torch.rand(50, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    mean, std = channel_statistics(images)
    mean, std = channel_statistics(normalize(images, mean=mean, std=std))
    torch.testing.assert_close(mean, torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(std, torch.ones(3))


def test_a_constant_channel_becomes_zero_not_nan():
    images = torch.full((4, 2, 3, 3), 0.1)
    mean, std = channel_statistics(images)
    assert std.tolist() == [1.0, 1.0]
    assert normalize(images, mean=mean, std=std).abs().max() < 1e-7


def test_dtype_follows_the_input():
    mean, std = channel_statistics(torch.rand(4, 1, 2, 2, dtype=torch.float64))
    assert mean.dtype == std.dtype == torch.float64
