"""Requests of every endpoint of the server, and ways to spoil them: by structure, by bytes, as JSON and as forms."""

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from PIL import Image

from fuzz.mutations import BYTES, JSON, NAMES, TEXTS, spoilt, value

Body = dict[str, Any]
BOUNDARY = b"-of-the-form-"
JSON_TYPE, FORM_TYPE = b"application/json", b"multipart/form-data; boundary=" + BOUNDARY
TYPES = [
    b"",
    b"text/plain",
    b"application/json; charset=utf-16",
    b"APPLICATION/JSON;;=",
    b"multipart/form-data",
    b'multipart/form-data; boundary=""',
    b"multipart/form-data; boundary=" + b"x" * 300,
    FORM_TYPE + b"; charset=utf-7",
    FORM_TYPE + b"; charset=unicode_escape",
    b"application/x-www-form-urlencoded",
    b"\xff\xfe",
]
IMAGE_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "EPS", "PDF")
EPISODES = ["copy:9999x9999", "9999", "0", "copy:2048", "recall:3", "2x9999", "copy:-1", "copy:5"]


@dataclass(frozen=True)
class Request:
    """What is sent with POST."""

    path: str
    media: bytes
    content: bytes


@cache
def image(kind: str = "PNG", size: tuple[int, int] = (12, 16)) -> str:
    """A small image of a format, in base64."""
    file = io.BytesIO()
    Image.radial_gradient("L").resize(size).convert("RGB").save(file, kind)
    return base64.b64encode(file.getvalue()).decode("ascii")


# What is sent to the verbs, by their names: several examples of each.
VERBS: Mapping[str, Sequence[Body]] = {
    "translate": [
        dict(model="translator", texts=["a man in a hat", "two dogs"], num_beams=2, max_new_tokens=3, alignments=True),
        dict(model="translator", texts="a man", do_sample=True, seed=1, top_k=5, top_p=0.9, temperature=0.7),
        dict(model="translator", texts="two dogs", num_beams=3, num_return_sequences=2, length_penalty=0.6),
    ],
    "generate": [
        dict(model="language", prompts=["the cat", ""], max_new_tokens=3, num_beams=1),
        dict(model="language", prompts="the dog", max_new_tokens=4, stop=["z", "the"], stream=True),
        dict(model="language", prompts="a", max_new_tokens=3, do_sample=True, seed=2, num_return_sequences=2),
    ],
    "fill": [dict(model="filler", texts=["a [MASK] in a hat", "two [MASK] [MASK]"], top=3)],
    "classify": [
        dict(model="classifier", texts=["a man", "two dogs"], second_texts=["a hat", "a cat"]),
        dict(model="documents", texts="a man in a hat. two dogs."),
        dict(model="vision", images=[image(), image("JPEG")]),
    ],
    "tag": [dict(model="tagger", texts=["a man in a hat"])],
    "embed": [
        dict(model="embedder", texts=["a man", "two dogs"], pooling="mean", normalize=True),
        dict(model="vision", images=image("GIF"), pooling="cls"),
    ],
    "caption": [dict(model="captioner", images=[image(), image("TIFF")], num_beams=2, max_new_tokens=3)],
    "match": [dict(model="matcher", images=image(), examples={"a": [image("BMP")], "b": [image("JPEG")]})],
    "attention": [
        dict(model="translator", text="a man", target="a hat", weights=True, layers=[0], heads=[0, -1], queries=[-1]),
        dict(model="classifier", text="a man", second_text="a hat", weights=True),
        dict(model="vision", image=image(), weights=True, layers=["layers.0.*"]),
        dict(model="captioner", image=image("WEBP"), target="a man"),
    ],
    "look": [
        dict(model="translator", text="a man in a hat", hypothesis=1),
        dict(model="translator", text="a man", forced=[5, 6]),
        dict(model="language", text="the cat", more=3, forced=[7]),
        dict(model="filler", text="a [MASK]", second_text=None),
        dict(model="classifier", text="a man", second_text="a hat"),
        dict(model="documents", text="a man in a hat. two dogs."),
        dict(model="vision", image=image("PPM")),
        dict(model="captioner", image=image(), target="a man"),
        dict(model="matcher", image=image(), examples={"a": [image()], "b": [image("JPEG")], "c": [image("GIF")]}),
        dict(model="memory", text="copy:5"),
        dict(model="tagger"),
        dict(model="mixing", text="the cat sat"),
        dict(model="window", text="the cat sat on the mat", more=2),
        dict(model="recurrent", text="the cat sat"),
    ],
}
# What is asked of a session: fields beside its name. `{...}` stands for the name of one of its attentions.
ATTENTION = "{attention}"
QUESTIONS: Mapping[str, Sequence[Body]] = {
    "weights": [dict(attention=ATTENTION), dict(attention=ATTENTION, head=0)],
    "tile": [dict(attention=ATTENTION, head=0, level=0, row=0, column=0, apart=True)],
    "row": [dict(attention=ATTENTION, head=0, query=1, count=3)],
    "overview": [dict(attention=ATTENTION)],
    "margins": [dict(attention=ATTENTION, head=0)],
    "steps": [dict(attention=ATTENTION, query=1, head=0, row=0)],
    "addressing": [dict(attention=ATTENTION, query=1, head=0)],
    "next": [dict(place=0), dict(place=2)],
    "beam": [dict(num_beams=2, max_new_tokens=3, length_penalty=1.0)],
    "alignment": [dict(attention=ATTENTION, tokens=[5, 6], head=0)],
    "whatif": [dict(off={ATTENTION: [0]}, instead="mean"), dict(off={ATTENTION: [0]}, instead="zero")],
    "importance": [
        dict(attention=ATTENTION, instead="zero"),
        dict(attention=ATTENTION, lines=["a man in a hat", "two dogs\ta cat"], instead="mean"),
    ],
    "through": [dict(kind=kind, how=how) for kind in ("encoder", "decoder") for how in ("rollout", "flow", "gradient")],
    "lens": [{}],
    "positions": [{}],
    "mix": [{}],
    "document": [{}],
    "picture": [{}],
    "export": [
        dict(format=form, attention=ATTENTION, head=0, unit="subwords", scale="linear", triangle=True)
        for form in ("svg", "npz")
    ]
    + [dict(format="html"), dict(format="json", kind="encoder", how="all")],
}
ENDPOINTS = (*VERBS, *(f"look/{name}" for name in QUESTIONS))


def spoilt_request(draw: Random, path: str, body: Body, others: Sequence[Body]) -> Request:
    """An example after one of the ways to spoil it."""
    if draw.random() < 0.1:
        body = body | draw.choice(others)  # fields that belong elsewhere
    body = json.loads(json.dumps(body))  # of its own, to be changed
    images = places_of_images(body)
    if "text" in body and draw.random() < 0.1:
        body["text"] = draw.choice([*EPISODES, *TEXTS])
    way = draw.random()
    if images and way < 0.35:
        holder, key = draw.choice(images)
        holder[key] = spoilt_image(draw, holder[key])
        return form_of(draw, path, body) if draw.random() < 0.3 else json_request(path, dumped(body))
    if way < 0.6:
        return json_request(path, draw.choice(JSON)(draw, dumped(body)))
    if way < 0.75:
        return json_request(path, draw.choice(BYTES)(draw, dumped(body)))
    if way < 0.92:
        return form_of(draw, path, body)
    return Request(path, draw.choice(TYPES), draw.choice([dumped(body), form_of(draw, path, body).content]))


def dumped(body: Body) -> bytes:
    return json.dumps(body).encode()


def json_request(path: str, content: bytes) -> Request:
    return Request(path, JSON_TYPE, content)


def places_of_images(tree: Any) -> list[tuple[Any, Any]]:
    """Where images lie in a body: what holds them, and under which key."""
    found = []
    for key, each in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if isinstance(each, dict | list):
            found += places_of_images(each)
        elif isinstance(each, str) and len(each) > 60 and " " not in each:
            found.append((tree, key))
    return found


def spoilt_image(draw: Random, encoded: str) -> str:
    """Other bytes, another format, or another text in place of the base64."""
    way = draw.randrange(8)
    if way == 0:
        return str(
            draw.choice(["", "data:image/png;base64," + encoded, "data:,", encoded[:-1], encoded + "=", *TEXTS[:12]])
        )
    if way == 1:
        return image(draw.choice(IMAGE_FORMATS), (draw.choice([1, 3, 500]), draw.choice([1, 3, 500])))
    content = base64.b64decode(encoded)
    return base64.b64encode(spoilt(draw, "x.png", content)).decode("ascii")


def form_of(draw: Random, path: str, body: Body) -> Request:
    """The same as a form, of which a name, a head, a value or the whole may be spoilt."""
    parts = []
    for name, each in body.items():
        for one in each if isinstance(each, list) else [each]:
            content = one.encode("utf-8", "surrogatepass") if isinstance(one, str) else json.dumps(one).encode()
            is_file = name in ("image", "images") and isinstance(one, str)
            if is_file and draw.random() < 0.9:
                content = decoded(one)
            file = f'; filename="{draw.choice(["x.png", *NAMES])}"' if is_file else ""
            parts.append(part(name, content, file))
    if not parts or draw.random() < 0.2:
        parts.append(part(draw.choice([*body, *NAMES, "texts"]), json.dumps(value(draw)).encode()[:5000], ""))
    if draw.random() < 0.2:
        parts *= draw.choice([2, 17, 70])
    content = b"".join(parts) + b"--" + BOUNDARY + b"--\r\n"
    if draw.random() < 0.4:
        content = draw.choice(BYTES)(draw, content)
    return Request(path, FORM_TYPE, content)


def part(name: str, content: bytes, more: str) -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"{more}'.encode("utf-8", "surrogatepass")
    return b"--" + BOUNDARY + b"\r\n" + head + b"\r\n\r\n" + content + b"\r\n"


def decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded)
    except ValueError:
        return encoded.encode("utf-8", "surrogatepass")


def filled(body: Body, attention: str) -> Body:
    """A question about an attention of this name."""
    return json.loads(json.dumps(body).replace(json.dumps(ATTENTION), json.dumps(attention)))


Ask = Callable[[Request], tuple[int, dict[bytes, bytes], bytes]]


def examples_of(endpoint: str, ask: Ask) -> list[Body]:
    """Good requests of an endpoint; for a question, those of the sessions that know an answer to it."""
    if endpoint in VERBS:
        return list(VERBS[endpoint])
    found: list[Body] = []
    for example in VERBS["look"]:
        status, _, content = ask(json_request("/v1/look", dumped(example)))
        if status != 200:
            raise ValueError(f"the example {example} is refused: {content[:300]!r}")
        known = json.loads(content)
        names = [each["name"] for each in (*known["attentions"], *known["stories"])]
        for question in QUESTIONS[endpoint.removeprefix("look/")]:
            body = {"session": known["session"], **filled(question, names[-1] if names else "none")}
            if ask(json_request(f"/v1/{endpoint}", dumped(body)))[0] == 200:
                found.append(body)
    return found
