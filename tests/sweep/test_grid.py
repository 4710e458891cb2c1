import pytest

from bathyscope.core.errors import UsageError
from bathyscope.sweep import Grid, read_grid


def test_product_zip_seeds_and_overrides(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(
        """
        seeds = [3, 5]
        [fixed]
        data = "digits"
        model_options = {width = 4}
        [product]
        model = ["plain-20", "resnet-20"]
        "model_options.depth" = [1, 2]
        [zip]
        lr = [0.1, 0.01]
        batch_size = [64, 32]
        [[override]]
        where = {model = "plain-20", lr = 0.1}
        set = {lr = 0.05, "model_options.width" = 8}
        """
    )
    points = read_grid(path).points()
    assert len(points) == 2 * 2 * 2 * 2
    assert points[0] == {
        "data": "digits",
        "model_options": {"width": 8, "depth": 1},
        "model": "plain-20",
        "lr": 0.05,
        "batch_size": 64,
        "seed": 3,
    }
    assert {(p["lr"], p["batch_size"]) for p in points if p["model"] == "resnet-20"} == {
        (0.1, 64),
        (0.01, 32),
    }
    assert all(p["model_options"]["width"] == 4 for p in points if p["model"] == "resnet-20")


def test_points_are_listed_once():
    assert Grid(product={"lr": [0.1, 0.1, 0.2]}).points() == [{"lr": 0.1}, {"lr": 0.2}]


def test_points_share_nothing():
    a, b = Grid(fixed={"o": {"w": 1}}, product={"lr": [1, 2]}).points()
    a["o"]["w"] = 9
    assert b["o"]["w"] == 1


def test_seeds_as_a_number():
    assert [p["seed"] for p in Grid(seeds=3).points()] == [0, 1, 2]


@pytest.mark.parametrize(
    "grid", [{}, {"product": {"lr": []}}, {"seeds": 0}, {"product": {"lr": [1]}, "zip": {"a": []}}]
)
def test_an_empty_grid_is_refused(grid):
    with pytest.raises(UsageError, match="The grid is empty"):
        Grid.parse(grid).points()


def test_a_zip_of_unequal_axes_is_refused():
    with pytest.raises(UsageError, match=r"same length.*'a': 2, 'b': 1"):
        Grid(zip=[{"a": [1, 2], "b": [1]}]).points()


def test_a_misspelt_key_is_named(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text("[prodct]\nlr = [1]\n")
    with pytest.raises(UsageError, match=r"grid.toml has no key 'prodct'; the nearest: product"):
        read_grid(path)


def test_a_wrong_type_is_named():
    with pytest.raises(UsageError, match=r"'product.lr' is 0.1; input should be a valid list"):
        Grid.parse({"product": {"lr": 0.1}})


@pytest.mark.parametrize(
    "grid",
    [
        {"seeds": 10**11},
        {"product": {f"axis{i}": list(range(10)) for i in range(11)}},
        {"product": {"lr": list(range(1000))}, "zip": [{"a": list(range(1000))}]},
    ],
)
def test_a_grid_beyond_reason_is_refused_before_it_is_made(grid):
    with pytest.raises(UsageError, match=r"points, more than the 100,000"):
        Grid.parse(grid).points()


def test_points_of_different_types_are_told_apart_and_equal_ones_are_not():
    assert Grid.parse({"product": {"a": [1, True, "1", 1]}}).points() == [
        {"a": 1},
        {"a": True},
        {"a": "1"},
    ]


def test_toml_nested_beyond_reason_is_one_sentence(tmp_path):
    (tmp_path / "grid.toml").write_text("a = " + "[" * 50_000 + "]" * 50_000)
    with pytest.raises(UsageError, match="nested beyond reason"):
        read_grid(tmp_path / "grid.toml")
