"""Images from a client: only the allowed formats are decoded, and never by another program."""

import base64
import io
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import EpsImagePlugin, Image
from starlette.testclient import TestClient

from explorer.tiny_models import encoded, file
from regard.explorer import inputs

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 20 20
%%EndComments
0 0 20 20 rectfill
showpage
%%EOF
"""


@pytest.fixture
def ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a fake `gs`, the first on the path, writes when it is started."""
    marker = tmp_path / "started"
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\necho 1.0\ntouch '{marker}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # it remembers what it has found before
    return marker


def test_the_fake_ghostscript_would_be_started(ghostscript: Path) -> None:
    with pytest.raises(Exception), Image.open(io.BytesIO(EPS)) as image:  # noqa: B017  it writes no picture
        image.load()
    assert ghostscript.exists()


@pytest.mark.parametrize("content", [EPS, b"\xc5\xd0\xd3\xc6" + (30).to_bytes(4, "little") + bytes(22) + EPS])
def test_postscript_is_refused_and_ghostscript_never_started(
    client: TestClient, ghostscript: Path, content: bytes
) -> None:
    plain = base64.b64encode(content).decode()
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("classify", dict(model="vision", images=plain)),
        ("embed", dict(model="vision", images=[encoded(), plain])),
        ("caption", dict(model="captioner", images=plain)),
        ("match", dict(model="matcher", images=encoded(), examples={"a": encoded(), "b": plain})),
        ("match", dict(model="matcher", images=plain, examples={"a": encoded(), "b": encoded()})),
        ("attention", dict(model="vision", image=plain)),
        ("look", dict(model="vision", image=plain)),
        ("look", dict(model="matcher", image=encoded(), examples={"a": [encoded()], "b": [plain]})),
    ]
    answers = [client.post(f"/v1/{path}", json=body) for path, body in bodies]
    answers.append(client.post("/v1/classify", data={"model": "vision"}, files={"images": ("x.png", content)}))
    for answer in answers:
        assert answer.status_code == 422, answer.text
        assert "is not a readable picture; send a PNG or JPEG file" in answer.json()["error"]["message"]
    assert not ghostscript.exists()


def test_pixels_of_all_images_are_counted_together_for_the_explorer_too(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "PIXELS", 3 * 12 * 16 - 1)
    few = client.post("/v1/look", json=dict(model="matcher", image=encoded(), examples={"a": [encoded(1)]}))
    assert "pixels" not in few.text
    for body in (
        dict(model="vision", image=encoded(size=(24, 25))),
        dict(model="matcher", image=encoded(), examples={"a": [encoded(1)], "b": [encoded(2)]}),
    ):
        answer = client.post("/v1/look", json=body)
        assert answer.status_code == 413, answer.text
        assert "pixels, but at most" in answer.json()["error"]["message"]


def test_an_image_in_a_form_is_the_same_as_in_json(client: TestClient) -> None:
    form = client.post("/v1/embed", data={"model": "vision"}, files={"images": ("x.png", file())})
    assert form.json() == client.post("/v1/embed", json=dict(model="vision", images=encoded())).json()
