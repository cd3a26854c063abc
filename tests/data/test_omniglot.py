"""Omniglot's characters, and splits that share none of them."""

from pathlib import Path

import numpy as np
import pytest

from regard.data import omniglot as module
from regard.data.named import named_images
from regard.data.omniglot import omniglot
from regard.errors import RegardError, UsageError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten characters in place of 1,623: six and four."""
    monkeypatch.setattr(module, "CHARACTERS", {"images_background": (0, 6), "images_evaluation": (6, 10)})
    monkeypatch.setattr(module, "ALL", 10)
    monkeypatch.setattr(module, "VALID", 2)
    (tmp_path / "omniglot").mkdir()
    for name, count in (("images_background", 6), ("images_evaluation", 4)):
        images = np.random.default_rng(count).random((count, 3, 5, 5)) < 0.5
        np.savez_compressed(tmp_path / "omniglot" / f"{name}.npz", images=images)
    return tmp_path


@pytest.mark.parametrize("characters", [4, 6, 8])
def test_no_character_is_in_two_splits_and_none_is_lost(folder: Path, characters: int) -> None:
    found = {
        split: {known.label for known in omniglot(folder, split, characters)} for split in ("train", "valid", "test")
    }
    assert [len(found[split]) for split in found] == [characters - 2, 2, 10 - characters]
    assert set.union(*found.values()) == {f"character {number}" for number in range(1, 11)}


def test_drawings_are_black_on_white_bytes(folder: Path) -> None:
    known = next(iter(named_images("omniglot", folder, "test", characters=7)))
    assert known.label == "character 8"
    packed = np.load(folder / "omniglot" / "images_evaluation.npz")["images"]
    assert (known.image == packed[1, 0] * np.uint8(255)).all()
    assert known.place.endswith("character 8, drawing 1")


@pytest.mark.parametrize(
    ("split", "characters", "told"), [("dev", 6, "unknown split 'dev'"), ("test", 10, "between 2 and 10")]
)
def test_wrong_use_is_told(folder: Path, split: str, characters: int, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        omniglot(folder, split, characters)


@pytest.mark.parametrize("content", [b"", b"no zip", None])
def test_a_damaged_file_is_named(folder: Path, content: bytes | None) -> None:
    path = folder / "omniglot" / "images_background.npz"
    if content is None:
        np.savez_compressed(path, images=np.zeros((2, 3, 5, 5), bool))
    else:
        path.write_bytes(content)
    with pytest.raises(RegardError, match=r"images_background.npz: .*delete it to download it again"):
        list(omniglot(folder, "train", 6))


def test_a_missing_file_says_where_it_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*arguments: object, **options: object) -> Path:
        raise RegardError("cannot download: no network")

    monkeypatch.setattr(module, "download", offline)
    with pytest.raises(RegardError, match=r"put the file at .*omniglot/images_background.npz yourself"):
        omniglot(tmp_path, "train")


@pytest.mark.real_data
def test_the_real_set_has_423_characters_for_the_test(real_data: Path) -> None:
    labels = [known.label for known in omniglot(real_data, "test")]
    assert len(set(labels)) == 423
    assert len(labels) == 423 * 20
