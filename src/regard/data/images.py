"""Pictures from files, one folder per label, as the bytes a model reads.

    flowers/train/rose/1.jpg, flowers/train/tulip/a/2.png, ...      the label is the folder's name

A picture is decoded, turned as its camera says, made grey or coloured, resized, and its middle cut out: this happens
once, and the bytes lie in a memory-mapped file. Scaling and normalising are done batch by batch. How, says the
`preprocessor_config.json` of a checkpoint, in the words of Hugging Face. A picture that cannot be read is left out and
counted.
"""

import io
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from regard.data.index_checks import check_range
from regard.data.written import written
from regard.errors import RegardError, UsageError, told
from regard.files import whole_folder

Picture = str | Path | bytes | BinaryIO | Image.Image | NDArray[np.uint8]
Pixels = NDArray[np.uint8]  # [channels, height, width]

SUFFIXES = frozenset([".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"])
# What those are called by the decoders. No other is tried: some run other programs.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MODES = {1: "L", 3: "RGB"}
# JPEG files of several pictures are opened by the decoder of JPEG, which then changes the name of the format.
OPENED_FORMATS = frozenset({*FORMATS, "MPO"})
MAX_PIXELS = 89_478_485  # of a file; the number above which Pillow warns, 256 MB in RGB
LARGEST_SIDE = 1 << 13  # pixels of what a model reads
BILINEAR = int(Image.Resampling.BILINEAR)


@dataclass(frozen=True)
class LabelledImage:
    """A picture, or the file it is in, what it shows, and where it was found."""

    image: Picture
    label: str
    place: str


@dataclass(frozen=True)
class Preprocessing:
    """From any picture to what a model reads."""

    resize: tuple[int, int] | int  # height and width, or the length of the shorter side
    mean: tuple[float, ...]  # one number per channel, from 0 to 1
    std: tuple[float, ...]
    crop: tuple[int, int] | None = None  # height and width of the middle that is kept
    resample: int = BILINEAR
    scale: float = 1 / 255

    def __post_init__(self) -> None:
        if len(self.mean) not in MODES or len(self.std) != len(self.mean):
            raise UsageError(
                f"the pixels' mean {list(self.mean)} and deviation {list(self.std)} must both have 1 or 3 numbers"
            )
        if min(self.std) <= 0:
            raise UsageError(f"the pixels' deviation {list(self.std)} must be positive")
        if not all(map(math.isfinite, (*self.mean, *self.std, self.scale))):
            raise UsageError("the pixels' mean, deviation and scale must be finite numbers")
        if isinstance(self.resize, int) and self.crop is None:
            raise UsageError(f"pictures resized by their shorter side to {self.resize} differ in shape: add a crop")
        sides = (self.resize,) if isinstance(self.resize, int) else self.resize
        if not all(1 <= side <= LARGEST_SIDE for side in (*sides, *self.shape)):
            raise UsageError(f"pictures of {self.shape[0]} x {self.shape[1]} pixels do not exist, or are too large")

    @property
    def channels(self) -> int:
        return len(self.mean)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of what the model reads."""
        if self.crop is not None:
            return self.crop
        assert isinstance(self.resize, tuple)
        return self.resize

    def pixels(self, picture: Picture) -> Pixels:
        """The picture as bytes [channels, height, width]."""
        if self._is_ready(picture):
            return picture[None]
        image = read_image(picture, self.channels)
        width, height = image.size
        if isinstance(self.resize, int):
            short = min(width, height)
            target = self.resize * height // short, self.resize * width // short
        else:
            target = self.resize
        if target[0] * target[1] > LARGEST_SIDE**2:
            raise RegardError(f"{_name(picture)}: {width} x {height} pixels are too narrow to be resized; cut it")
        if target != (height, width):
            image = image.resize(target[::-1], self.resample)
        if self.crop is not None:
            top, left = (target[0] - self.crop[0]) // 2, (target[1] - self.crop[1]) // 2
            image = image.crop((left, top, left + self.crop[1], top + self.crop[0]))
        return np.asarray(image).reshape(*self.shape, self.channels).transpose(2, 0, 1)

    def read(self, picture: Picture, unreadable: Callable[[RegardError], object] | None) -> Pixels | None:
        """The same; one that cannot be read is an error, or None when `unreadable` is there to hear of it."""
        try:
            return self.pixels(picture)
        except RegardError as error:
            if unreadable is None:
                raise
            unreadable(error)
            return None

    def _is_ready(self, picture: Picture) -> TypeGuard[NDArray[np.uint8]]:
        """Sets of many small grey pictures come as they must be."""
        if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or self.channels != 1:
            return False
        return self.crop is None and picture.shape == self.resize

    def normalise(self, pixels: Tensor) -> Tensor:
        """Bytes [batch, channels, height, width] to the numbers a model reads: (x / 255 - mean) / std."""
        mean, std = (pixels.new_tensor(row, dtype=torch.float32)[:, None, None] for row in (self.mean, self.std))
        return (pixels.float() * self.scale - mean) / std

    def to_json(self) -> str:
        """A `preprocessor_config.json` that others read too."""
        size: dict[str, int] = (
            {"shortest_edge": self.resize} if isinstance(self.resize, int) else _height_width(self.resize)
        )
        values: dict[str, Any] = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": size,
            "resample": self.resample,
            "do_rescale": True,
            "rescale_factor": self.scale,
            "do_normalize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.std),
        }
        if self.crop is not None:
            values |= {"do_center_crop": True, "crop_size": _height_width(self.crop)}
        return json.dumps(values, indent=1)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], channels: int, place: str) -> "Preprocessing":
        """From a checkpoint's own settings; what they leave out is as ViT's processor has it."""
        try:
            if not values.get("do_resize", True):
                raise UsageError(f"{place}: do_resize is false; pictures of one batch must have one size")
            size = values.get("size", 224)
            normalises = values.get("do_normalize", True)
            return cls(
                resize=int(size["shortest_edge"]) if _is_edge(size) else _shape(size),
                mean=_per_channel(values.get("image_mean", 0.5) if normalises else 0.0, channels),
                std=_per_channel(values.get("image_std", 0.5) if normalises else 1.0, channels),
                crop=_shape(values["crop_size"]) if values.get("do_center_crop") else None,
                resample=int(Image.Resampling(values.get("resample", BILINEAR))),
                scale=float(values.get("rescale_factor", 1 / 255)) if values.get("do_rescale", True) else 1.0,
            )
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise RegardError(f"{place}: cannot be understood ({type(error).__name__}: {told(error)})") from error


def _height_width(shape: tuple[int, int]) -> dict[str, int]:
    return {"height": shape[0], "width": shape[1]}


def _is_edge(size: Any) -> bool:
    return isinstance(size, Mapping) and "shortest_edge" in size


def _shape(size: Any) -> tuple[int, int]:
    """224, [224, 224] or {"height": 224, "width": 224}."""
    if isinstance(size, Mapping):
        return int(size["height"]), int(size["width"])
    height, width = (size, size) if isinstance(size, int) else size
    return int(height), int(width)


def _per_channel(values: Any, channels: int) -> tuple[float, ...]:
    row = tuple(map(float, values)) if isinstance(values, list | tuple) else (float(values),)
    return row * channels if len(row) == 1 else row


def read_image(picture: Picture, channels: int) -> Image.Image:
    """Decodes a picture, turns it upright, and makes it grey or coloured.

    All pictures of the library are decoded here: files, their bytes, file objects, opened images and arrays.
    """
    name = _name(picture)
    if isinstance(picture, np.ndarray):
        is_flat = picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] in (3, 4))
        if picture.dtype != np.uint8 or not is_flat or 0 in picture.shape:
            raise UsageError(
                f"an array of {picture.dtype} {list(picture.shape)} is no picture: give uint8 [height, width (, 3)]"
            )
        return Image.fromarray(picture).convert(MODES[channels])
    try:
        if isinstance(picture, Image.Image):
            check_opened(picture)
            return _converted(picture, channels, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata is no reason to speak
            with _file(picture) as file, open_image(file) as opened:
                return _converted(opened, channels, name)
    except (Image.DecompressionBombError, MemoryError) as error:
        raise RegardError(f"{name}: has more than {MAX_PIXELS} pixels; make it smaller") from error
    except FileNotFoundError as error:
        raise UsageError(f"{name}: no such file; name a picture") from error
    except IsADirectoryError as error:
        raise UsageError(f"{name}: is a folder; name a picture") from error
    except RegardError:
        raise
    except Exception as error:  # decoders raise whatever they stumble over
        reason = "of no known kind" if isinstance(error, Image.UnidentifiedImageError) else told(error)
        raise RegardError(f"{name}: not a readable picture ({reason}); save it anew as PNG or JPEG") from error


def open_image(source: str | Path | bytes | BinaryIO) -> Image.Image:
    """Opens a file, its bytes, or a file object as one of the FORMATS, and reads its header only.

    This is the only call of `Image.open` in the library. It raises what Pillow raises, and
    `Image.DecompressionBombError` if the header announces more than MAX_PIXELS pixels.
    """
    image = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=formats())
    try:
        check_opened(image)
    except BaseException:
        image.close()
        raise
    return image


def check_opened(image: Image.Image) -> None:
    """Raises an error unless the pixels of an image may be decoded.

    `Image.open` reads a header only, and loading an image that it opened as PostScript starts Ghostscript. An image
    without a format was made in memory.
    """
    if image.format is None:
        return
    if image.format not in OPENED_FORMATS:
        raise Image.UnidentifiedImageError(f"{image.format} is not one of {', '.join(FORMATS)}")
    if image.width * image.height > MAX_PIXELS:
        raise Image.DecompressionBombError(f"{image.width} x {image.height} pixels")


@cache
def formats() -> list[str]:
    """The FORMATS that this Pillow was built with."""
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


def _name(picture: Picture) -> str:
    return str(picture) if isinstance(picture, str | Path) else "the picture"


class _Bounded(io.BufferedReader):
    """Asked for more than there is, Python first makes room for all of it, and some decoders ask for gigabytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        rest = max(0, os.fstat(self.fileno()).st_size - self.tell())
        return super().read(rest if size is None or size < 0 else min(size, rest))


@contextmanager
def _file(picture: Any) -> Iterator[Any]:
    """A regular file, bounded; anything else as it is."""
    if not isinstance(picture, str | os.PathLike) or not os.path.isfile(picture):
        yield picture
        return
    with _Bounded(io.FileIO(os.fspath(picture))) as file:
        yield file


def _converted(image: Image.Image, channels: int, name: str) -> Image.Image:
    image = ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise RegardError(f"{name}: its pixels are fractions without a known scale; save it with 8 bits per pixel")
    if image.mode.startswith("I"):  # 16 bits per pixel: PIL would cut them off at 255
        image = Image.fromarray((np.asarray(image).clip(0, 65535) // 256).astype(np.uint8))
    return image.convert(MODES[channels])


def labelled_images(folder: str | Path) -> list[LabelledImage]:
    """All pictures below a folder, in order of their names; each folder in it is a label."""
    folder = written(folder)
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "no such folder"
        raise UsageError(f"{folder}: {kind}; name a folder that holds one folder of pictures per label")
    labels = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    found = [LabelledImage(path, label.name, str(path)) for label in labels for path in image_files(label)]
    if not found:
        raise UsageError(f"{folder}: no pictures; it must hold one folder per label with {_told_suffixes()} in it")
    return found


def image_files(folder: Path) -> list[Path]:
    """The pictures below a folder, by their suffix."""
    return sorted(
        path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    )


def picture_paths(names: Sequence[str]) -> list[str]:
    """Files as they are named, folders as the pictures below them; what is not there is an error."""
    found: list[str] = []
    for name in names:
        path = written(name)
        if not path.exists():
            raise UsageError(f"{name}: no such file; name a picture or a folder of pictures")
        found += map(str, image_files(path)) if path.is_dir() else [str(path)]
    return found


def _told_suffixes() -> str:
    return ".png, .jpg, .webp, .bmp, .gif or .tif files"


class ImageSet:
    """Pictures of one shape and the numbers of their labels: `images` uint8 [count, channels, height, width].

    With a number of `labels`, all labels must be less than it.
    """

    def __init__(self, folder: Path, labels: int | None = None):
        try:
            values = json.loads((folder / "report.json").read_text("utf-8"))
            self.report: dict[str, int] = values["report"]
            self.labels: NDArray[np.int64] = np.fromfile(folder / "labels", dtype=np.int64)
            self.images: NDArray[np.uint8] = np.memmap(folder / "images", dtype=np.uint8, mode="r")
            self.images = self.images.reshape(len(self.labels), *values["shape"])
            if not isinstance(self.report, dict) or self.images.ndim != 4 or min(self.labels, default=0) < 0:
                raise ValueError("the report or the labels make no sense")
        except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
            raise RegardError(f"{folder}: not readable pictures ({told(error)}); delete it to make it anew") from error
        check_range(self.labels, labels, folder / "labels")

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, items: Sequence[int] | NDArray[np.integer] | slice) -> tuple[Tensor, Tensor]:
        """Bytes [batch, channels, height, width] and labels [batch]."""
        return torch.from_numpy(np.array(self.images[items])), torch.from_numpy(self.labels[items])


def store_images(
    images: Iterable[LabelledImage],
    labels: Sequence[str],
    preprocessing: Preprocessing,
    folder: Path,
    say: Callable[[str], None] = lambda line: None,
) -> ImageSet:
    """Write the pictures into `folder`, all or nothing, and open it; `say` hears of each that cannot be read."""
    numbers = {label: number for number, label in enumerate(labels)}
    report: Counter[str] = Counter()
    kept: list[int] = []
    with whole_folder(folder) as part:
        with open(part / "images", "wb") as file:
            for known in images:
                number = label_number(known, numbers)
                try:
                    pixels = preprocessing.pixels(known.image)
                except RegardError as error:
                    report["unreadable"] += 1
                    say(f"left out: {error}")
                    continue
                file.write(pixels.tobytes())
                kept.append(number)
        if not kept:
            raise RegardError(
                f"the {folder.name} split has no usable picture ({report['unreadable']} unreadable); "
                "check the data section"
            )
        np.array(kept, dtype=np.int64).tofile(part / "labels")
        shape = [preprocessing.channels, *preprocessing.shape]
        values = {"shape": shape, "report": {"kept": len(kept), **report}}
        (part / "report.json").write_text(json.dumps(values), "utf-8")
    return ImageSet(folder)


def label_number(known: LabelledImage, labels: Mapping[str, int]) -> int:
    if known.label not in labels:
        names = ", ".join(map(repr, list(labels)[:10])) + ", ..." * (len(labels) > 10)
        raise RegardError(f"{known.place}: the label {known.label!r} is not one of those in the training data: {names}")
    return labels[known.label]
