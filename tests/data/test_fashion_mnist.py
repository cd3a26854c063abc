"""Fashion-MNIST: the IDX files are read and checked, its validation part is fixed, downloads come whole."""

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from data.loopback import served
from regard.data import fashion_mnist as module
from regard.data.fashion_mnist import NAMES, fashion_mnist, read_idx
from regard.data.named import named_images
from regard.errors import RegardError, UsageError


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Seven training pictures, of which two validate, and three to test on, served as the official ones are."""
    monkeypatch.setattr(module, "VALID", 2)
    digests = {}
    for file, count in (("train", 7), ("t10k", 3)):
        images = np.arange(count * 6, dtype=np.uint8).reshape(count, 2, 3)
        for name, content in (
            (f"{file}-images-idx3-ubyte", idx(images)),
            (f"{file}-labels-idx1-ubyte", idx(np.arange(count, dtype=np.uint8))),
        ):
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
            digests[name] = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(module, "SHA256", digests)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with served(tmp_path) as url:
        monkeypatch.setattr(module, "URL", url)
        yield tmp_path / "data"


def test_the_splits_are_fixed_and_apart(folder: Path) -> None:
    labels = {split: [known.label for known in fashion_mnist(folder, split)] for split in ("train", "valid", "test")}
    assert labels == {"train": list(NAMES[:5]), "valid": list(NAMES[5:7]), "test": list(NAMES[:3])}
    first = next(named_images("fashion_mnist", folder, "valid"))
    assert np.array_equal(first.image, np.arange(30, 36).reshape(2, 3))
    assert first.place.endswith("train-images-idx3-ubyte.gz, picture 6")
    assert len(list((folder / "fashion_mnist").iterdir())) == 4


def test_what_is_there_is_not_fetched_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(fashion_mnist(folder, "test"))
    monkeypatch.setattr(module, "URL", "http://127.0.0.1:1")
    assert len(list(fashion_mnist(folder, "test"))) == 3
    with pytest.raises(RegardError, match=r"cannot download .* put the file at"):
        fashion_mnist(folder, "train")


def test_a_file_that_is_not_the_known_one_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHA256", {"t10k-images-idx3-ubyte": "0" * 64})
    with pytest.raises(RegardError, match="SHA-256"):
        fashion_mnist(folder, "test")
    assert not list(folder.rglob("*.gz"))


DAMAGED = {
    "empty": b"",
    "not gzip": b"not gzip",
    "nothing inside": gzip.compress(b""),
    "half a magic number": gzip.compress(b"\0\0"),
    "half a header": gzip.compress(b"\0\0\x08\x03\0\0"),
    "a pixel short": gzip.compress(idx(np.zeros((2, 3), np.uint8))[:-1]),
    "floats": gzip.compress(b"\0\0\x0d\x01\0\0\0\x01\0"),
    "cut short": gzip.compress(idx(np.zeros((2, 3), np.uint8)))[:-9],
}


# named, because gzip writes the time into its header and a test's name must not change from one process to the next
@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_told_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    with pytest.raises(RegardError, match=r"a\.gz: .* delete it to download it again") as caught:
        read_idx(path)
    assert "\n" not in str(caught.value)


def test_pictures_and_labels_must_belong_together(folder: Path) -> None:
    list(fashion_mnist(folder, "test"))
    path = folder / "fashion_mnist" / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx(np.zeros(2, np.uint8))))
    with pytest.raises(RegardError, match="do not belong together"):
        list(fashion_mnist(folder, "test"))


def test_an_unknown_split_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="unknown split 'dev'"):
        fashion_mnist(folder, "dev")


@pytest.mark.real_data
def test_the_real_set_has_its_sizes(real_data: Path) -> None:
    if not (real_data / "fashion_mnist").is_dir():
        pytest.skip("REGARD_DATA holds no fashion_mnist")
    images = read_idx(real_data / "fashion_mnist" / "t10k-images-idx3-ubyte.gz")
    assert images.shape == (10_000, 28, 28)
    labels = read_idx(real_data / "fashion_mnist" / "t10k-labels-idx1-ubyte.gz")
    assert np.bincount(labels).tolist() == [1000] * 10
