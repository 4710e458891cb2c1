"""The lists that are read without torch are those of the objects."""

import json

import pytest

from bathyscope.claims import all_claims
from bathyscope.cli import listings


@pytest.fixture
def kept():
    listings._listings.cache_clear()
    yield json.loads(listings.FILE.read_text(encoding="utf-8"))
    listings._listings.cache_clear()


def test_the_lists_in_the_package_are_current(kept):
    asked = json.loads(listings.listings_text())
    assert {name: entry["rows"] for name, entry in kept.items()} == {
        name: entry["rows"] for name, entry in asked.items()
    }, "run docs/generate.py"


def test_claims_are_listed_in_the_order_of_the_registry():
    assert [row["claim"] for row in listings.claim_rows()] == list(all_claims())


def test_a_list_is_read_while_its_sources_stand(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(listings, "checksum", lambda folders: "as it was")
    kept["nets"] = {"sources": "as it was", "rows": [{"family": "kept"}]}
    (tmp_path / "lists.json").write_text(json.dumps(kept))
    monkeypatch.setattr(listings, "FILE", tmp_path / "lists.json")
    assert listings.family_rows() == [{"family": "kept"}]
    monkeypatch.setattr(listings, "checksum", lambda folders: "changed")
    assert len(listings.family_rows()) > 1


@pytest.mark.parametrize("damage", [None, b"", b"{", b"\xff"])
def test_without_a_readable_list_the_objects_are_asked(kept, damage, tmp_path, monkeypatch):
    monkeypatch.setattr(listings, "FILE", tmp_path / "lists.json")
    if damage is not None:
        (tmp_path / "lists.json").write_bytes(damage)
    assert [row["family"] for row in listings.family_rows()] == [
        row["family"] for row in kept["nets"]["rows"]
    ]


def test_a_checksum_is_of_names_and_texts(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    first = listings.checksum((tmp_path,))
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    second = listings.checksum((tmp_path,))
    (tmp_path / "b.py").write_text("x = 2")
    assert len({first, second, listings.checksum((tmp_path,))}) == 3
