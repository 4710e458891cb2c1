"""The runs of section VI on ImageNet: networks of 101 layers in the form for large images."""

from bathyscope.core.json_values import JsonObject
from bathyscope.papers.singularity.studies.trained import PRINTED as PRINTED_OF_164
from bathyscope.papers.singularity.studies.trained import TrainedPreset

_TRUE_WIDTH = 64
_TRUE_PATHS = 32


class ImageNetPreset(TrainedPreset):
    """Settings of section VI-A for ImageNet.

    Attributes:
        width: channels of the stem, 64 in the true networks; ResNeXt has fewer paths with it.
    """

    depth: int = 101
    width: int = _TRUE_WIDTH

    def model_of(self, network: str) -> str:
        """The network's form with four stages and a stem that shrinks the image to a quarter."""
        return f"imagenet-{network}-{self.depth}"

    def options_of(self, network: str) -> JsonObject:
        """The width; for ResNeXt also the paths, which stay of four channels each."""
        paths = {"cardinality": max(_TRUE_PATHS * self.width // _TRUE_WIDTH, 1)}
        return {"width": self.width} | (paths if network == "resnext" else {})


QUICK = ImageNetPreset(
    width=16,
    epochs=30,
    rates=(0.01, 0.1),
    epochs_elsewhere=6,
    batch_size=64,
    warmup_epochs=1.5,
    num_train=512,
    evaluate_every=6,
    probe_size=64,
)
# Two thousand images are few enough to be learned by heart in thirty passes.
FULL = ImageNetPreset(
    data="tiny-imagenet",
    width=32,
    epochs=30,
    rates=(0.01,),
    batch_size=64,
    warmup_epochs=1.5,
    num_train=2000,
    num_test=1000,
    evaluate_every=5,
    probe_size=64,
)
PRINTED = ImageNetPreset(
    data="imagenet",
    epochs=PRINTED_OF_164.epochs,
    rates=PRINTED_OF_164.rates,
    batch_size=PRINTED_OF_164.batch_size,
    annealed=PRINTED_OF_164.annealed,
    augmented=True,
)
PRESETS = {"quick": QUICK, "full": FULL, "printed": PRINTED}
