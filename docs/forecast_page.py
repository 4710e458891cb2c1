"""The page on how good the forecast is, from the scores and cases that are stored in `forecast/`.

`generate.py` writes it.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "forecast"

PAGE = """# The forecast's record

Made from `docs/forecast/`; how the table came about and what its words mean stands in [will this network
train?](forecast.md). Every count has its binomial error.

## On what it was not fitted on

{labeled} networks of the table are labeled and observed, {networks} of them outside of the held-out family
and data. Within 300 steps {train} of these train, {fail} fail and {between} end between, which is reported
apart. Every row is the score of models that never saw the family, the data or the optimizer that they are
asked about.

| left out of the fit | AUROC after 1, 8, 16, 32 steps | decided | wrong | calibration |
|---|---|---|---|---|
{left_out}

How sure the model must be for a verdict was chosen on {tuned} of them, the first ones labeled. On the
{fresh} others:

| left out of the fit | AUROC after 1, 8, 16, 32 steps | decided | wrong | calibration |
|---|---|---|---|---|
{after_tuning}

By budget, families left out:

| steps to train for | AUROC after 32 steps | decided | wrong | calibration |
|---|---|---|---|---|
{budgets}

{held_out}
Of the networks that end between, {between_decided} were given a verdict. A forecast took {steps} steps on
average and was sure within 8 steps in {early}.

## Beside simple answers

| answer | AUROC on the same networks |
|---|---|
{answers}

## What comes late

What no forecast of the first steps can see: trainings that had passed and lost it again.

| | of all trainings that had passed |
|---|---|
{late}

## Networks that people know

Each was forecast before it was trained (300 steps in batches of 32, two seeds; the shares are those of right
labels over the last ten batches). `python -m benchmarks.forecast_cases` makes this table; the forecasts, by a
model fitted on 213 networks, were stored before the first training.

| network, data, optimizer and rate | forecast | steps | outcome | right labels, two seeds | |
|---|---|---|---|---|---|
{cases}

The one verdict that did not come true was given after one step: `resnet10t` starts its branches at zero,
so that nothing inside of them has a gradient yet. Since then such a network is not judged before it has one;
today's model, asked again, says that it trains (98 %, after 16 steps), and at the absurd rate that it fails
(0 %, after 8).
"""

HELD_OUT = """The family `mixer` and the data `stripes`, never fitted on and scored once:

| | AUROC after 1, 8, 16, 32 steps | decided | wrong | calibration |
|---|---|---|---|---|
{row}
"""

NOT_YET = """The family `mixer` and the data `stripes` are kept out of every fit, and are scored once, when
the table is complete.
"""


def page() -> str:
    """The page of what `forecast/scores.json` and `forecast/cases.jsonl` hold."""
    scores = json.loads((FOLDER / "scores.json").read_text(encoding="utf-8"))
    family = scores["left out"][0]
    fresh = scores["without those tuned on"]
    return PAGE.format(
        labeled=scores["labeled"],
        **{key: family[key] for key in ("networks", "train", "fail", "between")},
        left_out="\n".join(map(_row, scores["left out"])),
        tuned=scores["tuned on"],
        fresh=fresh[0]["networks"],
        after_tuning="\n".join(map(_row, fresh)),
        budgets="\n".join(map(_budget, scores["by budget"])),
        held_out=HELD_OUT.format(row=_row(scores["held out"])) if "held out" in scores else NOT_YET,
        between_decided=family["between but decided"],
        steps=f"{family['mean steps']:.0f}",
        early=family["sure within 8 steps"],
        answers="\n".join(
            f"| {name} | {_digits(value)} |" for name, value in scores["simple answers"].items()
        ),
        late="\n".join(f"| {what} | {count} |" for what, count in scores["late events"].items()),
        cases="\n".join(map(_case, _cases())),
    )  # fmt: skip


def _cases() -> list[dict[str, Any]]:
    text = (FOLDER / "cases.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _row(score: dict[str, Any]) -> str:
    curve = ", ".join(_digits(score["auroc"][step]) for step in ("1", "8", "16", "32"))
    return f"| {score['left out']} | {curve} | {score['decided']} | {score['wrong']} | {_points(score)} |"


def _budget(score: dict[str, Any]) -> str:
    area = _digits(score["auroc"]["32"])
    return f"| {score['budget']:,} | {area} | {score['decided']} | {score['wrong']} | {_points(score)} |"


def _case(case: dict[str, Any]) -> str:
    said = f"{case['verdict']}, {100 * case['probability']:.0f} %"
    if not case["inside"]:
        said += " (nothing like it was seen)"
    if "outcome" not in case:
        return f"| {case['case']} | {said} | {case['spent']} | not trained | | |"
    fractions = ", ".join(_digits(score) for score in case["scores"])
    outcome = f"{case['outcome']} | {fractions} | {_came_true(case)}"
    return f"| {case['case']} | {said} | {case['spent']} | {outcome} |"


def _came_true(case: dict[str, Any]) -> str:
    if case["verdict"] == "undecided":
        return ""
    return "came true" if case["verdict"] == case["outcome"] else "did not"


def _digits(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def _points(score: dict[str, Any]) -> str:
    return f"{100 * score['calibration']:.0f} points"
