"""The remedy in real training: on digits, and on two processes."""

import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F

from bathyscope import data
from bathyscope.linalg import conv_singular_values
from bathyscope.linalg.conv_spectrum import isotropic_target
from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.kernel_projection import exact_projection
from bathyscope.linalg.norms import spread_about
from bathyscope.linalg.taps import polyphase
from bathyscope.remedies import procrustes_


def spread_of(kernel, target):
    return spread_about(conv_singular_values(kernel, 12).values, target)


def test_after_24_steps_on_digits_the_spread_is_less_than_half_of_one_projection_and_cut():
    digits = data.load("digits")
    torch.manual_seed(0)
    convs = [nn.Conv2d(c, d, 3, padding=1, bias=False) for c, d in ((1, 16), (16, 32), (32, 64))]
    body = [m for conv in convs for m in (conv, nn.BatchNorm2d(conv.out_channels), nn.ReLU())]
    model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    targets = [isotropic_target(convolution_of(conv)) for conv in convs]
    once = [
        spread_of(exact_projection(polyphase(convolution_of(conv)), s).to_kernel()[0], s)
        for conv, s in zip(convs, targets, strict=True)
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    procrustes_(optimizer, convs, every=2)
    order = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(24):
        chosen = torch.randint(len(digits.train_labels), (64,), generator=order)
        loss = F.cross_entropy(model(digits.train_inputs[chosen]), digits.train_labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    for conv, target, before in zip(convs, targets, once, strict=True):
        assert spread_of(conv.weight.detach(), target) <= before / 2


def _train_on_one_process(rank, port, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 1))
    model = nn.parallel.DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    handle = procrustes_(optimizer, [layers[0], layers[2]], every=2, gain="measured")
    generator = torch.Generator().manual_seed(rank)  # each process has its own data
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(4, 2, 6, 6, generator=generator)).square().mean().backward()
        optimizer.step()
    targets = [layer.target for layer in handle.report().layers]
    results[rank] = (layers[0].weight.detach(), layers[2].weight.detach(), targets)
    dist.destroy_process_group()


@pytest.mark.slow
def test_processes_that_train_together_stay_the_same():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    results = mp.Manager().dict()
    mp.spawn(_train_on_one_process, (port, results), nprocs=2)
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert results[0][2] == results[1][2], "what is measured is summed over both"
