import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.linalg import rounding_tolerance
from bathyscope.measure import representation_spectra, representations
from bathyscope.measure.representations import mean_cosine
from tests.core import lookalikes as like
from tests.measure.by_hand import CASES, passed_through

MODES = {2: ["samples", "features"], 3: ["samples", "tokens", "features"]}
MODES[4] = ["samples", "channels", "height", "width"]


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_svd_of_every_explicit_unfolding(case):
    pieces = CASES[case]()
    result = representations(pieces.model, pieces.batch, loss=pieces.loss)
    for i, p in enumerate(passed_through(CASES[case])[0]):
        for axis, mode in enumerate(MODES[p.y.ndim]):
            matrix = p.y.movedim(axis, 0).flatten(1)
            values = torch.linalg.svdvals(matrix)
            tolerance = rounding_tolerance(*matrix.shape, torch.float64)
            rank = int((values > tolerance * values[0]).sum())
            condition = (values[0] / values[-1]).item() if rank == len(values) else math.inf
            assert result[f"tolerance_{mode}"][i] == tolerance
            assert (result[f"rank_{mode}"][i], result[f"full_rank_{mode}"][i]) == (
                rank,
                len(values),
            )
            assert result[f"condition_{mode}"][i] == pytest.approx(condition, rel=1e-6)
            assert result[f"effective_condition_{mode}"][i] == pytest.approx(
                (values[0] / values[rank - 1]).item(), rel=1e-6
            )
            assert result[f"stable_rank_{mode}"][i] == pytest.approx(
                ((values / values[0]) ** 2).sum().item(), rel=1e-6
            )


@pytest.mark.parametrize("case", CASES)
def test_mean_cosine_agrees_with_every_pair(case):
    pieces = CASES[case]()
    result = representations(pieces.model, pieces.batch, loss=pieces.loss)
    for i, p in enumerate(passed_through(CASES[case])[0]):
        pairs = itertools.combinations(p.y.flatten(1), 2)
        cosines = [F.cosine_similarity(a, b, dim=0).item() for a, b in pairs]
        assert result["mean_cosine"][i] == pytest.approx(sum(cosines) / len(cosines), rel=1e-6)


def test_spectra_hold_all_singular_values():
    pieces = CASES["perceptron"]()
    spectra = representation_spectra(pieces.model, pieces.batch, loss=pieces.loss)
    for name, p in zip(pieces.names, passed_through(CASES["perceptron"])[0], strict=True):
        torch.testing.assert_close(
            spectra[name]["samples"].singular_values,
            torch.linalg.svdvals(p.y),
            rtol=1e-8,
            atol=1e-9,
        )


def test_collapse_is_seen_as_rank_one_and_cosine_one():
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6, bias=False), nn.Linear(6, 3))
    with torch.no_grad():
        model[1].weight.copy_(torch.outer(torch.ones(6), torch.ones(6)))
        model[0].bias.fill_(100.0)
    batch = torch.randn(10, 6), torch.zeros(10).long()
    result = representations(model, batch, loss=F.cross_entropy)
    assert result["rank_samples"][1] == 1
    assert result["condition_samples"][1] == math.inf
    assert result["mean_cosine"][1] == pytest.approx(1, abs=1e-5)
    assert result["stable_rank_samples"][1] == pytest.approx(1, abs=1e-4)


def test_float32_agrees_with_float64_to_a_per_cent_and_decides_the_same_rank():
    torch.manual_seed(0)
    model = like.TorchvisionLike()
    batch = torch.randn(16, 3, 8, 8), torch.arange(16) % 5
    narrow = representations(model, batch, loss=F.cross_entropy)
    wide = representations(model.double(), (batch[0].double(), batch[1]), loss=F.cross_entropy)
    for mode in MODES[4]:
        assert narrow[f"rank_{mode}"] == wide[f"rank_{mode}"]
        assert narrow[f"condition_{mode}"] == pytest.approx(wide[f"condition_{mode}"], rel=2e-2)


def test_samples_in_the_second_axis():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double()
    tokens = torch.randn(5, 3, 8, dtype=torch.float64)
    result = representations(model, (tokens, None), loss=lambda y, _: y.square().sum())
    y = model.layers[0](tokens).detach()
    values = torch.linalg.svdvals(y.movedim(1, 0).flatten(1))
    assert result["condition_samples"][0] == pytest.approx(
        (values[0] / values[-1]).item(), rel=1e-6
    )
    pairs = itertools.combinations(y.movedim(1, 0).flatten(1), 2)
    cosines = [F.cosine_similarity(a, b, dim=0).item() for a, b in pairs]
    assert result["mean_cosine"][0] == pytest.approx(sum(cosines) / 3, rel=1e-6)


def test_wide_modes_are_left_out_with_a_note():
    model = nn.Sequential(nn.Linear(4, 30), nn.ReLU(), nn.Linear(30, 3))
    batch = torch.randn(20, 4), torch.zeros(20).long()
    result = representations(model, batch, loss=F.cross_entropy, largest_side=10)
    assert result["rank_samples"] == (None, 3)
    assert any("wider than 10" in note for note in result.notes)
    assert result["mean_cosine"][0] is not None


def test_cutoff_is_the_users():
    pieces = CASES["perceptron"]()
    result = representations(pieces.model, pieces.batch, loss=pieces.loss, tolerance=0.5)
    assert set(result["tolerance_samples"]) == {0.5}
    assert result["rank_samples"][0] < 9


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_mean_cosine_does_not_depend_on_scale(scale):
    rows = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    assert mean_cosine(rows * scale) == pytest.approx(mean_cosine(rows.double()), rel=1e-5)


def test_mean_cosine_without_two_rows_is_no_number():
    assert math.isnan(mean_cosine(torch.ones(1, 4)))
    assert math.isnan(mean_cosine(torch.tensor([[1.0, 1.0], [0.0, 0.0]])))
    assert mean_cosine(torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])) == pytest.approx(1)


def test_an_infinite_condition_number_of_a_nearly_square_matrix_says_so():
    model = nn.Sequential(nn.Linear(8, 8, bias=False))
    with torch.no_grad():
        model[0].weight[0] = 0
    labels = torch.zeros(9).long()
    few = representations(model, (torch.randn(9, 8), labels), loss=F.cross_entropy)
    assert any("9 samples and 8 features" in note for note in few.notes)
    many = (torch.randn(32, 8), torch.zeros(32).long())
    assert not any(
        "nearly square" in note for note in representations(model, many, loss=F.cross_entropy).notes
    )


def test_a_note_on_a_shape_is_said_once_however_many_blocks_have_it():
    torch.manual_seed(0)
    layers = [m for _ in range(30) for m in (nn.Linear(16, 16), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(16, 4))
    batch = torch.randn(16, 16), torch.arange(16) % 4
    notes = representations(model, batch, loss=F.cross_entropy).notes
    assert sum("nearly square" in note for note in notes) == 1
