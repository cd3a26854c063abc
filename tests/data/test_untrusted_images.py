"""Bytes of a stranger are decoded as one of a few formats; no decoder starts another program."""

import base64
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import EpsImagePlugin, Image, ImageFile

import regard
from export import tiny_runs
from fuzz import examples
from regard.data import images
from regard.data.captions import CaptionedImage
from regard.data.images import LabelledImage, Preprocessing, open_image, read_image, store_images
from regard.errors import RegardError
from regard.explorer.reading import decoded, picture
from regard.explorer.refusals import Refusal

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
RGB = Preprocessing((4, 4), mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that exists once a program called `gs`, the only one on the PATH, was started."""
    marker, program = tmp_path / "started", tmp_path / "programs" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n: > '{marker}'\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}/bin")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    return marker


def as_file(content: bytes, folder: Path) -> Path:
    (folder / "page.eps").write_bytes(content)
    return folder / "page.eps"


def as_renamed_file(content: bytes, folder: Path) -> str:
    (folder / "page.png").write_bytes(content)
    return str(folder / "page.png")


FORMS: dict[str, Callable[[bytes, Path], Any]] = {
    "file": as_file,
    "renamed file": as_renamed_file,
    "bytes": lambda content, folder: content,
    "file object": lambda content, folder: io.BytesIO(content),
    "open file": lambda content, folder: as_file(content, folder).open("rb"),
    "opened image": lambda content, folder: Image.open(io.BytesIO(content)),
}


def test_pillow_alone_starts_ghostscript(started: Path) -> None:
    """If this fails, the tests below prove nothing."""
    with Image.open(io.BytesIO(EPS)) as image, pytest.raises(OSError):
        image.load()
    assert started.exists()


@pytest.mark.parametrize("form", FORMS)
def test_postscript_is_refused_and_starts_no_program(form: str, tmp_path: Path, started: Path) -> None:
    given = FORMS[form](EPS, tmp_path)
    try:
        with pytest.raises(RegardError, match=r"not a readable picture \(of no known kind\)") as caught:
            read_image(given, 3)
        with pytest.raises(RegardError):
            RGB.pixels(given)
    finally:
        if hasattr(given, "close"):
            given.close()
    assert len(str(caught.value).splitlines()) == 1
    assert not started.exists()


def test_postscript_is_refused_by_the_server(started: Path) -> None:
    for content in (EPS, b"\xc5\xd0\xd3\xc6" + (30).to_bytes(4, "little") + bytes(22) + EPS):
        with pytest.raises(Refusal, match="is not a readable picture"):
            picture(base64.b64encode(content).decode(), "images.0")
        with pytest.raises(RegardError, match="not a readable picture"):
            decoded(content, 3)
    assert not started.exists()


def test_postscript_among_captions_and_labels_is_refused(tmp_path: Path, started: Path) -> None:
    with pytest.raises(RegardError, match=r"page\.png: not a readable picture"):
        CaptionedImage("page.png", ("a page",), lambda: EPS).pixels(RGB)
    found = [LabelledImage(as_renamed_file(EPS, tmp_path), "a", "1"), LabelledImage(Image.new("L", (4, 4)), "a", "2")]
    assert store_images(found, ["a"], RGB, tmp_path / "set").report == {"kept": 1, "unreadable": 1}
    assert not started.exists()


@pytest.mark.parametrize("kind", ["TGA", "PCX", "SGI", "ICO", "DDS", "PALM"])
def test_formats_that_are_not_promised_are_refused(kind: str) -> None:
    held = io.BytesIO()
    Image.new("P" if kind == "PALM" else "RGB", (16, 16)).save(held, kind)
    with pytest.raises(RegardError, match="of no known kind"):
        read_image(held.getvalue(), 3)
    if kind in Image.OPEN:  # of PALM, Pillow has only a writer
        with Image.open(io.BytesIO(held.getvalue())) as opened, pytest.raises(RegardError, match="of no known kind"):
            read_image(opened, 3)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_formats_that_are_promised_are_read_in_every_form(kind: str, tmp_path: Path) -> None:
    content = examples.picture(kind, "RGB")
    wanted = read_image(content, 3).tobytes()
    assert len(wanted) == 9 * 7 * 3
    for make in FORMS.values():
        given = make(content, tmp_path)
        assert read_image(given, 3).tobytes() == wanted
        if hasattr(given, "close"):
            given.close()


def test_a_jpeg_file_of_two_pictures_is_read() -> None:
    """Pillow opens it as JPEG and calls its format MPO."""
    held = io.BytesIO()
    first, second = (Image.new("RGB", (16, 16), colour) for colour in ("red", "blue"))
    first.save(held, "MPO", save_all=True, append_images=[second])
    with Image.open(io.BytesIO(held.getvalue())) as opened:
        assert opened.format == "MPO"
        assert read_image(opened, 3).getpixel((0, 0)) == read_image(held.getvalue(), 3).getpixel((0, 0)) == (254, 0, 0)


def test_an_image_made_in_memory_has_no_format_and_is_read() -> None:
    image = Image.new("RGB", (3, 2), "red")
    assert image.format is None
    assert read_image(image, 3).getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_a_truncated_file_is_refused_in_one_line(kind: str) -> None:
    content = examples.picture(kind, "RGB", (90, 70))
    for length in (0, 1, 12, 40, len(content) // 2):
        with pytest.raises(RegardError, match=r"^the picture: not a readable picture") as caught:
            read_image(content[:length], 3)
        assert len(str(caught.value).splitlines()) == 1


def test_the_number_of_pixels_is_checked_before_any_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: pytest.fail("decoded"))
    content = examples.bomb(30_000, 30_000)
    with pytest.raises(Image.DecompressionBombError):
        open_image(content)
    with Image.open(io.BytesIO(content)) as opened:
        for given in (content, io.BytesIO(content), opened):
            with pytest.raises(RegardError, match=f"has more than {images.MAX_PIXELS} pixels"):
                read_image(given, 3)


def test_no_other_place_opens_images() -> None:
    package = Path(images.__file__).parent.parent
    found = [path.name for path in sorted(package.rglob("*.py")) if "Image.open(" in path.read_text("utf-8")]
    assert found == ["images.py"]
    assert Path(images.__file__).read_text("utf-8").count("= Image.open(") == 1


def test_the_verbs_take_bytes_as_they_take_a_file(tmp_path: Path) -> None:
    tiny_runs.pictures(tmp_path / "run")
    model = regard.load(tmp_path / "run")
    content = examples.picture("PNG", "RGB")
    (tmp_path / "a.png").write_bytes(content)
    with Image.open(tmp_path / "a.png") as opened:
        found = model.classify([tmp_path / "a.png", content, opened, io.BytesIO(content)])
    assert len({tuple(result.probabilities.items()) for result in found}) == 1
    (alone,) = model.classify(content)  # bytes are one picture, not a sequence of them
    assert alone.label == found[0].label
    with pytest.raises(RegardError, match="of no known kind"):
        model.classify(EPS)
