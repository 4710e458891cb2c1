import pytest

from bathyscope.core.errors import UnknownName


@pytest.mark.parametrize(
    ("given", "known", "result"),
    [
        ("resnet-57", ["resnet-56", "plain-20", "wrn", "digits"], "The nearest: resnet-56."),
        ("zz", map(str, range(10)), "There are: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more."),
        ("zz", {"b", "", "a"}, "There are: a, b."),
        ("quik", ["quick", "full", "cited"], "There are: quick, full, cited."),
        ("zz", [], "named 'zz'."),
    ],
)
def test_the_nearest_names_or_some_are_told(given, known, result):
    assert str(UnknownName("thing", given, known)).endswith(result)
