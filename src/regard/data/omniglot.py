"""Omniglot (Lake, Salakhutdinov and Tenenbaum 2015): 1,623 hand-written characters of 50 alphabets, 20 drawings of
each, by 20 people. MIT licence. Layout of the data folder:

    omniglot/images_background.npz     characters 1 to 964 (30 alphabets)
    omniglot/images_evaluation.npz     characters 965 to 1623 (20 alphabets)

each with `images` [characters, 20, 105, 105], True where there is paper: the original pictures, packed as NumPy
arrays.

Our splits have no character in common. The first `characters` are for learning, the last 100 of these for validation,
and all others for the test. Their number is 1,200 in the papers since Vinyals et al. 2016; 964 gives the sets as they
were made, which have not even an alphabet in common.
"""

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.download import download
from regard.data.images import LabelledImage
from regard.errors import RegardError, UsageError, told

URL = "https://raw.githubusercontent.com/bitsandscraps/omniglot/9514cfd6780ed78e96a4d88bae8c85f3ee31359e"
SHA256 = {
    "images_background": "8bf84167413cd00beacdce3fe582f780ab538d8dbef043a6d688f2527bbce199",
    "images_evaluation": "0b84c7ffd94c4841c0040e529c86a82eaaccb986d8eadad5673f7991b7475276",
}
CHARACTERS = {"images_background": (0, 964), "images_evaluation": (964, 1623)}  # from, and up to
ALL, VALID = 1623, 100
LARGEST = 964 * 20 * 105 * 105  # pixels of a file
MOST = 10_000_000  # bytes of a file


def omniglot(folder: str | Path, split: str, characters: int = 1200) -> Iterator[LabelledImage]:
    """The drawings of a split, black on white, labelled `character 1` to `character 1623`; downloaded if need be."""
    if not VALID < characters < ALL:
        raise UsageError(
            f"omniglot: characters is {characters} but must lie between {VALID} and {ALL}; try 1200 or 964"
        )
    known = {"train": (0, characters - VALID), "valid": (characters - VALID, characters), "test": (characters, ALL)}
    if split not in known:
        raise UsageError(f"omniglot: unknown split {split!r}; choose train, valid or test")
    first, last = known[split]
    paths = {
        name: _file(Path(folder), name) for name, (start, end) in CHARACTERS.items() if start < last and first < end
    }
    return _drawings(paths, first, last)


def _drawings(paths: dict[str, Path], first: int, last: int) -> Iterator[LabelledImage]:
    for name, path in paths.items():
        start, end = CHARACTERS[name]
        images = _read(path, end - start)
        for number in range(max(first, start), min(last, end)):
            for drawer, drawing in enumerate(images[number - start], 1):
                place = f"{path}, character {number + 1}, drawing {drawer}"
                yield LabelledImage(drawing.astype(np.uint8) * 255, f"character {number + 1}", place)


def _read(path: Path, count: int) -> NDArray[np.bool_]:
    try:
        with zipfile.ZipFile(path) as archive, archive.open("images.npy") as member:
            # The header first: what it promises decides how much memory is asked for.
            if np.lib.format.read_magic(member) != (1, 0):
                raise ValueError("not an array of version 1.0")
            shape, _, kind = np.lib.format.read_array_header_1_0(member)
            if len(shape) != 4 or shape[0] != count or kind != np.bool_ or math.prod(shape) > LARGEST:
                raise RegardError(
                    f"{path}: {kind} {list(shape)} are not the drawings of {count} characters; "
                    "delete it to download it again"
                )
        with np.load(path, allow_pickle=False) as opened:
            images: NDArray[np.bool_] = opened["images"]
    except RegardError:
        raise
    except Exception as error:  # archives and headers fail in many ways
        raise RegardError(f"{path}: damaged ({told(error)}); delete it to download it again") from error
    return images


def _file(folder: Path, name: str) -> Path:
    path = folder / "omniglot" / f"{name}.npz"
    if path.exists():
        return path
    try:
        return download(f"{URL}/{name}.npz", path, SHA256[name], most=MOST)
    except RegardError as error:
        raise RegardError(f"{error} (or put the file at {path} yourself)") from error
