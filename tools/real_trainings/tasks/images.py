"""Tasks on real images: classification, autoencoding, a VAE, denoising and contrastive learning."""

import math
from functools import cache
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from bathyscope import data as sets
from tools.real_trainings.networks.dense import Autoencoder, DenseNet, VariationalAutoencoder
from tools.real_trainings.networks.images import ConvNet, ImageToImage, Mixer, VisionTransformer
from tools.real_trainings.networks.recurrent import Recurrent
from tools.real_trainings.tasks.task import Task, Tensors, accuracy, class_entropy, mean_square

NUM_TRAIN, NUM_HELD_OUT = 8000, 256
BOTTLENECK = 8
TEMPERATURE = 0.2
NOISE = 0.7


@cache
def _images(name: str, normalize: bool = True) -> tuple[Tensors, Tensors]:
    loaded = sets.load(
        name, num_train=NUM_TRAIN, num_test=NUM_HELD_OUT, normalize=normalize, seed=0
    )
    return (
        (torch.as_tensor(loaded.train_inputs[:]), loaded.train_labels),
        (torch.as_tensor(loaded.test_inputs[:]), loaded.test_labels),
    )


@cache
def _halved(name: str, normalize: bool) -> tuple[Tensors, Tensors]:
    """The images at half their resolution, without labels."""
    train, held_out = _images(name, normalize)
    return (F.avg_pool2d(train[0], 2),), (F.avg_pool2d(held_out[0], 2),)


def _classify(model: nn.Module, batch: Tensors) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def _accuracy(model: nn.Module, batch: Tensors) -> float:
    return accuracy(model(batch[0]), batch[1])


def _ten_classes(held_out: Tensors, train: Tensors, _: int) -> float:
    return class_entropy(held_out[1], train[1], 10)


def _classification(name: str, **options: Any) -> Task:
    return Task(
        name=name,
        kind="image classification",
        loss_name="cross-entropy",
        baseline="cross-entropy of the classes' training frequencies",
        data=lambda: _images(name),
        loss=_classify,
        constant_loss=_ten_classes,
        metric=_accuracy,
        metric_name="accuracy",
        **options,
    )


CIFAR = _classification(
    "cifar-10",
    families={
        "conv": lambda c: ConvNet(3, 10, **c),
        "vit": lambda c: VisionTransformer(3, 10, side=32, patch=8, **c),
        "mixer": lambda c: Mixer(3, 10, side=32, patch=8, **c),
    },
    batch_sizes=(16, 32),
    longest=1000,
)
FASHION = _classification(
    "fashion-mnist",
    families={
        "conv": lambda c: ConvNet(1, 10, **c),
        "vit": lambda c: VisionTransformer(1, 10, side=28, patch=7, **c),
    },
    batch_sizes=(16, 32),
    longest=1000,
)
MNIST = _classification(
    "mnist",
    families={
        "dense": lambda c: DenseNet(784, 10, **c),
        "recurrent": lambda c: _RowReader(**c),
    },
)


class _RowReader(nn.Module):
    """A recurrent network that reads an image at half its resolution, row by row."""

    def __init__(self, **choices: Any) -> None:
        super().__init__()
        self.rows = Recurrent(14, 10, is_token=False, is_last_only=True, **choices)

    def forward(self, x: Tensor) -> Tensor:
        """One row of outputs per image."""
        return self.rows(F.avg_pool2d(x, 2).squeeze(1))


def _reconstruct(model: nn.Module, batch: Tensors) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[0].flatten(1))


AUTOENCODER = Task(
    name="autoencode-mnist",
    kind="autoencoding",
    loss_name="squared error",
    baseline="squared error of the mean training image",
    families={"dense": lambda c: Autoencoder(784, bottleneck=BOTTLENECK, **c)},
    data=lambda: _images("mnist"),
    loss=_reconstruct,
    constant_loss=lambda held_out, train, _: mean_square(held_out[0], train[0]),
    sgd_rate=1.0,
)


def _negative_elbo(model: nn.Module, batch: Tensors) -> Tensor:
    """Negative evidence lower bound, in nats per image."""
    images, noise = batch
    logits, mean, log_variance = model(images, noise)
    pixels = F.binary_cross_entropy_with_logits(logits, images.flatten(1), reduction="none")
    divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)
    return (pixels.sum(1) + divergence.sum(1)).mean()


def _mean_image_nats(held_out: Tensors, train: Tensors, _: int) -> float:
    mean = train[0].mean(0).clamp(1e-4, 1 - 1e-4).expand_as(held_out[0])
    return float(
        F.binary_cross_entropy(mean, held_out[0], reduction="none").flatten(1).sum(1).mean()
    )


def _with_code_noise(batch: Tensors, generator: Generator) -> Tensors:
    return batch[0], torch.randn(len(batch[0]), BOTTLENECK, generator=generator)


VAE = Task(
    name="vae-fashion",
    kind="variational autoencoding",
    loss_name="negative evidence lower bound",
    baseline="Bernoulli entropy of the mean training image; the code carries nothing",
    families={"dense": lambda c: VariationalAutoencoder(196, bottleneck=BOTTLENECK, **c)},
    data=lambda: _halved("fashion-mnist", normalize=False),
    loss=_negative_elbo,
    constant_loss=_mean_image_nats,
    add_noise=_with_code_noise,
    sgd_rate=1e-3,
)


def _denoise(model: nn.Module, batch: Tensors) -> Tensor:
    images, noise = batch
    return F.mse_loss(model(images + NOISE * noise).view_as(images), images)


DENOISER = Task(
    name="denoise-fashion",
    kind="denoising",
    loss_name="squared error",
    baseline="squared error of the mean training image",
    families={
        "conv": lambda c: ImageToImage(1, 1, **c),
        "dense": lambda c: DenseNet(196, 196, **c),
    },
    data=lambda: _halved("fashion-mnist", normalize=True),
    loss=_denoise,
    constant_loss=lambda held_out, train, _: mean_square(held_out[0], train[0]),
    add_noise=lambda batch, g: (batch[0], torch.randn(batch[0].shape, generator=g)),
    batch_sizes=(8, 16),
    longest=1000,
    sgd_rate=0.3,
)


def _views(batch: Tensors, generator: Generator) -> Tensors:
    """Two views of each image: moved by up to two pixels, noisy, with a square erased."""
    both = []
    for _ in range(2):
        dx, dy, row, column = torch.randint(-2, 3, (4,), generator=generator).tolist()
        view = torch.roll(batch[0], (dx, dy), (2, 3))
        view = view + 0.5 * torch.randn(view.shape, generator=generator)
        view[:, :, 5 + row : 9 + row, 5 + column : 9 + column] = 0
        both.append(view)
    return both[0], both[1]


def _similarities(model: nn.Module, batch: Tensors) -> Tensor:
    first, second = (F.normalize(model(view), dim=1) for view in batch)
    return first @ second.T / TEMPERATURE


def _info_nce(model: nn.Module, batch: Tensors) -> Tensor:
    return F.cross_entropy(_similarities(model, batch), torch.arange(len(batch[0])))


CONTRAST = Task(
    name="contrast-mnist",
    kind="contrastive learning",
    loss_name="InfoNCE",
    baseline="logarithm of the batch size",
    families={
        "conv": lambda c: ConvNet(1, 16, **c),
        "dense": lambda c: DenseNet(196, 16, **c),
    },
    data=lambda: _halved("mnist", normalize=True),
    loss=_info_nce,
    constant_loss=lambda held_out, train, size: math.log(size),
    metric=lambda model, batch: accuracy(_similarities(model, batch), torch.arange(len(batch[0]))),
    metric_name="accuracy",
    add_noise=_views,
    batch_sizes=(32, 64),
    longest=1000,
    sgd_rate=0.3,
)
