"""Captioned pictures: tables of one's own, Flickr8k's files, and the cache of what an encoder sees."""

import gzip
import io
import json
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from regard.data import region_cache
from regard.data.captions import CaptionedImage, grouped, plain, read_captions, readable_pictures
from regard.data.flickr8k import flickr8k
from regard.data.images import Preprocessing
from regard.data.named import named_captions
from regard.data.region_cache import cached_regions, weights_key
from regard.errors import RegardError, UsageError

READ = Preprocessing((4, 4), (0.5,) * 3, (0.5,) * 3)


def png(colour: tuple[int, int, int], size: tuple[int, int] = (6, 5)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


def picture(name: str, content: bytes) -> CaptionedImage:
    return CaptionedImage(name, ("a picture",), lambda: content)


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("A dog runs .", "a dog runs"),
        ('The man \'s "red" T-shirt , wet !', "the man s red t-shirt wet"),
        ("Don't", "don't"),
        (" . , ", ""),
        ("Ein Mädchen_x", "ein mädchen x"),
    ],
)
def test_a_caption_is_its_words(caption: str, words: str) -> None:
    assert plain(caption) == words


def test_rows_of_one_file_are_one_picture(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png((255, 0, 0)))
    (tmp_path / "t.tsv").write_text("file\tcaption\na.png\tA red .\nb.png\tLost !\na.png\tRed again\nb.png\t...\n")
    skipped: Counter[str] = Counter()
    first, second = read_captions(tmp_path / "t.tsv", skipped=skipped)
    assert (first.name, first.captions) == ("a.png", ("a red", "red again"))
    assert (second.name, second.captions) == ("b.png", ("lost",))
    assert skipped == {"captions without words": 1}
    said: list[str] = []
    ((number, pixels),) = readable_pictures([first, second], READ, said.append)
    assert (number, pixels.shape, pixels[:, 0, 0].tolist()) == (0, (3, 4, 4), [255, 0, 0])
    assert "b.png: cannot be read" in said[0]


def test_pictures_may_lie_elsewhere_and_columns_have_other_names(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(png((0, 0, 255)))
    (tmp_path / "t.jsonl").write_text(json.dumps({"image": "a.png", "text": "Blue"}))
    options = dict(images=tmp_path / "photos", file_column="image", caption_column="text")
    (known,) = read_captions(tmp_path / "t.jsonl", **options)
    assert known.pixels(READ)[2].min() == 255
    with pytest.raises(UsageError, match="no text in the column 'file'; the columns are 'image', 'text'"):
        list(read_captions(tmp_path / "t.jsonl", images=tmp_path / "photos"))
    with pytest.raises(UsageError, match="no such folder of pictures"):
        read_captions(tmp_path / "t.jsonl", images=tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no such file"):
        read_captions(tmp_path / "none.tsv")
    with pytest.raises(RegardError, match="no usable caption"):
        list(grouped([("a", "...")], lambda name: lambda: b"", "there"))


@pytest.mark.parametrize("content", [b"no picture", b"", png((1, 2, 3))[:40]])
def test_a_broken_picture_is_an_error_with_its_name(content: bytes) -> None:
    with pytest.raises(RegardError, match=r"^sea\.jpg: not a readable picture"):
        picture("sea.jpg", content).pixels(READ)


def write_flickr(folder: Path) -> None:
    (folder / "flickr8k").mkdir()
    with zipfile.ZipFile(folder / "flickr8k" / "images_val.zip", "w") as archive:
        archive.writestr("1.jpg", png((0, 255, 0)))
    rows = "".join(f"{name}\t{number}\tA {name} {number} .\n" for name in ("1.jpg", "2.jpg") for number in range(2))
    (folder / "flickr8k" / "captions_val.tsv.gz").write_bytes(gzip.compress(rows.encode()))


def test_flickr8k_is_read_from_its_archives(tmp_path: Path) -> None:
    write_flickr(tmp_path)
    first, second = named_captions("flickr8k", tmp_path, "valid")
    assert first.captions == ("a 1 jpg 0", "a 1 jpg 1")
    assert first.pixels(READ)[1].min() == 255
    with pytest.raises(RegardError, match=r"2\.jpg cannot be read"):
        second.read()
    with pytest.raises(RegardError, match=r"images_train.zip|captions_train"):
        flickr8k(tmp_path, "train")
    with pytest.raises(UsageError, match="choose train, valid or test"):
        flickr8k(tmp_path, "dev")
    (tmp_path / "flickr8k" / "images_val.zip").write_bytes(b"PK")
    with pytest.raises(RegardError, match="not a readable archive"):
        list(flickr8k(tmp_path, "valid"))


@pytest.mark.real_data
def test_flickr8k_has_a_thousand_validation_pictures_of_five_captions(real_data: Path) -> None:
    if not (real_data / "flickr8k").is_dir():
        pytest.skip("no flickr8k in REGARD_DATA")
    pictures = list(flickr8k(real_data, "valid"))
    assert len(pictures) == 1000
    assert {len(known.captions) for known in pictures} == {5}
    assert pictures[0].pixels(READ).shape == (3, 4, 4)


# The cache


class Eye:
    """An encoder that counts how often it is asked: the mean colour of each half of a picture."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, pixels: NDArray[np.uint8]) -> Tensor:
        self.asked += len(pixels)
        halves = torch.from_numpy(pixels.astype(np.float32)).unflatten(3, (2, 2))
        return halves.mean((2, 4)).transpose(1, 2) / 256


RED, GREEN, TEXT = png((200, 0, 0)), png((0, 100, 0)), b"text"


def test_regions_are_computed_once_and_then_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_cache, "AT_ONCE", 2)
    pictures = [picture("1", RED), picture("2", TEXT), picture("3", GREEN), picture("4", RED)]
    eye, said = Eye(), []
    first = cached_regions(pictures, READ, "key", eye, tmp_path, say=said.append)
    assert first.rows.tolist() == [0, -1, 1, 2]
    assert [line.split(":")[0] for line in said[1:]] == ["left out"]
    assert said[0].startswith("computing what the encoder sees of 4 pictures into")
    assert isinstance(first.regions, np.memmap)
    assert first.regions.dtype == np.float16
    again = cached_regions(pictures, READ, "key", eye, tmp_path)
    assert eye.asked == 3
    for known in (first, again):
        batch = known.batch([3, 2])
        assert batch.dtype == torch.float32
        assert batch[0].tolist() == [[0.78125, 0, 0]] * 2
        assert batch[1].tolist() == [[0, 0.390625, 0]] * 2
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".npy"]


def test_another_encoder_picture_or_preparation_makes_another_file(tmp_path: Path) -> None:
    eye = Eye()
    other = Preprocessing((4, 4), (0.4,) * 3, (0.5,) * 3)
    for key, pictures, read, mirrored in (
        ("key", [RED], READ, False),
        ("key2", [RED], READ, False),
        ("key", [GREEN], READ, False),
        ("key", [RED, GREEN], READ, False),
        ("key", [RED], other, False),
        ("key", [RED], READ, True),
    ):
        cached_regions([picture("p", known) for known in pictures], read, key, eye, tmp_path, mirrored=mirrored)
    assert len(list(tmp_path.glob("*.npy"))) == 6
    assert eye.asked == 7


def test_a_mirrored_picture_is_seen_from_the_other_side(tmp_path: Path) -> None:
    image = Image.new("RGB", (4, 4), (0, 0, 0))
    image.paste((128, 0, 0), (0, 0, 2, 4))
    file = io.BytesIO()
    image.save(file, "PNG")
    (straight, turned) = (
        cached_regions([picture("p", file.getvalue())], READ, "k", Eye(), tmp_path, mirrored=mirrored).batch([0])[0]
        for mirrored in (False, True)
    )
    assert straight[:, 0].tolist() == [0.5, 0.0]
    assert torch.equal(turned, straight.flip(0))


def test_nothing_half_written_stays(tmp_path: Path) -> None:
    def blind(pixels: NDArray[np.uint8]) -> Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_regions([picture("p", RED)], READ, "k", blind, tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RegardError, match="none of 1 pictures can be read"):
        cached_regions([picture("p", TEXT)], READ, "k", Eye(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_cache_says_what_to_delete(tmp_path: Path) -> None:
    cached_regions([picture("p", RED)], READ, "k", Eye(), tmp_path)
    (path,) = tmp_path.glob("*.npy")
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(RegardError, match="delete it and"):
        cached_regions([picture("p", RED)], READ, "k", Eye(), tmp_path)


def test_a_key_follows_every_number_and_name() -> None:
    one, two = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])
    keys = {weights_key([("a", one)]), weights_key([("a", two)]), weights_key([("b", one)])}
    assert len(keys) == 3
    assert weights_key([("a", one.clone())]) in keys
