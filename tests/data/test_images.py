"""Pictures of every mode and size become one shape of bytes; what cannot be read is told in one line and counted."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fuzz import examples
from regard.data import images
from regard.data.images import (
    ImageSet,
    LabelledImage,
    Preprocessing,
    labelled_images,
    picture_paths,
    read_image,
    store_images,
)
from regard.errors import RegardError, UsageError

GREY = Preprocessing((4, 4), (0.5,), (0.25,))
COLOUR = Preprocessing((4, 6), (0.1, 0.2, 0.3), (0.5, 0.5, 0.5))


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "I;16"])
@pytest.mark.parametrize("settings", [GREY, COLOUR], ids=["grey", "colour"])
def test_every_mode_becomes_grey_or_colour(mode: str, settings: Preprocessing) -> None:
    pixels = settings.pixels(Image.fromarray(noise(5, 7)).convert("L").convert(mode) if mode != "I;16" else deep())
    assert pixels.shape == (settings.channels, *settings.shape)
    assert pixels.dtype == np.uint8


def deep() -> Image.Image:
    return Image.fromarray(np.array([[0, 256], [32768, 65535]], dtype=np.uint16))


def test_sixteen_bits_keep_their_brightness() -> None:
    assert np.asarray(read_image(deep(), 1)).tolist() == [[0, 1], [128, 255]]


def test_fractions_without_a_scale_are_refused() -> None:
    with pytest.raises(RegardError, match="8 bits"):
        read_image(Image.fromarray(np.zeros((2, 2), np.float32)), 1)


def test_a_picture_is_turned_as_its_camera_says(tmp_path: Path) -> None:
    image = Image.fromarray(noise(4, 8))
    exif = image.getexif()
    exif[0x0112] = 6  # lies on its side
    image.save(tmp_path / "a.png", exif=exif)
    assert read_image(tmp_path / "a.png", 3).size == (4, 8)


def test_a_picture_of_the_right_shape_is_not_touched() -> None:
    array = noise(4, 6)
    assert np.array_equal(COLOUR.pixels(array), array.transpose(2, 0, 1))
    assert np.array_equal(COLOUR.pixels(Image.fromarray(array)), array.transpose(2, 0, 1))


def test_one_pixel_fills_the_whole_picture() -> None:
    assert (GREY.pixels(np.array([[7]], np.uint8)) == 7).all()


@pytest.mark.parametrize(("height", "width"), [(10, 20), (20, 10), (3, 3), (1, 9)])
def test_a_crop_keeps_the_proportions_and_takes_the_middle(height: int, width: int) -> None:
    array = noise(height, width)
    pixels = Preprocessing(6, (0.5,) * 3, (0.5,) * 3, crop=(4, 4)).pixels(array)
    short = min(height, width)
    tall, wide = 6 * height // short, 6 * width // short
    whole = np.asarray(Image.fromarray(array).resize((wide, tall), Image.Resampling.BILINEAR))
    top, left = (tall - 4) // 2, (wide - 4) // 2
    assert np.array_equal(pixels, whole[top : top + 4, left : left + 4].transpose(2, 0, 1))


def test_bytes_are_normalised_by_channel() -> None:
    pixels = torch.from_numpy(noise(4, 6).transpose(2, 0, 1).copy())[None]
    found = COLOUR.normalise(pixels)
    for channel, mean in enumerate((0.1, 0.2, 0.3)):
        torch.testing.assert_close(found[0, channel], (pixels[0, channel] / 255 - mean) / 0.5)


@pytest.mark.parametrize(
    "settings", [GREY, COLOUR, Preprocessing(9, (0.5,), (0.5,), (8, 7), resample=3, scale=1 / 127)]
)
def test_settings_survive_their_file(settings: Preprocessing) -> None:
    assert Preprocessing.from_values(json.loads(settings.to_json()), settings.channels, "file") == settings


@pytest.mark.parametrize("size", [8, [8, 8], {"height": 8, "width": 8}])
def test_public_settings_say_the_size_in_three_ways(size: object) -> None:
    read = Preprocessing.from_values({"size": size, "image_mean": [0.5] * 3, "image_std": [0.2] * 3}, 3, "file")
    assert read == Preprocessing((8, 8), (0.5,) * 3, (0.2,) * 3)


def test_public_settings_may_leave_steps_out() -> None:
    read = Preprocessing.from_values({"do_normalize": False, "do_rescale": False, "image_mean": [0.5]}, 1, "file")
    assert (read.shape, read.mean, read.std, read.scale) == ((224, 224), (0.0,), (1.0,), 1.0)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"do_resize": False}, "do_resize is false"),
        ({"size": {"longest_edge": 8}}, "cannot be understood"),
        ({"size": {"shortest_edge": 8}}, "add a crop"),
        ({"resample": 77}, "cannot be understood"),
        ({"size": 0}, "0 x 0 pixels do not exist"),
        ({"image_mean": [0.1, 0.2]}, "1 or 3 numbers"),
        ({"image_std": 0}, "must be positive"),
        ({"size": "big"}, "cannot be understood"),
    ],
)
def test_settings_that_make_no_sense_are_one_line(values: dict[str, object], told: str) -> None:
    with pytest.raises(RegardError, match=told) as caught:
        Preprocessing.from_values(values, 3, "file")
    assert "\n" not in str(caught.value)


# Folders and files.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, value in {
        "b/2.png": 20,
        "a/deep/er/1.PNG": 10,
        "b/1.jpg": 30,
        ".hidden/1.png": 9,
        "a/.thumb.png": 9,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((3, 5), value, np.uint8)).save(path)
    (tmp_path / "a" / "readme.txt").write_text("not a picture")
    return tmp_path


def test_a_folder_is_a_label_and_order_is_by_name(folder: Path) -> None:
    found = [(Path(known.place).relative_to(folder).as_posix(), known.label) for known in labelled_images(folder)]
    assert found == [("a/deep/er/1.PNG", "a"), ("b/1.jpg", "b"), ("b/2.png", "b")]


def test_stored_pictures_come_back_with_their_labels(folder: Path) -> None:
    stored = store_images(labelled_images(folder), ["a", "b"], GREY, folder / "set")
    assert stored.labels.tolist() == [0, 1, 1]
    assert stored.images.shape == (3, 1, 4, 4)
    assert stored.report == {"kept": 3}
    pixels, labels = ImageSet(folder / "set").batch(np.array([2, 0]))
    assert pixels[:, 0, 0, 0].tolist() == [20, 10]
    assert labels.tolist() == [1, 0]


def test_a_broken_picture_is_left_out_counted_and_named(folder: Path) -> None:
    whole = (folder / "b" / "1.jpg").read_bytes()
    (folder / "b" / "3.png").write_bytes(b"")
    (folder / "b" / "4.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "b" / "5.gif").write_bytes(b"GIF89a but no more")
    (folder / "b" / "6.png").mkdir()
    said: list[str] = []
    stored = store_images(labelled_images(folder), ["a", "b"], GREY, folder / "set", said.append)
    assert stored.report == {"kept": 3, "unreadable": 4}
    assert len(said) == 4
    assert "b/4.jpg: not a readable picture" in said[1]
    assert all("\n" not in line for line in said)


def test_a_picture_that_would_swell_is_refused_before_it_is_decoded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit does not depend on Pillow's, which a caller may have removed."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    path = folder / "b" / "2.png"  # 5 x 3
    monkeypatch.setattr(images, "MAX_PIXELS", 15)
    assert read_image(path, 1).size == (5, 3)
    monkeypatch.setattr(images, "MAX_PIXELS", 14)
    with Image.open(path) as opened, path.open("rb") as file:
        for picture in (path, path.read_bytes(), file, opened):
            with pytest.raises(RegardError, match="has more than 14 pixels; make it smaller"):
                read_image(picture, 1)


def test_a_picture_above_the_limit_of_pillow_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5)  # Pillow warns above its limit, and refuses above twice that
    with pytest.raises(RegardError, match="make it smaller"):
        read_image(examples.picture("PNG", "RGB"), 3)


def test_a_decoder_that_asks_for_gigabytes_gets_what_there_is(tmp_path: Path) -> None:
    """The last piece of this PNG says that it is two gigabytes long."""
    Image.new("RGB", (9, 7), "red").save(tmp_path / "red.png")
    content = (tmp_path / "red.png").read_bytes()
    place = content.index(b"IDAT") - 4
    length = int.from_bytes(content[place : place + 4], "big")
    (tmp_path / "red.png").write_bytes(content[:place] + (length | 1 << 30).to_bytes(4, "big") + content[place + 4 :])
    asked: list[int] = []

    class Watched(images._Bounded):
        def read(self, size: int | None = -1, /) -> bytes:
            asked.append(size or 0)
            found = super().read(size)
            assert len(found) <= len(content)
            return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(images, "_Bounded", Watched)
        picture = images.read_image(tmp_path / "red.png", 3)
    assert picture.getpixel((0, 0)) == (255, 0, 0)
    assert max(asked) > 1 << 29


def test_nothing_half_written_stays(folder: Path) -> None:
    with pytest.raises(RegardError, match=r"the label 'b' is not one of those in the training data: 'a'"):
        store_images(labelled_images(folder), ["a"], GREY, folder / "set")
    (folder / "bad.png").write_bytes(b"no")
    with pytest.raises(RegardError, match=r"no usable picture \(1 unreadable\)"):
        store_images([LabelledImage(folder / "bad.png", "a", "bad")], ["a"], GREY, folder / "set")
    assert not [path for path in folder.iterdir() if "set" in path.name]


def test_a_damaged_store_is_told(folder: Path) -> None:
    store_images(labelled_images(folder), ["a", "b"], GREY, folder / "set")
    (folder / "set" / "images").write_bytes(b"123")
    with pytest.raises(RegardError, match="delete it to make it anew"):
        ImageSet(folder / "set")


@pytest.mark.parametrize(
    ("name", "told"),
    [("nowhere", "no such folder"), ("file", "is a file"), ("empty", "no pictures"), ("flat", "no pict")],
)
def test_folders_without_pictures_are_told_in_one_line(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty" / "label").mkdir(parents=True)
    (tmp_path / "flat").mkdir()
    Image.new("L", (2, 2)).save(tmp_path / "flat" / "1.png")
    with pytest.raises(UsageError, match=told):
        labelled_images(tmp_path / name)


def test_named_files_are_taken_as_they_are_and_folders_opened(folder: Path) -> None:
    found = picture_paths([str(folder / "b" / "2.png"), str(folder / "b"), str(folder / "a" / "readme.txt")])
    assert [Path(path).name for path in found] == ["2.png", "1.jpg", "2.png", "readme.txt"]
    with pytest.raises(UsageError, match=r"nowhere\.png: no such file"):
        picture_paths(["nowhere.png"])


@pytest.mark.parametrize(
    "array", [np.zeros((2, 2)), *(np.zeros(shape, np.uint8) for shape in [(0, 2), (4,), (2, 2, 5)])]
)
def test_arrays_that_are_no_pictures_are_refused(array: np.ndarray) -> None:
    with pytest.raises(UsageError, match="is no picture"):
        read_image(array, 1)
