"""Table IV: the networks are the paper's, and its checks show a plain network that trains."""

import pandas as pd
import pytest

from bathyscope import nets, studies
from bathyscope.core.errors import UsageError
from bathyscope.papers.singularity.studies import imagenet_form, table_4

PAPER_MILLIONS = {"resnet": 44.5, "resnext": 44.3}


@pytest.mark.parametrize("network", PAPER_MILLIONS)
def test_the_paper_preset_has_the_papers_networks(network):
    preset = imagenet_form.PRINTED
    model = nets.skeleton(preset.model_of(network), **preset.options_of(network))
    millions = sum(p.numel() for p in model.parameters()) / 1e6
    assert millions == pytest.approx(PAPER_MILLIONS[network], rel=0.005)


def test_a_narrow_resnext_keeps_paths_of_four_channels():
    preset = imagenet_form.QUICK
    model = nets.skeleton(preset.model_of("resnext"), **preset.options_of("resnext"))
    grouped = next(m for m in model.modules() if getattr(m, "groups", 1) > 1)
    assert (grouped.groups, grouped.in_channels) == (8, 2 * preset.width)


def accuracies(plain, resnet, resnext):
    """The table of three runs at the first learning rate, and three at the second."""
    rows = [
        {"network": network, "lr": lr, "train_accuracy": accuracy, "test_accuracy": accuracy}
        for lr in imagenet_form.QUICK.rates
        for network, accuracy in (("plain", plain), ("resnet", resnet), ("resnext", resnext))
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("result", "passed"),
    [
        ((0.1537, 0.8856, 0.8974), [True, True, True]),  # the paper's
        ((0.60, 0.88, 0.89), [False, True, True]),
        ((0.15, 0.70, 0.89), [True, False, True]),
        ((float("nan"), 0.88, 0.89), [True, True, True]),
        ((0.0, float("nan"), 0.89), [False, False, True]),
        ((float("nan"),) * 3, [False, False, False]),
    ],
)
def test_checks_judge_the_papers_shape(result, passed):
    checks = table_4.checks(accuracies(*result), imagenet_form.QUICK)
    assert [check.passed for check in checks] == [*passed, None, None]


def test_the_printed_preset_says_what_to_get_and_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("BATHYSCOPE_DATA", str(tmp_path))
    with pytest.raises(UsageError, match=rf"image-net\.org.*train/CLASS.* in {tmp_path}/imagenet"):
        studies.run("singularity.table_4", preset="printed", out=tmp_path / "out")
    with pytest.raises(UsageError, match="data fetch tiny-imagenet"):
        studies.run("singularity.table_4", preset="full", out=tmp_path / "out")
