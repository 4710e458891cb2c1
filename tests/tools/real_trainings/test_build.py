"""Every task builds with every family, learns with a sensible setting, and is deterministic."""

from dataclasses import replace

import pytest
import torch

from bathyscope import data as sets
from tools.real_trainings.build import build_training, take_step
from tools.real_trainings.case import Case
from tools.real_trainings.draw import draw_cases
from tools.real_trainings.record import evaluation_steps, run_case

IMAGES = {
    "cifar-10": "cifar-10",
    "fashion-mnist": "fashion-mnist",
    "mnist": "mnist",
    "autoencode-mnist": "mnist",
    "contrast-mnist": "mnist",
    "vae-fashion": "fashion-mnist",
    "denoise-fashion": "fashion-mnist",
}


def _first_cases() -> list[Case]:
    """The reference setting of the first network of every task and family."""
    chosen: dict[tuple[str, str], Case] = {}
    for case in draw_cases():
        if case.is_reference:
            chosen.setdefault((case.task, case.family), case)
    return list(chosen.values())


def _need_data(case: Case) -> None:
    wanted = IMAGES.get(case.task)
    if wanted and not sets.is_present(wanted):
        pytest.skip(f"{wanted} has not been fetched")


@pytest.mark.parametrize("case", _first_cases(), ids=lambda case: f"{case.task}-{case.family}")
def test_steps_of_every_task(case: Case) -> None:
    _need_data(case)
    training = build_training(case)
    for _ in range(3):
        loss, norm = take_step(training, next(training.batches))
        assert torch.isfinite(torch.tensor([loss, norm])).all()
        assert norm > 0
    result = training.evaluate(training.model)
    assert isinstance(result.loss, float)
    assert training.model.training


@pytest.mark.parametrize("task", ["table-friedman", "bandit", "tagging", "graph-communities"])
def test_deterministic(task: str) -> None:
    case = next(case for case in draw_cases() if case.task == task)
    case = replace(case, budget=30)
    first, again, other = run_case(case, 0), run_case(case, 0), run_case(case, 1)
    assert first.losses == again.losses
    assert first.evaluation == again.evaluation
    assert first.losses != other.losses


def test_the_seed_of_torch_is_left_alone() -> None:
    case = next(case for case in draw_cases() if case.task == "table-friedman")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_training(case)
    assert torch.equal(torch.rand(3), expected)


def test_no_constant_beats_the_constant_baseline() -> None:
    """Outputs that ignore the input, moved a little, have a larger loss on the training data."""
    for name in ("table-friedman", "tagging", "graph-communities", "multilabel-shapes"):
        case = next(case for case in draw_cases() if case.task == name)
        training = build_training(case)
        with torch.no_grad():
            training.model.head.weight.zero_()
            training.model.head.bias.zero_()
        assert training.evaluate(training.model).loss > training.constant_evaluation - 0.02


def test_divergence_ends_the_run() -> None:
    case = next(case for case in draw_cases() if case.task == "table-friedman")
    wild = replace(case.setting, optimizer="sgd", learning_rate=1e6, clip=None, schedule="constant")
    record = run_case(replace(case, budget=200, setting=wild), 0)
    assert record.nonfinite_at is not None
    assert record.steps < 200


def test_clipping_limits_the_step() -> None:
    case = next(case for case in draw_cases() if case.task == "table-friedman")
    setting = replace(
        case.setting, optimizer="sgd", learning_rate=1.0, clip=0.01, schedule="constant",
        weight_decay=0.0,
    )  # fmt: skip
    training = build_training(replace(case, setting=setting))
    before = torch.cat([p.detach().flatten() for p in training.model.parameters()])
    _, norm = take_step(training, next(training.batches))
    after = torch.cat([p.detach().flatten() for p in training.model.parameters()])
    assert norm > 0.01
    assert float((after - before).norm()) == pytest.approx(0.01, rel=1e-3)


def test_evaluation_steps() -> None:
    for budget in (1, 300, 2000):
        steps = evaluation_steps(budget)
        assert steps[0] == 0
        assert steps[-1] == budget
        assert steps == sorted(set(steps))
