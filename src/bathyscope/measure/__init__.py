"""Measurements of any network, block by block. Each leaves the model bit for bit as it was."""

from bathyscope.measure.activations import activations
from bathyscope.measure.attention import attention, attention_heads
from bathyscope.measure.deletion import deletion
from bathyscope.measure.gradients import gradients
from bathyscope.measure.parameter_gradients import parameter_gradients
from bathyscope.measure.representations import representation_spectra, representations
from bathyscope.measure.standard import standard
from bathyscope.measure.updates import updates
from bathyscope.measure.weights import weights

__all__ = [
    "activations",
    "attention",
    "attention_heads",
    "deletion",
    "gradients",
    "parameter_gradients",
    "representation_spectra",
    "representations",
    "standard",
    "updates",
    "weights",
]
