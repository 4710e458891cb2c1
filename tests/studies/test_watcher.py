"""What is watched is what a measurement by hand gives, and a run is not disturbed by it."""

import torch
import torch.nn.functional as F

from bathyscope import data, measure, nets
from bathyscope.curvature import hessian
from bathyscope.papers.norm_preservation.studies.watches import ratios
from bathyscope.papers.shortcut_length.studies.networks import KINDS
from bathyscope.papers.shortcut_length.studies.watches import linear_spectrum
from bathyscope.papers.singularity.studies.trained import NetworkTrial
from bathyscope.papers.singularity.studies.watches import histogram
from bathyscope.studies.trial import half_squared_error
from bathyscope.training import outcome_of


def probe(size=32):
    digits = data.load("digits", normalize=True)
    return digits.train_inputs[:size], digits.train_labels[:size]


def test_ratios_are_those_of_the_measurement():
    model = nets.build("procresnet-13", in_channels=1, seed=0)
    rows = list(ratios(model, probe()))
    blocks = {r["block"]: r["ratio"] for r in rows if r["part"] == "block"}
    by_hand = measure.gradients(model, probe(), loss=F.cross_entropy)
    assert list(blocks.values()) == list(by_hand["ratio"])
    layers = [r for r in rows if r["part"] == "convolution"]
    assert [r["stem"] for r in layers] == [True, False, False]
    assert [r["block"] for r in layers] == list(model.transition_layers())


def test_the_skip_s_chain_is_told_from_its_bare_convolution():
    model = nets.build("preresnet-11", in_channels=1, seed=0)
    parts = [r["part"] for r in ratios(model, probe())]
    assert parts.count("convolution") == parts.count("normalized convolution") == 3


def test_spectrum_against_the_general_hessian():
    torch.manual_seed(0)
    model = KINDS["orthogonal"].build(4, width=3)
    x, y = torch.randn(20, 3).double(), torch.randn(20, 3).double()
    (row,) = linear_spectrum(model, (x, y))
    values = torch.linalg.eigvalsh(hessian(model, (x, y), loss=half_squared_error).dense())
    sizes = values.abs().sort().values
    assert abs(row["largest"] - sizes[-1].item()) < 1e-10
    assert abs(row["percentile"] - sizes[int(0.1 * (len(sizes) - 1))].item()) < 1e-10
    assert abs(row["index"] - (values < 0).double().mean().item()) < 1e-12
    assert abs(row["loss"] - half_squared_error(model(x), y).item()) < 1e-12


def test_a_histogram_counts_every_finite_value_once():
    x = torch.cat([torch.randn(1000), torch.tensor([float("inf"), float("nan")])])
    result = histogram(x)
    assert sum(result["counts"]) == 1000
    assert result["non_finite"] == 2
    assert histogram(torch.ones(5))["counts"] == [5]


def test_watching_does_not_change_the_run(tmp_path):
    settings = {"model": "resnet-8", "network": "ResNet", "num_train": 64}
    settings |= {"num_test": 32, "epochs": 1, "batch_size": 32}
    plain = NetworkTrial(**settings)
    watched = NetworkTrial(**settings, watch=("conditions", "values", "deletion"), watch_every=1)
    results = []
    for trial in (plain, watched):
        trial.run(tmp_path / trial.folder_name())
        results.append(outcome_of(tmp_path / trial.folder_name()))
    assert results[0].result == results[1].result
    steps = {r["step"] for r in results[1].history if r["kind"] == "conditions"}
    assert steps == {0, 1, 2}
    last = [r for r in results[1].history if r["kind"] == "deletion"]
    assert [r["step"] for r in last] == [2, 2, 2]


def test_normalization_can_be_taken_out():
    model = nets.without_normalization_(nets.build("resnet-8", seed=0))
    assert not any(isinstance(m, torch.nn.BatchNorm2d) for m in model.modules())
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, 10)
