"""Studies made small enough for tests: the same code, other presets."""

from dataclasses import replace

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bathyscope.papers.beyond.studies import catalog, depth, transformers
from bathyscope.papers.nests.studies import bottleneck, convolutional, estimators, vectors
from bathyscope.papers.norm_preservation.studies import accuracy, architectures, figure_2
from bathyscope.papers.shortcut_length.studies import convolutional as shortcut_convolutions
from bathyscope.papers.shortcut_length.studies import (
    dynamics,
    figure_3,
    figure_4,
    figure_10,
    figure_11,
    learning_rates,
)
from bathyscope.papers.singularity.studies import (
    imagenet_form,
    similar_networks,
    trained,
    which_came_first,
)
from bathyscope.studies import all_studies, registry

_ARCHITECTURES = architectures.ArchitecturePreset(
    depths=(11, 20), epochs=2, lr=0.02, batch_size=16, num_train=16, num_test=16, watch_every=2
)
_TRAINED = trained.TrainedPreset(
    depth=20, epochs=1, rates=(0.005, 0.1), batch_size=16, num_train=32, num_test=16
)
_IMAGENET_FORM = imagenet_form.ImageNetPreset(
    depth=50, width=2, epochs=1, rates=(0.005, 0.1), batch_size=8, num_train=8, num_test=8
)
_RATES = learning_rates.RatePreset(
    depths=(4, 8), rates=(0.03, 0.3), epochs=40, seeds=2, num_train=30
)
_ACCURACY = accuracy.AccuracyPreset(
    depths=(11,), epochs=1, lr=0.02, batch_size=16, num_train=16, num_test=16, augmented=False
)
_LENGTHS = shortcut_convolutions.ConvolutionPreset(
    depths=(8, 14), epochs=1, lr=0.02, batch_size=32, milestones=(1,), num_train=64, num_test=16
)
_DEEP = depth.DeepPreset(
    depth=5, width=8, steps=4, rates=(0.01,) * 4, grid=(0.01,), num_train=128, num_test=16, seeds=2
)
_VECTORS = vectors.VectorPreset(num_blocks=2, features=3, epochs=2, num_train=200, seeds=1)
PRESETS = {
    "beyond.catalog": catalog.CatalogPreset(
        networks=("plain-8", "vit-2", "densenet-10"), rates=(0.01,), steps=1, probe_size=16
    ),
    "beyond.transformers": transformers.TransformerPreset(
        depths=(2, 3), width=8, context=6, steps=2, curvature=1
    ),
    "beyond.dense_digits": _DEEP,
    "beyond.dense_mnist": _DEEP,
    "beyond.common_cause": _DEEP,
    "beyond.convolutional_digits": _DEEP.model_copy(
        update={"form": "convolutional", "width": 4, "num_train": 64, "seeds": 1}
    ),
    "nests.blocks": _VECTORS,
    "nests.bottleneck": bottleneck.BottleneckPreset(offsets=(-1, 0, 1), feature_sizes=(2, 2)),
    "nests.estimators": estimators.EstimatorPreset(num_samples=60, sets=("friedman 1",)),
    "nests.held_out": estimators.EstimatorPreset(num_samples=60, sets=("shells",)),
    "nests.predictability": _VECTORS,
    "nests.convolutional": convolutional.ImagePreset(
        width=1, epochs=1, batch_size=8, num_train=8, num_test=8, augmented=False
    ),
    "shortcut_length.figure_2": _LENGTHS,
    "shortcut_length.figure_9": _LENGTHS.model_copy(update={"lengths": (1, 2)}),
    "shortcut_length.figure_3": figure_3.WeightNormPreset(depths=(4, 8), epochs=40, num_train=30),
    "shortcut_length.figure_4": figure_4.StartPreset(depths=(2, 4), seeds=2),
    "shortcut_length.figure_5": dynamics.DynamicsPreset(
        depth=4, epochs=40, lr=0.2, points=8, seeds=2
    ),
    "shortcut_length.figure_6": dynamics.DynamicsPreset(
        depth=4, epochs=40, lr=0.2, points=8, seeds=2
    ),
    "shortcut_length.figure_10": figure_10.PathPreset(num_units=60),
    "shortcut_length.figure_11": figure_11.PatternPreset(num_units=2),
    "shortcut_length.figure_7": _RATES,
    "shortcut_length.figure_8": _RATES,
    "norm_preservation.figure_3": _ARCHITECTURES,
    "norm_preservation.figure_4": _ARCHITECTURES,
    "norm_preservation.table_1": _ARCHITECTURES,
    "norm_preservation.figure_2": figure_2.ChannelPreset(
        channels=(2, 8), epochs=1, lr=0.02, batch_size=16, num_train=32
    ),
    "norm_preservation.table_2": _ACCURACY,
    "norm_preservation.table_3": _ACCURACY,
    "norm_preservation.figure_5": _ACCURACY,
    "singularity.similar_networks": similar_networks.RivalPreset(
        depth=8, epochs=1, lr=0.01, batch_size=16, num_train=32, num_test=16
    ),
    "singularity.table_4": _IMAGENET_FORM,
    "singularity.figure_12_imagenet": _IMAGENET_FORM,
    "singularity.which_came_first": which_came_first.EventPreset(
        depth=8, steps=4, batch_size=16, starts=("he", "dirac"), rates=(0.1,), num_train=32
    ),
} | {
    name: _TRAINED
    for name in all_studies()
    if all_studies()[name].presets["quick"] is trained.QUICK
}


def shrink(monkeypatch, *names):
    """Give these studies their tiny preset in place of `quick`."""
    known = registry.find

    def find(name, kind):
        study = known(name, kind)
        if name not in names:
            return study
        return replace(study, presets={**study.presets, "quick": PRESETS[name]})

    monkeypatch.setattr(registry, "find", find)
    monkeypatch.setattr(Figure, "savefig", draw_once)


def draw_once(figure, file, *, dpi, format="png"):
    """Draws every artist once; a layout that fits them to one another takes three times as long."""
    assert format == "png"
    figure.set_layout_engine("none")
    figure.set_dpi(dpi)
    FigureCanvasAgg(figure).print_png(file)
