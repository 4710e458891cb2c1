"""What a person sees of a result that is printed, in a terminal and in a notebook."""

import html as markup
import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
    with torch.no_grad():
        model[0].bias.fill_(-1e3)
    return model, (torch.randn(16, 6), torch.arange(16) % 3)


def test_a_diagnosis_is_shown_and_not_its_batch():
    model, batch = network()
    result = bs.diagnose(model, batch, loss=F.cross_entropy, title="<b>mine</b>")
    assert result.verdict in " ".join(str(result).split())  # its lines are wrapped
    assert result.findings[0].title in str(result)
    assert repr(result) == f"<Diagnosis of <b>mine</b>: {result.verdict}>"
    html = result._repr_html_()
    assert "&lt;b&gt;mine&lt;/b&gt;" in html
    assert result.findings[0].code in html
    for text in (str(result), repr(result), html):
        assert "tensor(" not in text


def test_a_forecast_is_shown_with_its_reasons():
    model, batch = network()
    result = bs.forecast(model, [batch])
    assert repr(result) == f"<Forecast: {result.sentence()}>"
    sentence, gauge, *lines = str(result).splitlines()
    assert sentence == result.sentence()
    assert gauge.startswith("fails |")
    assert gauge.endswith("| trains")
    reasons = [line.strip() for line in lines]
    first = reasons.index(result.because[0])
    assert reasons[first : first + 3] == list(result.because)
    assert f"left:{100 * result.probability:.0f}%" in result._repr_html_()
    reported = [reason.rpartition(" (")[0] for reason in result.because]
    assert len(set(reported)) == 3  # two features that are reported alike are one reason


@pytest.mark.parametrize("kind", ["html", "json"])
def test_a_treatment_is_shown_and_saved_as_a_diagnosis_is(kind, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    x = torch.randn(32, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    diagnosis = bs.diagnose(model, (x, x[:, :3].argmax(1)), optimizer=optimizer)
    treatment = bs.treat(model, diagnosis, optimizer=optimizer)
    assert repr(treatment) == f"<Treatment of Sequential: {treatment.outcome}>"
    assert treatment.outcome in " ".join(str(treatment).split())
    assert treatment.outcome in treatment._repr_html_()
    text = treatment.save(tmp_path / f"it.{kind}").read_text()
    assert treatment.outcome in (
        markup.unescape(text) if kind == "html" else repr(json.loads(text))
    )


def test_eigenvalues_are_shown_with_their_errors_and_without_their_vectors():
    model, batch = network()
    ends = bs.hessian(model, batch, loss=F.cross_entropy).extremes(2)
    lines = str(ends).splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["largest", "smallest"]
    assert f"{float(ends.largest.values[0]):.6g} ± " in lines[0]
    assert "tensor(" not in str(ends)
