"""The attention page: the numbers are the numbers, text stays text, nothing is fetched, and it runs in a browser."""

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browser import Reader, assert_drawn, chromium, root_of
from regard.errors import RegardError, UsageError
from regard.views import AttentionMap, Example, attention_page, merge_words
from regard.views import page as page_module

HOSTILE = "</script><b onload=alert(1)>&amp; {{data}} {{script}} \u2028 <!--"
CSP = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def attention(
    kind: str, layer: int, queries: list[str], keys: list[str], words: tuple[list[int], list[int]], heads: int = 4
) -> AttentionMap:
    rng = np.random.default_rng([layer, len(queries), len(kind)])
    scores = rng.normal(0, 2, (heads, len(queries), len(keys)))
    causal = kind == "decoder"
    if causal:
        scores = np.where(np.triu(np.ones(scores.shape[1:]), 1) > 0, -np.inf, scores)
    weights = np.exp(scores)
    weights /= weights.sum(-1, keepdims=True)
    return AttentionMap(
        name=f"{kind}, layer {layer}",
        kind=kind,
        layer=layer,
        weights=weights,
        queries=tuple(queries),
        keys=tuple(keys),
        query_words=tuple(words[0]),
        key_words=tuple(words[1]),
        causal=causal,
    )


def translation(layers: int = 2, heads: int = 4, **changes: Any) -> Example:
    source, source_words = ["▁the", "▁white", "▁ho", "use", "</s>"], [0, 1, 2, 2, 3]
    target, target_words = ["▁la", "▁cas", "a", "▁blanca", "</s>"], [0, 1, 1, 2, 3]
    maps = []
    for layer in range(1, layers + 1):
        maps.append(attention("encoder", layer, source, source, (source_words, source_words), heads))
        maps.append(attention("decoder", layer, target, target, (target_words, target_words), heads))
        maps.append(attention("cross", layer, target, source, (target_words, source_words), heads))
    fields: dict[str, Any] = {
        "source": "the white house",
        "target": "la casa blanca",
        "reference": "la casa blanca",
        "maps": tuple(maps),
        "score": -0.4,
        "gold": ((0, 0), (1, 2), (2, 1)),
    }
    return Example(**(fields | changes))


def long_example(count: int = 200) -> Example:
    tokens, words = [f"▁w{i}" for i in range(count)], list(range(count))
    maps = tuple(attention("encoder", layer, tokens, tokens, (words, words), 2) for layer in (1, 2))
    return Example("long", "long", None, maps)


def read(path: Path) -> Reader:
    return Reader(path.read_text(encoding="utf-8"))


def test_the_page_holds_the_weights(tmp_path: Path) -> None:
    example = translation()
    payload = json.loads(read(attention_page("Demo", [example], tmp_path / "page.html")).data)
    (shown,) = payload["examples"]
    assert (shown["source"], shown["target"], shown["score"]) == ("the white house", "la casa blanca", -0.4)
    found = 0
    for attention_map in example.maps:
        kind = shown["kinds"][attention_map.kind]
        (entry,) = [entry for entry in kind["layers"] if entry["layer"] == attention_map.layer]
        block = np.frombuffer(base64.b64decode(entry["weights"]), dtype="<f2").reshape(entry["shape"])
        np.testing.assert_allclose(block, attention_map.weights, rtol=2**-11, atol=2**-24)
        merged = merge_words(attention_map)
        assert kind["queries"]["words"] == list(merged.queries)
        assert kind["keys"]["numbers"] == list(merged.key_words)
        found += 1
    assert found == 6
    assert shown["kinds"]["decoder"]["visible"] == [1, 2, 3, 4, 5]
    assert shown["kinds"]["cross"]["visible"] is None


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    tokens, words = [HOSTILE, "'\"><img src=x>"], ([0, 1], [0, 1])
    example = Example(HOSTILE, HOSTILE, HOSTILE, (attention("cross", 1, tokens, tokens, words),))
    plain = read(attention_page("Demo", [translation()], tmp_path / "plain.html"))
    hostile = read(attention_page(HOSTILE, [example], tmp_path / "hostile.html"))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert hostile.title == HOSTILE
    (shown,) = json.loads(hostile.data)["examples"]
    assert shown["source"] == shown["target"] == shown["reference"] == HOSTILE


def test_nothing_is_fetched(tmp_path: Path) -> None:
    path = attention_page("Demo", [translation()], tmp_path / "page.html")
    text, reader = path.read_text(encoding="utf-8"), read(path)
    assert "http://" not in text
    assert "https://" not in text
    policies = [found["content"] for tag, found in reader.tags if found.get("http-equiv")]
    assert policies == [CSP]
    addresses = [found[name] for _, found in reader.tags for name in ("src", "href") if name in found]
    assert all(address and address.startswith(("data:", "#")) for address in addresses)
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|import\(|\beval\(|innerHTML", text)


def test_every_script_of_the_folder_is_in_the_page() -> None:
    folder = Path(page_module.__file__).parent / "page"
    assert {file.name for file in folder.iterdir()} == {"page.html", "page.css", *page_module.SCRIPTS}


def test_a_page_is_replaced_only_by_a_whole_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("the old page")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("regard.files.os.replace", fail)
    with pytest.raises(RegardError, match="disk full"):
        attention_page("Demo", [translation()], path)
    assert path.read_text() == "the old page"
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_examples_are_the_same_page(tmp_path: Path) -> None:
    first = attention_page("Demo", [translation()], tmp_path / "new" / "a.html")
    second = attention_page("Demo", [translation()], tmp_path / "b.html")
    assert first.read_bytes() == second.read_bytes()


def test_examples_that_cannot_be_shown_are_refused_with_the_reason(tmp_path: Path) -> None:
    maps = translation().maps
    with pytest.raises(RegardError, match="no attention maps"):
        translation(maps=())
    with pytest.raises(RegardError, match="two encoder maps of layer 1"):
        translation(maps=(maps[0], maps[0]))
    with pytest.raises(RegardError, match="different tokens"):
        translation(maps=(maps[0], long_example().maps[1]))
    with pytest.raises(RegardError, match=r"gold link \(7, 0\)"):
        translation(gold=((7, 0),))
    with pytest.raises(UsageError, match="at least one example"):
        attention_page("Demo", [], tmp_path / "page.html")


# ---- in a browser ----


def play(path: Path, script: str, name: str = "played.html") -> Path:
    """The same page with a reader's actions at its end."""
    played = path.with_name(name)
    text = path.read_text(encoding="utf-8")
    played.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    return played


PRESS = "const press = (key) => document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));"
READ = "document.documentElement.dataset.seen = JSON.stringify(seen);"


def seen(document: str) -> Any:
    return json.loads(root_of(document)["data-seen"] or "null")


@pytest.mark.browser
@pytest.mark.parametrize("view", ["matrix", "lines", "table"])
def test_a_small_example_is_drawn(tmp_path: Path, view: str) -> None:
    path = attention_page("Demo", [translation(), translation(gold=None)], tmp_path / "page.html")
    document, console = chromium(tmp_path, f"{path.as_uri()}#view={view}&kind=decoder&head=2&theme=dark")
    assert_drawn(document, console)
    assert root_of(document)["data-theme"] == "dark"
    assert "Decoder self-attention, layer 2, head 2" in document
    # Two layers of four heads and their mean.
    assert document.count('class="thumbnail"') == 10


@pytest.mark.browser
def test_two_hundred_tokens_are_drawn_with_few_nodes(tmp_path: Path) -> None:
    path = attention_page("Long", [long_example()], tmp_path / "page.html")
    for view in ("matrix", "lines", "table"):
        document, console = chromium(tmp_path, f"{path.as_uri()}#view={view}&query=150&key=150")
        assert_drawn(document, console)
        assert len(Reader(document).tags) < 3000


@pytest.mark.browser
def test_hostile_text_is_shown_as_it_is(tmp_path: Path) -> None:
    tokens, words = [HOSTILE, "'\"><img src=x>"], ([0, 1], [0, 1])
    example = Example(HOSTILE, HOSTILE, HOSTILE, (attention("cross", 1, tokens, tokens, words),))
    document, console = chromium(tmp_path, attention_page(HOSTILE, [example], tmp_path / "page.html").as_uri())
    assert_drawn(document, console)
    assert html.escape("</script><b onload=alert(1)>&amp;", quote=False) in document
    assert not [tag for tag, _ in Reader(document).tags if tag == "img"]


@pytest.mark.browser
def test_the_read_out_says_the_raw_weight_and_its_rank(tmp_path: Path) -> None:
    example = translation()
    path = attention_page("Demo", [example], tmp_path / "page.html")
    cross = [found for found in example.maps if found.kind == "cross"]
    words = merge_words(cross[0])
    row, column, head = 1, 2, 3
    weight = words.weights[head, row]
    rank = 1 + int((weight > weight[column]).sum())
    said = f"{weight[column]:.2f}" if weight[column] >= 0.0995 else f"{weight[column]:.3f}"
    address = f"{path.as_uri()}#layer=1&head={head + 1}&unit=words&query={row + 1}&key={column + 1}"
    document, console = chromium(tmp_path, address)
    assert_drawn(document, console)
    assert f"casa → house {said}, rank {rank} of 4" in document


@pytest.mark.browser
def test_the_keyboard_reaches_everything(tmp_path: Path) -> None:
    path = attention_page("Demo", [translation()], tmp_path / "page.html")
    script = (
        PRESS
        + """
    const seen = [];
    const note = () => seen.push([document.getElementById("map-name").textContent,
                                  document.getElementById("readout").textContent.split(" 0")[0], location.hash]);
    for (const keys of [["ArrowDown"], ["ArrowDown", "ArrowRight"], ["w"], ["]"], ["]"], [","], [","], ["["],
                        ["v"], ["Escape"], ["?"]]) {
      keys.forEach(press);
      note();
    }
    seen.push(document.getElementById("help").open);
    """
        + READ
    )
    document, console = chromium(tmp_path, play(path, script).as_uri())
    assert_drawn(document, console)
    *steps, help_open = seen(document)
    names = [name.removeprefix("Cross-attention, ") for name, _, _ in steps]
    said = [text for _, text, _ in steps]
    assert said[:3] == ["la → the", "casa → white", "cas → white"]
    assert names[2:8] == [
        "layer 2, mean of heads",
        "mean of layers and heads",
        "layer 2, head 1",
        "layer 1, head 1",
        "layer 1, head 1",
        "mean of layers and heads",
    ]
    assert "view=lines" in steps[8][2]
    assert "query=2" in steps[8][2]
    assert "query" not in steps[9][2]
    assert help_open is True


@pytest.mark.browser
def test_pointing_shows_clicking_keeps_and_escape_lets_go(tmp_path: Path) -> None:
    path = attention_page("Demo", [translation()], tmp_path / "page.html")
    script = (
        PRESS
        + """
    const cells = document.querySelector(".cells");
    const at = (type, x, y) => {
      const box = cells.getBoundingClientRect();
      const size = box.width / 4;
      const place = {clientX: box.left + (x + 0.5) * size, clientY: box.top + (y + 0.5) * size, bubbles: true};
      cells.dispatchEvent(new PointerEvent(type, place));
    };
    const seen = [];
    const note = () => seen.push(document.getElementById("readout").textContent.split(" 0")[0]);
    at("pointermove", 2, 1); note();
    at("pointermove", 0, 0); note();
    at("click", 0, 0); at("pointermove", 2, 1); note();
    press("Escape"); at("pointermove", 2, 1); note();
    """
        + READ
    )
    document, console = chromium(tmp_path, play(path, script).as_uri())
    assert_drawn(document, console)
    assert seen(document) == ["casa → house", "la → the", "la → the", "casa → house"]


@pytest.mark.browser
def test_the_cells_have_the_colours_of_their_weights_and_masked_cells_none(tmp_path: Path) -> None:
    weights = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    steps = AttentionMap("steps", "decoder", 1, weights, ("a", "b"), ("a", "b"), (0, 1), (0, 1), True)
    path = attention_page("Demo", [Example("a b", "a b", None, (steps,))], tmp_path / "page.html")
    script = (
        """
    const canvas = document.querySelector(".cells canvas");
    const size = canvas.width / 2;
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const colours = (x, y) => {
      const found = new Set();
      for (let i = y * size + 4; i < (y + 1) * size - 4; i++) {
        for (let j = x * size + 4; j < (x + 1) * size - 4; j++) {
          const at = 4 * (i * canvas.width + j);
          found.add(data.slice(at, at + 3).join());
        }
      }
      return [...found];
    };
    const seen = [[0, 0], [0, 1], [1, 1], [1, 0]].map(([x, y]) => colours(x, y));
    """
        + READ
    )
    document, console = chromium(tmp_path, play(path, script).as_uri() + "#theme=light&scale=linear")
    assert_drawn(document, console)
    one, half, same, masked = seen(document)
    assert len(one) == len(half) == 1
    assert half == same
    assert sum(map(int, one[0].split(","))) < sum(map(int, half[0].split(",")))
    assert len(masked) > 1  # strokes, not one colour


@pytest.mark.browser
def test_the_page_fits_a_phone(tmp_path: Path) -> None:
    path = attention_page("Demo", [translation()], tmp_path / "page.html")
    # Headless windows are at least 500 wide; a frame is not.
    script = "document.documentElement.dataset.overflow = document.documentElement.scrollWidth - innerWidth;"
    played = play(path, script + "parent.postMessage(document.documentElement.dataset.overflow, '*');")
    frame = tmp_path / "frame.html"
    frame.write_text(
        "<html><body><script>addEventListener('message', (event) => {"
        "document.documentElement.dataset.seen = event.data; });</script>"
        f"<iframe src='{played.name}' width=390 height=800></iframe></body></html>"
    )
    document, _ = chromium(tmp_path, frame.as_uri())
    assert seen(document) <= 0


@pytest.mark.browser
def test_a_screenshot_is_not_empty(tmp_path: Path) -> None:
    path = attention_page("Demo", [translation()], tmp_path / "page.html")
    picture = tmp_path / "page.png"
    chromium(tmp_path, path.as_uri(), f"--screenshot={picture}", "--window-size=1280,900")
    with Image.open(picture) as image:
        assert image.size[0] == 1280
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 50
