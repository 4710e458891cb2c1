"""Measurements of any network, block by block. Each leaves the model bit for bit as it was."""

from typing import TYPE_CHECKING

from bathyscope._lazy import lazy

if TYPE_CHECKING:
    from bathyscope.measure.activations import activations as activations
    from bathyscope.measure.attention import attention as attention
    from bathyscope.measure.attention import attention_heads as attention_heads
    from bathyscope.measure.deletion import deletion as deletion
    from bathyscope.measure.gradients import gradients as gradients
    from bathyscope.measure.parameters import parameter_gradients as parameter_gradients
    from bathyscope.measure.representations import representation_spectra as representation_spectra
    from bathyscope.measure.representations import representations as representations
    from bathyscope.measure.standard import standard as standard
    from bathyscope.measure.updates import updates as updates
    from bathyscope.measure.weights import weights as weights

# lazy, because a saved report is shown with `measure.quantities` and without torch
__getattr__, __dir__, __all__ = lazy(
    __name__,
    names={
        "activations": "activations",
        "attention": "attention",
        "attention_heads": "attention",
        "deletion": "deletion",
        "gradients": "gradients",
        "parameter_gradients": "parameters",
        "representation_spectra": "representations",
        "representations": "representations",
        "standard": "standard",
        "updates": "updates",
        "weights": "weights",
    },
)
