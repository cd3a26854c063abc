"""What a frozen encoder sees, computed once and kept on disk.

A file per set of pictures, `KEY.npy` [pictures, regions, size] in half precision, memory-mapped: a set larger than
memory costs nothing but its pages. The key is a SHA-256 of the encoder's weights, of how pictures are prepared, and of
the bytes of every picture, so whatever changes, another file is made; runs that share encoder and pictures share the
file. Pictures that cannot be read have no row: `KEY.json` says which have.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.captions import CaptionedImage, readable_pictures
from regard.data.images import Preprocessing
from regard.errors import RegardError
from regard.errors import told as said
from regard.files import whole_file, write_text

AT_ONCE = 64  # pictures encoded together; changes speed, never which file is made
Encode = Callable[[NDArray[np.uint8]], Tensor]
"""Bytes [pictures, channels, height, width] to regions [pictures, regions, size]."""


@dataclass(frozen=True)
class RegionSet:
    """Regions of the readable pictures of a set; `rows[i]` is picture i's row, -1 if it could not be read."""

    regions: NDArray[np.float16]
    rows: NDArray[np.int64]

    def batch(self, pictures: Sequence[int] | NDArray[np.integer]) -> Tensor:
        """[batch, regions, size] in single precision."""
        return torch.from_numpy(self.regions[self.rows[np.asarray(pictures)]].astype(np.float32))


def weights_key(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """A hash of named tensors."""
    found = hashlib.sha256()
    for name, tensor in tensors:
        values = tensor.detach().cpu().contiguous()
        found.update(f"{name} {values.dtype} {tuple(values.shape)};".encode())
        found.update(values.numpy().tobytes())
    return found.hexdigest()


def cached_regions(
    pictures: Sequence[CaptionedImage],
    preprocessing: Preprocessing,
    encoder_key: str,
    encode: Encode,
    folder: Path,
    *,
    mirrored: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> RegionSet:
    """The regions of pictures, or of their mirror images: from the cache, or computed into it.

    `say` hears when they are computed, and of pictures that cannot be read.
    """
    key = hashlib.sha256(f"{encoder_key} {preprocessing.to_json()} {mirrored};".encode())
    for picture in pictures:
        key.update(picture.fingerprint())
    path, told = (folder / f"{key.hexdigest()[:32]}{ending}" for ending in (".npy", ".json"))
    if not told.is_file():
        say(f"computing what the encoder sees of {len(pictures)} pictures{' turned round' * mirrored} into {path}")
        kept = _write(pictures, preprocessing, encode, path, mirrored, say)
        write_text(told, json.dumps({"kept": kept}))  # last: without it the other file does not count
    try:
        rows = np.full(len(pictures), -1, dtype=np.int64)
        kept = json.loads(told.read_text("utf-8"))["kept"]
        if not isinstance(kept, list) or not all(type(row) is int and 0 <= row < len(rows) for row in kept):
            raise ValueError("it does not say which pictures it has")
        rows[kept] = np.arange(len(kept))
        regions = np.load(path, mmap_mode="r", allow_pickle=False)
        if regions.ndim != 3 or len(regions) != len(kept) or regions.dtype != np.float16:
            raise ValueError(f"{len(kept)} pictures but {regions.dtype} {list(regions.shape)}")
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError, SyntaxError) as error:
        raise RegardError(
            f"{path}: not a readable cache ({said(error)}); delete it and {told.name} to make them anew"
        ) from error
    return RegionSet(regions, rows)


def _write(
    pictures: Sequence[CaptionedImage],
    preprocessing: Preprocessing,
    encode: Encode,
    path: Path,
    mirrored: bool,
    say: Callable[[str], object],
) -> list[int]:
    """Encode picture by picture into `path`; returns the numbers of those that could be read."""
    kept: list[int] = []
    waiting: list[NDArray[np.uint8]] = []
    shape: tuple[int, ...] = ()
    with whole_file(path) as file:

        def flush() -> None:
            nonlocal shape
            if waiting:
                rows = encode(np.stack(waiting)).to("cpu", torch.float16).numpy()
                if not shape:  # the header's length does not depend on the count, which is not known yet
                    shape = rows.shape[1:]
                    _header(file, (0, *shape))
                file.write(rows.tobytes())
                waiting.clear()

        for number, pixels in readable_pictures(pictures, preprocessing, say):
            waiting.append(pixels[:, :, ::-1] if mirrored else pixels)
            kept.append(number)
            if len(waiting) == AT_ONCE:
                flush()
        flush()
        if not kept:
            raise RegardError(f"none of {len(pictures)} pictures can be read; check the data section")
        file.seek(0)
        _header(file, (len(kept), *shape))
        file.seek(0, 2)
    return kept


def _header(file: object, shape: tuple[int, ...]) -> None:
    values = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float16)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, values)  # type: ignore[arg-type]
