"""`bathyscope check` as a user calls it."""

import json

import pytest
from typer.testing import CliRunner

from bathyscope.claims import all_claims
from bathyscope.cli import app
from bathyscope.core.errors import UnknownName, UsageError


def check(*text):
    return CliRunner().invoke(app, ["check", *text], catch_exceptions=False)


def test_list_names_every_claim_and_what_has_nothing_to_test():
    result = check("list")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in all_claims())
    assert "singularity.definition_2  [nothing to test]" in result.stdout
    rows = json.loads(check("list", "--json").stdout)
    assert [row["claim"] for row in rows] == list(all_claims())


def test_one_claim_with_its_numbers():
    result = check("norm_preservation.theorem_3")
    assert result.exit_code == 0
    assert "norm_preservation.theorem_3: holds under" in result.stdout
    assert "under: circular padding and stride 1" in result.stdout
    assert "✗ zero padding: error" in result.stdout


def test_json_is_the_same_for_a_seed():
    first, again, other = (
        check("singularity.theorem_3", "--json", "--seed", seed).stdout for seed in "001"
    )
    assert first == again != other
    result = json.loads(first)
    assert result["verdict"] == "violated"
    assert "every direction grows" in result["corrected"]
    assert result["settings"]["seed"] == 0


def test_fail_on():
    assert check("singularity.theorem_3").exit_code == 0
    assert check("singularity.theorem_3", "--fail-on", "violated").exit_code == 3
    assert check("norm_preservation.lemma_1", "--fail-on", "holds-under").exit_code == 0
    with pytest.raises(UnknownName, match="violated"):
        check("norm_preservation.lemma_1", "--fail-on", "violatd")


def test_a_theme_with_a_summary(monkeypatch):
    kept = {k: v for k, v in all_claims().items() if k in ("nests.equation_2", "nests.remark_1")}
    monkeypatch.setattr("bathyscope.claims.claims_of", lambda theme: kept)
    result = check("nests")
    assert "nests.equation_2: holds" in result.stdout
    assert "nests.remark_1: nothing to test" in result.stdout
    assert (
        "1 holds, 0 holds under, 0 inapplicable, 0 not supported here, 0 violated, 1 without a check"
        in result.stdout
    )


def test_bad_words():
    with pytest.raises(UnknownName, match="nests"):
        check("nest")
    with pytest.raises(UsageError, match="one claim"):
        check("all", "--data", "digits")
    with pytest.raises(UsageError, match="nothing to test"):
        check("nests.remark_1")


def test_own_network():
    result = check("singularity.corollary_1", "--model", "linear-plain-6", "--json")
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)["numbers"]["layers"]) == 6
