"""Flickr8k (Hodosh, Young and Hockenmaier 2013): 8,000 photographs of people and animals, five captions each.

Layout of the data folder:

    flickr8k/images_{train,val,test}.zip          one JPEG per picture
    flickr8k/captions_{train,val,test}.tsv.gz     file name<TAB>caption number<TAB>caption

Its makers give the set out for non-commercial research and education, on request, so nothing is downloaded here. The
official splits have 6,000 / 1,000 / 1,000 pictures.
"""

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from regard.data.captions import CaptionedImage, grouped
from regard.data.parallel import read_lines
from regard.errors import RegardError, UsageError, told

PICTURE_MOST = 64 << 20  # bytes of a picture
SPLITS = {"train": "train", "valid": "val", "test": "test"}


def flickr8k(folder: str | Path, split: str) -> Iterator[CaptionedImage]:
    """The pictures of a split."""
    if split not in SPLITS:
        raise UsageError(f"flickr8k: unknown split {split!r}; choose train, valid or test")
    place = Path(folder) / "flickr8k"
    table, archive = place / f"captions_{SPLITS[split]}.tsv.gz", place / f"images_{SPLITS[split]}.zip"
    for path in (table, archive):
        if not path.is_file():
            raise RegardError(
                f"{path}: no such file; Flickr8k is given out on request only: ask its makers, and put pictures and "
                "captions there (see regard.data.flickr8k)"
            )
    return _pictures(table, archive)


def _pictures(table: Path, archive: Path) -> Iterator[CaptionedImage]:
    try:
        opened = zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, struct.error) as error:
        raise RegardError(f"{archive}: not a readable archive ({told(error)}); fetch it again") from error

    def reader(name: str) -> Callable[[], bytes]:
        def read() -> bytes:
            try:
                if opened.getinfo(name).file_size > PICTURE_MOST:
                    raise RegardError(f"{archive}: {name} swells to more than {PICTURE_MOST:,} bytes; leave it out")
                return opened.read(name)
            except (KeyError, zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError) as error:
                raise RegardError(f"{archive}: {name} cannot be read ({told(error)})") from error

        return read

    yield from grouped(_rows(table), reader, str(table))


def _rows(table: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_lines(table), 1):
        cells = (line or "").split("\t")
        if len(cells) != 3:
            raise RegardError(f"{table}, line {number}: {len(cells)} columns instead of 3; fetch the file again")
        yield cells[0], cells[2]
