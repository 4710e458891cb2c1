"""No numbered statement of the papers is missing, and none is hidden."""

import importlib

import pytest

from bathyscope.claims import all_claims, check, ledger, themes
from bathyscope.core.records import ClaimCheck, Verdict
from bathyscope.plugins.papers import papers

NUMBERED = {
    "singularity": {
        "definition": 4,
        "lemma": 5,
        "theorem": 5,
        "proposition": 2,
        "corollary": 2,
        "remark": 9,
    },
    "shortcut_length": {"definition": 5, "lemma": 4, "theorem": 2},
    "nests": {"remark": 2, "theorem": 2, "proposition": 4, "corollary": 2},
    "norm_preservation": {"lemma": 3, "theorem": 3, "corollary": 1},
}


@pytest.mark.parametrize("theme", NUMBERED)
def test_papers_say_how_many_statements_they_number(theme):
    counts = importlib.import_module(papers()[theme]).NUMBERED
    assert NUMBERED[theme].items() <= counts.items()


def test_every_numbered_statement_has_a_row():
    wanted = {
        f"{theme}.{kind}_{number}"
        for theme, kinds in NUMBERED.items()
        for kind, count in kinds.items()
        for number in range(1, count + 1)
    }
    named = {"nests.equation_7", *(f"norm_preservation.equation_{k}" for k in (7, 8, 9))}
    named |= {f"singularity.finding_{k}" for k in (1, 2, 3, 4)}
    assert wanted | named <= set(all_claims())


def test_every_theme_has_its_own_names():
    assert {claim.theme for claim in all_claims().values()} == set(themes())
    assert all(name.startswith(f"{claim.theme}.") for name, claim in all_claims().items())


def test_every_row_says_what_and_how():
    for claim in all_claims().values():
        assert claim.statement.endswith(".")
        assert claim.tested.endswith(".")


def test_the_ledger_lists_all_and_takes_checks():
    table = ledger()
    assert list(table.index) == list(all_claims())
    assert set(table["status"]) <= {"coded", "nothing to test"}
    assert "verdict" not in table
    table = ledger([check("norm_preservation.lemma_1")])
    assert table.loc["norm_preservation.lemma_1", "verdict"] == "holds"
    assert (table["verdict"] == "").sum() == len(all_claims()) - 1


def test_the_ledger_tells_what_was_assumed_corrected_and_vacuous():
    result = ClaimCheck(
        claim="norm_preservation.lemma_1",
        verdict=Verdict.HOLDS_UNDER,
        assumptions=(),
        numbers={},
        statement="It holds.",
        extra_assumption="more",
        corrected="less",
        vacuous=True,
    )
    table = ledger([result])
    columns = ["verdict", "extra_assumption", "corrected", "vacuous"]
    assert table.loc[result.claim, columns].to_list() == ["holds under", "more", "less", True]
    assert table.drop(index=result.claim)[columns].eq("").all(axis=None)
