"""Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): grey pictures of clothing, 28 x 28 pixels, ten kinds. MIT licence.

70,000 pictures, as many of each kind: 60,000 train, 10,000 test. Layout of the data folder, the original files:

    fashion_mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz

    IDX: two zero bytes, the type (8: bytes), how many dimensions; each size in four bytes, big end first; the bytes

The set has no validation split. Ours is fixed: the last 5,000 of train.
"""

import gzip
import math
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.download import gzipped_from
from regard.data.images import LabelledImage
from regard.errors import RegardError, UsageError

URL = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
MOST = 50_000_000  # bytes of a file
NAMES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
VALID = 5000
BYTES = 8  # the type of the files' numbers

# Of the content: the same however it is compressed.
SHA256 = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def fashion_mnist(folder: str | Path, split: str) -> Iterator[LabelledImage]:
    """The pictures of a split (55,000 / 5,000 / 10,000); downloaded into `folder` if they are not there."""
    if split not in ("train", "valid", "test"):
        raise UsageError(f"fashion_mnist: unknown split {split!r}; choose train, valid or test")
    file = "t10k" if split == "test" else "train"
    paths = [_file(Path(folder), f"{file}-{what}-ubyte") for what in ("images-idx3", "labels-idx1")]
    return _pictures(paths[0], paths[1], split)


def _pictures(images_path: Path, labels_path: Path, split: str) -> Iterator[LabelledImage]:
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or labels.shape != images.shape[:1] or labels.max(initial=0) >= len(NAMES):
        raise RegardError(
            f"{images_path}: {list(images.shape)} pictures and {list(labels.shape)} labels do not belong together; "
            "delete both files to download them again"
        )
    first, last = {"train": (0, len(images) - VALID), "valid": (len(images) - VALID, None), "test": (0, None)}[split]
    for number, (image, label) in enumerate(zip(images[first:last], labels[first:last], strict=True), first):
        yield LabelledImage(image, NAMES[label], f"{images_path}, picture {number + 1}")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of bytes in a gzipped IDX file."""
    try:
        with gzip.open(path) as opened:
            content = opened.read(MOST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise RegardError(f"{path}: damaged ({error}); delete it to download it again") from error
    head = 4 + 4 * content[3] if len(content) > 3 else 4
    sizes = np.frombuffer(content[4:head], dtype=">u4").tolist() if len(content) >= head else []
    is_whole = content[:3] == bytes([0, 0, BYTES]) and sizes and len(content) - head == math.prod(sizes)
    if not is_whole or len(sizes) > 4 or len(content) > MOST:
        raise RegardError(f"{path}: not an IDX file of bytes, or cut short; delete it to download it again")
    return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(sizes)


def _file(folder: Path, name: str) -> Path:
    return gzipped_from(f"{URL}/{name}.gz", folder / "fashion_mnist" / f"{name}.gz", SHA256[name], MOST)
