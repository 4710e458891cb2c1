"""oneDNN's strided 1 × 1 weight gradient writes past its memory: the loop must never ask for it."""

import os
import platform
import re
import shutil
import subprocess
import sys

import pytest
import torch
from torch import nn

from bathyscope import nets
from bathyscope.training import TrainingConfig
from bathyscope.training.loop import Loop
from bathyscope.training.memory_format import is_channels_last_safe

_TRAIN = """
import torch
from bathyscope import nets
from bathyscope.training import TrainingConfig, fit

model = nets.build("prebasic-20", width={width}, in_channels=1, num_classes=10)
examples = torch.randn(8, 1, {size}, {size}), torch.arange(8)
config = TrainingConfig(epochs=1, batch_size=8, channels_last={channels_last}, compile={compile})
assert fit(model, examples, config=config).status == "finished"
"""
_WEIGHT_GRADIENT = re.compile(
    r"convolution,[^,]*1x1[^,]*,backward_weights,src:f32:\w*:blocked:(\w+)"
)

needs_onednn = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available(),
    reason="the kernels at fault are oneDNN's for x86",
)


def layouts(*, isa, width, size=8, channels_last=True, compile=False):
    """The layouts in which a training step computes strided 1 × 1 weight gradients."""
    code = _TRAIN.format(width=width, size=size, channels_last=channels_last, compile=compile)
    result = {"ONEDNN_VERBOSE": "1", "ONEDNN_MAX_CPU_ISA": isa, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | result, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return set(_WEIGHT_GRADIENT.findall(ended.stdout))


@pytest.mark.parametrize(
    ("layer", "safe"),
    [
        (nn.Conv2d(4, 8, 1, stride=2), False),
        (nn.Conv2d(15, 8, 1, stride=(1, 2)), False),
        (nn.Conv2d(32, 32, 1, stride=2, groups=4), False),
        (nn.Conv2d(16, 8, 1, stride=2), True),
        (nn.Conv2d(4, 8, 1), True),
        (nn.Conv2d(4, 8, 3, stride=2), True),
    ],
)
def test_only_narrow_strided_pointwise_convolutions_are_unsafe(layer, safe):
    assert is_channels_last_safe(nn.Sequential(nn.Flatten(), layer)) is safe


@pytest.mark.parametrize(("width", "kept"), [(2, False), (16, True)])
def test_the_loop_takes_channels_last_only_where_it_is_safe(width, kept):
    model = nets.build("prebasic-20", width=width, in_channels=3, num_classes=10)
    examples = torch.randn(8, 3, 8, 8), torch.arange(8)
    loop = Loop(model, examples, TrainingConfig(channels_last=True, batch_size=4))
    batch, _ = next(iter(loop.batches.epoch(0)))
    for tensor in (batch, loop.train[0], next(p for p in model.parameters() if p.ndim == 4)):
        assert tensor.is_contiguous(memory_format=torch.channels_last) is kept


@needs_onednn
def test_a_narrow_network_trains_as_with_avx2():
    """On such a processor this ended by signal 6 or 11, or with other numbers."""
    seen = layouts(isa="AVX2", width=2)
    assert seen
    assert "acdb" not in seen


@needs_onednn
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile wants a C++ compiler")
@pytest.mark.slow
def test_a_compiled_narrow_network_trains_as_with_avx2():
    seen = layouts(isa="AVX2", width=2, size=32, channels_last=False, compile=True)
    assert seen
    assert "acdb" not in seen


@needs_onednn
def test_the_log_shows_channels_last_where_it_is_taken():
    assert "acdb" in layouts(isa="AVX2", width=16)
