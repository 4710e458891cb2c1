"""The learning rate in effect: against the gradient that the optimizer really gets."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core.loop_record import LoopRecord
from bathyscope.recorder.ledger import Ledger
from bathyscope.report.loop_page import LoopReport
from bathyscope.report.loop_settings import effective_settings, settings_curves
from bathyscope.report.record import Judgment, Report
from tests.loops.tasks import mlp

LR = 0.2


def loop(*, parts=1, divided=True, limit=None, scale=None, unscales=True):
    """Train by SGD, and give the steps over the mean gradient of their joined batch beside the record."""
    torch.manual_seed(0)
    model = mlp(6, 8, 3)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, enabled=scale is not None)
    rates = []
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=LR)
        for _ in range(6):
            x, y = torch.randn(8 * parts, 6), torch.randint(3, (8 * parts,))
            joined = F.cross_entropy(model(x), y)
            exact = torch.autograd.grad(joined, list(model.parameters()))
            before = [p.detach().clone() for p in model.parameters()]
            optimizer.zero_grad()
            for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True):
                loss = F.cross_entropy(model(a), b)
                scaler.scale(loss / parts if divided else loss).backward()
            if scale is not None and unscales:
                scaler.unscale_(optimizer)
            if limit is not None:
                nn.utils.clip_grad_norm_(model.parameters(), limit)
            if scale is not None and unscales:
                scaler.step(optimizer)
                scaler.update(scale)
            else:
                optimizer.step()
            moved = [b - p.detach() for b, p in zip(before, model.parameters(), strict=True)]
            size = math.sqrt(sum(float(m.square().sum()) for m in moved))
            rates.append(size / math.sqrt(sum(float(g.square().sum()) for g in exact)))
    return ledger.record, rates


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"parts": 4},
        {"parts": 4, "divided": False},
        {"limit": 0.1},
        {"parts": 2, "divided": False, "limit": 0.3},
        {"scale": 64.0, "limit": 0.1},
        {"scale": 64.0, "unscales": False},
    ],
)
def test_what_the_steps_really_were(options):
    record, rates = loop(**options)
    as_set, in_effect = effective_settings(record.rows)
    assert [rate for _, rate in as_set] == [LR] * 6
    assert [rate for _, rate in in_effect] == pytest.approx(rates, rel=1e-3)


def test_the_figure_stands_on_the_page(tmp_path):
    record, _ = loop(limit=0.1)
    assert list(settings_curves(record)) == [
        "learning rate",
        "learning rate in effect × clip factor",
    ]
    assert list(settings_curves(loop()[0])) == ["learning rate", "learning rate in effect"]
    report = LoopReport("train.py", "watched", record, (), (), ())
    report.save(tmp_path / "report.html")
    assert "learning rate in effect × clip factor" in (tmp_path / "report.html").read_text()
    assert settings_curves(Ledger().record) == {}


def test_a_loop_that_was_watched_is_not_said_to_be_unchecked():
    """The diagnosis of its first step alone could not judge it: `bs.watch` was asked for."""
    record, _ = loop()
    reasons = {"gradients-not-cleared": "shows only while training", "loss-spike": "the same"}
    verdict = Judgment(level="clean", sentence="No fault found.")
    first = Report(title="mlp", verdict=verdict, blocks=(), not_checked=reasons)
    page = LoopReport("train.py", "watched 6 steps", record, (), (), (), first)
    assert set(page.report().not_checked) == {"loss-spike"}
    unwatched = dataclasses.replace(page, record=LoopRecord())
    assert set(unwatched.report().not_checked) == set(reasons)


@pytest.mark.parametrize("divided", [True, False])
def test_the_curve_of_the_loss_is_that_of_a_batch_however_it_is_divided(divided):
    record, _ = loop(parts=4, divided=divided)
    page = LoopReport("train.py", "watched 6 steps", record, (), (), ())
    losses = [value for _, value in page.report().curves["loss"]]
    assert 0.7 < losses[0] / math.log(3) < 2  # of an untrained classifier, and not a quarter of it
    assert losses == pytest.approx([row.loss * (4 if divided else 1) for row in record.rows])
