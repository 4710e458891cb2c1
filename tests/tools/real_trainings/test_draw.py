"""The list of cases: the same from one seed, balanced, with whole groups and a held-out part."""

from collections import Counter

from tools.real_trainings.case import CASES, read_cases, write_cases
from tools.real_trainings.draw import HELD_OUT_FAMILY, HELD_OUT_TASK, NUM_SETTINGS, draw_cases


def test_the_committed_list_is_the_drawn_one() -> None:
    assert read_cases(CASES) == draw_cases()


def test_round_trip(tmp_path) -> None:
    cases = draw_cases(3)[:20]
    write_cases(cases, tmp_path / "cases.jsonl")
    assert read_cases(tmp_path / "cases.jsonl") == cases


def test_another_seed_draws_others() -> None:
    assert draw_cases(1) != draw_cases(2)


def test_counts() -> None:
    cases = draw_cases()
    assert len({case.id for case in cases}) == len(cases) >= 400
    assert len({case.task for case in cases}) >= 14
    assert len({case.kind for case in cases}) >= 9
    assert all(300 <= case.budget <= 2000 for case in cases)
    groups = Counter(case.network_id for case in cases)
    assert set(groups.values()) == {NUM_SETTINGS}
    budgets = {(case.network_id, case.budget) for case in cases}
    assert len(budgets) == len(groups)  # the settings of a network share its budget
    assert sum(case.is_reference for case in cases) == len(groups)


def test_every_prefix_is_balanced_over_tasks() -> None:
    cases = draw_cases()
    for length in (18, 36, 108, 216):
        counts = Counter(case.task for case in cases[:length])
        assert max(counts.values()) - min(counts.values()) <= 1


def test_held_out() -> None:
    for case in draw_cases():
        expected = case.task == HELD_OUT_TASK or case.family == HELD_OUT_FAMILY
        assert case.is_held_out == expected
    assert any(case.is_held_out and case.task != HELD_OUT_TASK for case in draw_cases())
