"""The `data` section of recipes that learn from captioned pictures."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard import settings
from regard.data.augment import Augmentation
from regard.data.captions import CaptionedImage, read_captions
from regard.data.images import Preprocessing
from regard.data.named import data_folder, named_captions
from regard.errors import UsageError
from regard.tasks.data_section import own_part


@dataclass(frozen=True)
class PictureData:
    """Pictures and captions: a named data set, or tables of one's own with the columns `file` and `caption`."""

    name: str | None = None  # flickr8k
    options: dict[str, Any] = field(default_factory=dict)  # of the named data set
    train: str | None = None  # a .tsv, .jsonl, .csv or .parquet
    valid: str | None = None
    test: str | None = None
    images: str | None = None  # the folder of the pictures; null: that of the table
    file_column: str = "file"
    caption_column: str = "caption"
    crop: bool = False  # keep the proportions and cut out the middle; else a picture is squeezed into the square
    mean: tuple[float, ...] = (0.5,)  # of the pixels, from 0 to 1; one number, or one per channel
    std: tuple[float, ...] = (0.5,)

    def pictures(
        self, split: str, folder: str | Path | None, skipped: Counter[str] | None = None
    ) -> Iterable[CaptionedImage]:
        """The captioned pictures of a split."""
        own = own_part(self, split, "a table")
        if self.name is not None:
            return named_captions(self.name, data_folder(folder), split, **self.options)
        return read_captions(
            own,
            images=self.images,
            file_column=self.file_column,
            caption_column=self.caption_column,
            skipped=skipped,
        )

    def preprocessing(self, image_size: int) -> Preprocessing:
        """Coloured pictures of this many pixels on each side."""
        square = (image_size, image_size)
        mean, std = (row * 3 if len(row) == 1 else row for row in (self.mean, self.std))
        if len(mean) != 3 or len(std) != 3:
            raise UsageError("data.mean and data.std must have one number, or three: red, green and blue")
        return Preprocessing(image_size if self.crop else square, mean, std, square if self.crop else None)


@dataclass(frozen=True)
class WordData(PictureData):
    """Which words to look for, and how pictures are changed while they are learnt from."""

    words: int = 1000  # at most so many: the most frequent
    frequent: int = 20  # training pictures that a word must be said of
    augment: dict[str, Any] = field(default_factory=dict)  # shift, flip, erase

    def __post_init__(self) -> None:
        if self.words < 1 or self.frequent < 1:
            raise UsageError(f"data.words and data.frequent must be at least 1, not {self.words} and {self.frequent}")

    def augmentation(self) -> Augmentation:
        return settings.build(Augmentation, self.augment, "data.augment")


@dataclass(frozen=True)
class CaptionData(PictureData):
    """How captions are split into tokens, and where what the frozen encoder sees is kept."""

    tokenizer: str = "word"  # or bpe, unigram, wordpiece
    vocabulary: int = 3000  # tokens; rarer words are unknown ones, and never said
    max_length: int = 40  # tokens; longer captions are left out of the training, and counted
    mirror: bool = False  # learn from mirrored pictures too, every other time
    cache: str | None = None  # folder of the encoder's regions, which runs may share; null: in the run
    weights: str | None = None  # of a timm backbone: a .safetensors file, or `pretrained` to let timm fetch its own
