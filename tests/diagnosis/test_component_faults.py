"""Faults in the components of transformers are named; the networks without them are left alone."""

import os

import pytest
import torch

from bathyscope import diagnose
from tests import zoo
from tests.diagnosis.components import held_out, networks, tuning


def findings_of(model, inputs, targets, loss):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    return diagnose(model, (inputs, targets), loss=loss, optimizer=optimizer).findings


def names(fault, findings):
    return any(f.code in fault.codes for f in findings[:3])


@pytest.mark.parametrize("fault", tuning.FAULTS, ids=lambda fault: fault.name)
def test_a_fault_that_was_tuned_on_is_among_the_first_three(fault):
    model = networks.build(fault.family)
    fault.plant(model)
    findings = findings_of(model, *networks.batch_of(fault.family), networks.loss)
    assert names(fault, findings), [f.code for f in findings]


@pytest.mark.parametrize("family", networks.FAMILIES)
@pytest.mark.parametrize("seed", [0, 1])
def test_healthy_networks_have_no_problem_and_no_warning(family, seed):
    model = networks.build(family, seed)
    findings = findings_of(model, *networks.batch_of(family, seed), networks.loss)
    assert [f.code for f in findings if f.severity != "note"] == []


def score(faults):
    """Names of the faults that can be seen and were not named."""
    missed = []
    for fault in faults:
        model = held_out.build(fault.network)
        fault.plant(model)
        findings = findings_of(model, *held_out.batch_of(fault.network))
        if not names(fault, findings):
            missed.append((fault.name, [f.code for f in findings[:3]]))
    return missed


def of(networks_of):
    return [f for f in held_out.HELD_OUT if f.network in networks_of and f.visible]


def test_held_out_faults_of_our_networks_and_torchs():
    faults = of(("own gpt", "own bert", "own vit", "torch"))
    assert len(score(faults)) <= 0.15 * len(faults)


@pytest.mark.skipif(not os.environ.get("BATHYSCOPE_ZOO"), reason="needs transformers")
def test_held_out_faults_of_transformers():
    zoo.transformers()
    faults = of(held_out.OF_OTHERS)
    assert len(score(faults)) <= 0.15 * len(faults)


@pytest.mark.parametrize("network", ["own gpt", "own bert", "own vit", "torch"])
def test_healthy_networks_of_the_held_out_faults_have_no_problem(network):
    findings = findings_of(held_out.build(network), *held_out.batch_of(network))
    assert [f.code for f in findings if f.severity == "problem"] == []
