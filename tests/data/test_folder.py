import numpy as np
import pytest
import torch
from PIL import Image

from bathyscope.core.errors import UsageError
from bathyscope.data import image_folders, is_present, load

COLORS = {"apple": (255, 0, 0), "bean": (0, 255, 0)}


def paint(path, color, size=(16, 16)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)


def imagenet(root):
    for name, color in COLORS.items():
        for i in range(3):
            paint(root / "train" / name / f"{i}.JPEG", color)
        paint(root / "val" / name / "v.JPEG", color)
    return root


def tiny_imagenet(root):
    lines = []
    for name, color in COLORS.items():
        for i in range(3):
            paint(root / "train" / name / "images" / f"{name}_{i}.JPEG", color)
        (root / "train" / name / f"{name}_boxes.txt").write_text("boxes")
        paint(root / "val" / "images" / f"val_{name}.JPEG", color)
        lines.append(f"val_{name}.JPEG\t{name}\t0\t0\t62\t62")
    (root / "val" / "val_annotations.txt").write_text("\n".join(reversed(lines)) + "\n")
    (root / "wnids.txt").write_text("\n".join(COLORS))
    return root


def plain(root):
    for name, color in COLORS.items():
        for i in range(5):
            paint(root / name / f"{i}.png", color)
    return root


@pytest.mark.parametrize(("layout", "num_train"), [(imagenet, 6), (tiny_imagenet, 6), (plain, 8)])
def test_every_layout_is_found_with_its_labels(tmp_path, layout, num_train):
    dataset = load(f"folder:{layout(tmp_path)}", size=8)
    assert dataset.train_inputs.shape == (num_train, 3, 8, 8)
    assert dataset.num_classes == 2
    assert len(dataset.test_labels) == 2
    for inputs, labels in (
        (dataset.train_inputs, dataset.train_labels),
        (dataset.test_inputs, dataset.test_labels),
    ):
        # Apples are red (channel 0) and have label 0, beans green and 1.
        assert torch.equal(inputs.mean((2, 3)).argmax(1), labels)


def test_tiny_imagenet_is_found_in_a_data_folder(tmp_path):
    tiny_imagenet(tmp_path / "tiny-imagenet" / "tiny-imagenet-200")
    dataset = load("tiny-imagenet", data_dir=tmp_path, num_train=4)
    assert dataset.name == "tiny-imagenet"
    assert dataset.train_inputs.shape == (4, 3, 64, 64)


def test_a_copy_of_imagenet_is_found_and_read_at_its_own_size(tmp_path):
    assert not is_present("imagenet", data_dir=tmp_path)
    with pytest.raises(UsageError, match=r"image-net\.org"):
        load("imagenet", data_dir=tmp_path)
    imagenet(tmp_path / "imagenet")
    assert is_present("imagenet", data_dir=tmp_path)
    assert load("imagenet", data_dir=tmp_path, num_train=2).train_inputs.shape == (2, 3, 224, 224)


def test_images_are_read_only_when_asked_for(tmp_path):
    root = imagenet(tmp_path)
    train, test = image_folders(root, size=16)
    (root / "train" / "apple" / "1.JPEG").write_bytes(b"damaged")
    image, label = train[0]
    assert (image.shape, label, len(test)) == ((3, 16, 16), 0, 2)
    with pytest.raises(UsageError, match=r"1\.JPEG is not a readable image"):
        train[1]
    batches = list(torch.utils.data.DataLoader(test, batch_size=2))
    assert batches[0][0].shape == (2, 3, 16, 16)
    assert batches[0][1].tolist() == [0, 1]


def test_the_middle_is_kept_at_the_asked_size_and_gray_becomes_color(tmp_path):
    picture = np.zeros((20, 60), np.uint8)
    picture[:, 20:40] = 255
    for i in range(5):
        (tmp_path / "a").mkdir(exist_ok=True)
        Image.fromarray(picture).save(tmp_path / "a" / f"{i}.png")
    dataset = load(f"folder:{tmp_path}", size=10)
    assert dataset.train_inputs.shape == (4, 3, 10, 10)
    assert dataset.train_inputs[..., 1:-1].min() == 1


def test_an_image_of_the_right_size_is_not_resampled(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    (tmp_path / "a").mkdir()
    for i in range(5):
        Image.fromarray(pixels).save(tmp_path / "a" / f"{i}.png")
    expected = torch.from_numpy(pixels).permute(2, 0, 1).float() / 255
    torch.testing.assert_close(load(f"folder:{tmp_path}", size=12).test_inputs[0], expected)


def test_folders_that_fit_no_layout_are_one_sentence(tmp_path):
    cases = {
        "nothing": lambda root: None,
        "empty": lambda root: root.mkdir(),
        "no images": lambda root: (root / "a").mkdir(parents=True),
        "no test": lambda root: paint(root / "train" / "a" / "1.png", (0, 0, 0)),
        "too few": lambda root: paint(root / "a" / "1.png", (0, 0, 0)),
    }
    text = ["no folder", "no class folders", "no images", "no labeled val", "fewer than five"]
    for (name, make), word in zip(cases.items(), text, strict=True):
        make(tmp_path / name)
        with pytest.raises(UsageError, match=word):
            load(f"folder:{tmp_path / name}")


def test_a_bad_annotation_and_an_impossible_size_are_one_sentence(tmp_path):
    root = tiny_imagenet(tmp_path)
    for line in ("nonsense", "x.JPEG\tcucumber", "../../x.JPEG\tapple"):
        (root / "val" / "val_annotations.txt").write_text(line)
        with pytest.raises(UsageError, match=r"Line 1 of .*val_annotations"):
            load(f"folder:{root}")
    with pytest.raises(UsageError, match="size"):
        image_folders(root, size=0)
    with pytest.raises(UsageError, match="between 1 and"):
        load(f"folder:{plain(tmp_path / 'plain')}", num_train=9)
