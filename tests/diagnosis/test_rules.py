"""Which block a rule names and how severe it calls it, on networks and numbers that strangers brought."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import Severity
from bathyscope.core.records import Block, Measurement
from bathyscope.diagnosis import diagnose
from bathyscope.rules import Evidence, Thresholds
from bathyscope.rules.families import nests
from bathyscope.rules.families.gradients import (
    cut_gradient,
    exploding_gradient,
    vanishing_gradient,
)
from bathyscope.rules.families.representations import (
    collapsed_representation,
    singular_representation,
)
from bathyscope.rules.families.updates import large_update
from bathyscope.rules.families.weights import exploding_weights, ill_conditioned_weights
from tests.core.lookalikes import ListOfSequentials

SMALL_IMAGES = torch.randn(32, 1, 8, 8, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(32) % 4


def find(model, batch=(SMALL_IMAGES, LABELS), **options):
    return [(f.code, f.severity, f.blocks) for f in diagnose(model, batch, **options).findings]


@torch.no_grad()
def weights_of_zero(layer):
    layer[0].weight.zero_()


@torch.no_grad()
def never_firing(layer):
    layer[1].bias.fill_(-100.0)


@pytest.mark.parametrize(
    ("plant", "code"), [(weights_of_zero, "zero-weights"), (never_firing, "dead-units")]
)
def test_a_fault_in_a_list_of_sequentials_is_named_where_it_is(plant, code):
    torch.manual_seed(0)
    model = ListOfSequentials(12, 8)
    plant(model.layers[7])
    codes = {code: blocks for code, _, blocks in find(model)}
    first, *_ = codes
    assert (first, codes[first][0]) == (code, "layers.7")
    assert "batchnorm-masks" in codes


def gradients(norms_in, norms_out):
    """Evidence of these gradient norms alone."""
    blocks = tuple(
        Block(index=i, name=str(i), end=str(i), kind="Linear") for i in range(len(norms_in))
    )
    ratios = tuple(o / i for i, o in zip(norms_in, norms_out, strict=True))
    columns = {"norm_in": tuple(norms_in), "norm_out": tuple(norms_out), "ratio": ratios}
    measured = Measurement(name="gradients", blocks=blocks, columns=columns)
    return Evidence(blocks, {"gradients": measured}, 1e-7)


def test_what_lies_between_two_blocks_belongs_to_the_first():
    # the blocks preserve the norm; between the second and the third it falls by 10⁴
    (result,) = exploding_gradient(
        gradients([1e4, 1e4, 1.0, 1.0], [1e4, 1e4, 1.0, 1.0]), Thresholds.of()
    )
    assert (result.code, result.blocks) == ("exploding-gradient", ("1",))


@pytest.mark.parametrize("number", [8, 11, 39])
def test_blocks_that_all_do_alike_are_all_named(number):
    for factor in (3.0, 1 / 3):
        norms = [factor ** (number - i) for i in range(number + 1)]
        evidence = gradients(norms[:-1], norms[1:])
        rule = exploding_gradient if factor > 1 else vanishing_gradient
        (result,) = rule(evidence, Thresholds.of())
        assert len(result.blocks) == number


@pytest.mark.parametrize(
    ("decades", "severity"), [(3.2, Severity.WARNING), (5.5, Severity.PROBLEM)]
)
def test_a_range_is_grave_when_extreme_however_many_blocks_share_it(decades, severity):
    factor = 10 ** (decades / 100)
    assert factor < 1.2
    norms = [factor ** (100 - i) for i in range(101)]
    (result,) = exploding_gradient(gradients(norms[:-1], norms[1:]), Thresholds.of())
    assert result.severity is severity
    assert result.blocks


class Recurrent(nn.Module):
    def __init__(self, kind, layers):
        super().__init__()
        self.memory = kind(8, 32, layers, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.memory(x)[0][:, -1])


@pytest.mark.parametrize(("kind", "layers"), [(nn.LSTM, 1), (nn.GRU, 2), (nn.LSTM, 4)])
def test_a_recurrent_layer_is_noted_as_the_many_steps_it_is(kind, layers):
    torch.manual_seed(0)
    result = diagnose(Recurrent(kind, layers), (torch.randn(64, 12, 8), torch.arange(64) % 4))
    by_gradient = [f for f in result.findings if "norm" in f.code or "gradient" in f.code]
    assert by_gradient
    for one in by_gradient:
        assert one.severity is Severity.NOTE
        assert "time steps" in one.why


def representations(*, cosines=(), ranks=(), widths=(), ends=()):
    """Evidence of blocks whose outputs have these cosines, or these ranks at these widths."""
    number = max(len(cosines), len(ranks))
    into = (widths[:1] or (8,)) + tuple(widths[:-1])
    blocks = tuple(
        Block(
            index=i,
            name=str(i),
            end=ends[i] if ends else str(i),
            kind="Linear",
            in_shape=(64, into[i] if widths else 8),
        )
        for i in range(number)
    )
    columns = {}
    if cosines:
        columns = {"mean_cosine": tuple(cosines), "collapse": tuple(1 - c for c in cosines)}
    if ranks:
        columns |= {"rank_features": tuple(ranks), "full_rank_features": tuple(widths)}
    measured = Measurement(name="representations", blocks=blocks, columns=columns)
    return Evidence(blocks, {"representations": measured}, 1e-7)


@pytest.mark.parametrize(
    ("cosines", "last_end", "severity"),
    [
        ((0.5, 0.9996, 0.99995), "2", Severity.WARNING),
        ((0.5, 0.99991, 0.99995), "2", Severity.PROBLEM),
        ((0.5, 0.9996, 0.99995), "activation", Severity.PROBLEM),
    ],
)
def test_a_collapse_in_the_output_layer_alone_is_a_warning(cosines, last_end, severity):
    evidence = representations(cosines=cosines, ends=("0", "1", last_end))
    (result,) = collapsed_representation(evidence, Thresholds.of())
    assert result.severity is severity


@pytest.mark.parametrize(
    ("ranks", "severities"),
    [
        ((64, 30, 40), [Severity.WARNING]),
        ((64, 24, 40), [Severity.PROBLEM]),
        ((64, 30, 31), [Severity.PROBLEM]),
        ((64, 40, 40), []),
    ],
)
def test_one_block_that_just_misses_half_its_rank_is_a_warning(ranks, severities):
    evidence = representations(ranks=ranks, widths=(64, 64, 64))
    result = singular_representation(evidence, Thresholds.of())
    assert [f.severity for f in result] == severities


def layers(*widths, activation=nn.ReLU):
    return [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), activation())]


def test_an_ordinary_network_of_eight_layers_has_no_problem():
    torch.manual_seed(0)
    x = torch.randn(64, 16)
    labels = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    model = nn.Sequential(*layers(16, *[64] * 7), nn.Linear(64, 4))
    result = find(model, (x, labels), optimizer=torch.optim.Adam(model.parameters(), 1e-3))
    assert "collapsed-representation" in {code for code, *_ in result}
    assert Severity.PROBLEM not in {severity for _, severity, _ in result}


def test_a_bottleneck_by_design_is_not_blamed_and_a_loss_behind_it_is():
    torch.manual_seed(0)
    x = torch.randn(64, 16)
    net = nn.Sequential(*layers(16, 32, 8), nn.Linear(8, 2), *layers(2, 8, 32), nn.Linear(32, 16))
    assert find(net, (x, x), loss=F.mse_loss) == []
    # after the bottleneck the rank has grown to 16 again, and the last block loses it
    evidence = representations(ranks=(16, 2, 8, 16, 3), widths=(16, 2, 16, 16, 16))
    (result,) = singular_representation(evidence, Thresholds.of())
    assert result.blocks == ("4",)


@pytest.mark.parametrize("norm", [nn.Identity, lambda: nn.BatchNorm1d(32)])
def test_a_batch_of_equal_samples_is_noted_and_not_blamed_on_the_network(norm):
    torch.manual_seed(0)
    model = nn.Sequential(*layers(16, 32), norm(), *layers(32, 32), nn.Linear(32, 4))
    x, labels = torch.randn(1, 16).repeat(8, 1), torch.zeros(8).long()
    assert find(model, (x, labels)) == [("equal-samples", Severity.NOTE, ())]
    x[0] += 1
    assert "equal-samples" not in {code for code, *_ in find(model, (x, labels))}


def step_of(ratios, *, normalized, before=2.0, after=1.0):
    """Evidence of steps of these sizes in the body, and of what one does to the loss."""
    blocks = tuple(
        Block(index=i, name=str(i), end=str(i), kind="Conv2d") for i in range(len(ratios))
    )
    names = ("layer",) * len(ratios)
    variances = (5.0 if normalized else None,) * len(ratios)
    measured = (
        Measurement(
            name="updates",
            blocks=blocks,
            columns={"largest_ratio": tuple(ratios), "largest_ratio_layer": names},
        ),
        Measurement(
            name="normalization", blocks=blocks, columns={"variance_over_epsilon": variances}
        ),
        Measurement(name="output", blocks=(), columns={}, settings={"loss": before}),
        Measurement(name="step", blocks=(), columns={}, settings={"loss_after": after}),
    )
    return Evidence(blocks, {m.name: m for m in measured}, 1e-7)


@pytest.mark.parametrize(
    ("normalized", "after", "problems"),
    [
        (False, 1.0, ("2", "1")),
        (True, 1.0, ("2",)),
        (True, 2.5, ("2", "1")),
        (True, None, ("2", "1")),
    ],
)
def test_behind_a_batch_norm_a_step_that_lowers_the_loss_may_be_longer(normalized, after, problems):
    result = list(
        large_update(step_of([0.1, 7.0, 30.0], normalized=normalized, after=after), Thresholds.of())
    )
    grave = [f.blocks for f in result if f.severity is Severity.PROBLEM]
    mild = [f.blocks for f in result if f.severity is Severity.WARNING]
    assert grave == [problems]
    assert mild == ([("1",)] if len(problems) == 1 else [])


@pytest.mark.parametrize(("decay", "blamed"), [(1e-4, False), (10.0, True)])
def test_a_usual_weight_decay_is_not_blamed_for_a_gradient_that_vanished(decay, blamed):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(), *layers(*[64] * 20, activation=nn.Sigmoid), nn.Linear(64, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=decay)
    codes = {code for code, *_ in find(model, optimizer=optimizer)}
    assert "vanishing-gradient" in codes
    assert ("heavy-weight-decay" in codes) == blamed


def certified(**result):
    """Evidence of a certificate's numbers alone."""
    blocks = (Block(index=0, name="0", end="0", kind="Linear"),)
    result = {"attainable_risk": 0.3, "bound": 0.1, "constant_risk": 0.5, **result}
    measured = Measurement(name="certificate", blocks=blocks, columns={}, settings=result)
    return Evidence(blocks, {"certificate": measured}, epsilon=1e-7)


def test_what_too_narrow_a_space_loses_is_a_share_of_the_constants_risk():
    evidence = certified(width_needed=10, rank=6, width=6)
    [result] = nests.narrow_residual_space(evidence, Thresholds({}))
    assert result.evidence["fraction_of_risk_lost"] == pytest.approx(0.4)
    assert result.score == pytest.approx(0.4)


@pytest.mark.parametrize(("reachable", "number"), [(2.0, 0), (1.9, 1)])
def test_a_network_at_its_best_is_not_blamed_for_being_worse_than_linear(reachable, number):
    evidence = certified(risk=2.0, linear_risk=0.1, attainable_risk=reachable)
    assert len(list(nests.worse_than_linear(evidence, Thresholds({})))) == number


@pytest.mark.parametrize(("zero", "number"), [(4, 0), (3, 1)])
def test_where_no_parameter_has_a_gradient_no_block_cuts_it(zero, number):
    blocks = gradients([1.0] * 3, [1.0] * 3).blocks
    columns = {
        "gradients": {"norm_in": (0.0, 0.0, 0.0), "norm_out": (0.0, 0.0, 1.0)},
        "parameter_gradients": {"norm": (0.0, 0.0, 1.0)},
        "parameters": {},
    }
    measured = {
        name: Measurement(name=name, blocks=blocks, columns=result, settings=settings)
        for name, result in columns.items()
        for settings in [{"zero_gradient": zero, "reached": 4} if name == "parameters" else {}]
    }
    result = list(cut_gradient(Evidence(blocks, measured, epsilon=1e-7), Thresholds({})))
    assert len(result) == number


def test_the_largest_of_weights_that_exploded_is_told():
    blocks = gradients([1.0] * 6, [1.0] * 6).blocks
    norms = {"spectral_norm": (1.0, 1.0, 1e7, 1.0, 1e9, 1.0)}
    measured = {"weights": Measurement(name="weights", blocks=blocks, columns=norms)}
    [result] = exploding_weights(Evidence(blocks, measured, epsilon=1e-7), Thresholds({}))
    assert (result.blocks, result.evidence["spectral_norm"]) == (("4", "2"), 1e9)


def test_of_layers_that_lack_rank_the_one_that_lacks_most_is_first():
    blocks = gradients([1.0] * 4, [1.0] * 4).blocks
    columns = {"rank_fraction": (1.0, 0.01, 0.001, 1.0), "lowest_rank_layer": ("a", "b", "c", "d")}
    measured = {"weights": Measurement(name="weights", blocks=blocks, columns=columns)}
    [result] = ill_conditioned_weights(Evidence(blocks, measured, epsilon=1e-7), Thresholds({}))
    assert result.blocks == ("2", "1")
    assert (result.evidence["rank_fraction"], result.evidence["layer"]) == (0.001, "c")


def test_a_thousand_classes_of_which_a_batch_has_few_are_no_poor_start():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1000))
    x, y = torch.randn(8, 16), torch.randint(1000, (8,))
    assert "poor-start" not in {f.code for f in diagnose(model, (x, y)).findings}
    with torch.no_grad():
        model[2].weight.mul_(100)
    assert "poor-start" in {f.code for f in diagnose(model, (x, y)).findings}


class SmallBranch(nn.Module):
    """x + f(x) with a branch that starts small, as LayerScale's."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x):
        return x + 1e-6 * torch.tanh(self.conv(x))


class Patches(nn.Module):
    """A stem of 2 × 2 patches, which have fewer numbers than it has channels."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Conv2d(1, 16, 2, stride=2), nn.Linear(16, 4)
        self.blocks = nn.ModuleList(SmallBranch() for _ in range(4))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def test_channels_that_a_stem_cannot_fill_are_no_lost_directions():
    torch.manual_seed(0)
    codes = {f.code for f in diagnose(Patches(), (SMALL_IMAGES, LABELS)).findings}
    assert "singular-representation" not in codes
