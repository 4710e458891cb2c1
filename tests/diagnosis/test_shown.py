"""What a person sees of a result that is printed, in a terminal and in a notebook."""

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
    found = bs.diagnose(model, batch, loss=F.cross_entropy, title="<b>mine</b>")
    assert found.verdict in " ".join(str(found).split())  # its lines are wrapped
    assert found.findings[0].title in str(found)
    assert repr(found) == f"<Diagnosis of <b>mine</b>: {found.verdict}>"
    html = found._repr_html_()
    assert "&lt;b&gt;mine&lt;/b&gt;" in html
    assert found.findings[0].code in html
    for text in (str(found), repr(found), html):
        assert "tensor(" not in text


def test_eigenvalues_are_shown_with_their_errors_and_without_their_vectors():
    model, batch = network()
    ends = bs.hessian(model, batch, loss=F.cross_entropy).extremes(2)
    lines = str(ends).splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["largest", "smallest"]
    assert f"{float(ends.largest.values[0]):.6g} ± " in lines[0]
    assert "tensor(" not in str(ends)
