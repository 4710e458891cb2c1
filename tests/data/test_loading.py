import pytest

from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.data import fetch, is_present, load, names, path


def test_the_default_is_digits_and_needs_no_download():
    assert load().name == names()[0] == "digits"


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownName, match="digits"):
        load("digit")


def test_normalizing_and_drawing_are_options_of_load():
    part = load("digits", normalize=True, num_train=64, num_test=32)
    assert part.is_normalized
    assert (len(part.train_labels), len(part.test_labels)) == (64, 32)


def test_only_image_folders_have_a_size():
    with pytest.raises(UsageError, match="fixed"):
        load("digits", size=16)


def test_the_path_of_a_set_is_known_once_it_is_fetched(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("BATHYSCOPE_DATA", str(tmp_path))
    assert not is_present("toy")
    with pytest.raises(UsageError, match="data fetch toy"):
        path("toy")
    fetch("toy")
    assert is_present("toy")
    assert path("toy") == path("toy", data_dir=tmp_path) == tmp_path / "toy"
    (tmp_path / "toy" / "one").unlink()
    assert not is_present("toy")


def test_a_set_without_files_is_always_present_and_has_no_path():
    assert is_present("synthetic:spirals")
    with pytest.raises(UsageError, match="no folder"):
        path("digits")
