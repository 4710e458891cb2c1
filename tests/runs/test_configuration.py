from typing import Literal

import pytest

from bathyscope.core.errors import UsageError
from bathyscope.runs import Configuration, read_toml


class Walk(Configuration):
    steps: int = 10
    learning_rate: float = 0.1
    kind: Literal["long", "short"] = "long"

    def prefix(self):
        return f"walk/{self.kind} {self.steps}"


def test_an_unknown_key_is_named_with_the_nearest():
    with pytest.raises(UsageError, match=r"no key 'learning_rte'; the nearest: learning_rate"):
        Walk.parse({"learning_rte": 0.2})


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"steps": "many"}, "key 'steps' is 'many'; input should be a valid integer"),
        ({"steps": 1.5}, "key 'steps' is 1.5"),
        ({"kind": "middling"}, "'long' or 'short'"),
    ],
)
def test_a_wrong_value_is_named(values, text):
    with pytest.raises(UsageError) as caught:
        Walk.parse(values)
    assert text in str(caught.value)


def test_the_digest_is_that_of_the_resolved_values():
    assert Walk().digest() == Walk(steps=10, learning_rate=0.10).digest()
    assert Walk().digest() != Walk(steps=11).digest()
    assert len(Walk().digest()) == 10


def test_the_folder_name_is_readable_and_safe():
    name = Walk().folder_name()
    assert name == f"walk-long-10-{Walk().digest()}"


def test_toml_errors_name_file_and_line(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("a = 1\nb = = 2\n")
    with pytest.raises(UsageError, match=r"c.toml is not valid TOML.*line 2"):
        read_toml(path)
    with pytest.raises(UsageError, match="No such file"):
        read_toml(tmp_path / "absent.toml")
