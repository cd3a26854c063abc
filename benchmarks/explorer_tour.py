"""A walk through the explorer in a real browser: every view of trained runs is driven, photographed and checked.

    python benchmarks/explorer_tour.py --runs DIR [DIR ...] --out DIR [--public FOLDER] [--views NAME ...] [--long]

Each DIR is a run or holds runs; of every family the first that is found is served, by `regard serve` as a process of
its own, together with the public checkpoint in FOLDER. In the light theme a view is worked with as a reader would: a
text is typed, a head picked, a cell pinned, steps are gone through, a head is switched off, files are taken away. The
address that this leaves is then opened in the dark theme and on a phone, where the same must be seen. OUT/tour.json
says what was done; a fault, a word of the browser's console, or a request to anybody else gives exit code 1.

--long adds a GPT-2 of the paper's small size with random weights and a text of 4,000 tokens: how long the page takes to
answer, and how much memory the server needs above the model.
"""

import argparse
import io
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from regard.explorer.meters import resident_bytes
from regard.training.run import CONFIG, Run
from result_files import write_result

ADDRESS_AFTER = 500  # milliseconds after a change, when the page has written it into the address
PATIENCE = 60.0  # seconds
DESKTOP, PHONE = (1280, 900), (390, 800)
SENTENCES = {
    "Translator": "a man is walking with a small dog .",
    "LanguageModel": "The king said that",
    "MaskFiller": "The city is on the [MASK] of the river.",
}
EPISODE = 6
DOCUMENT = "The film begins well. Then nothing happens for an hour, and it is dull. A wonderful cast cannot save it."
LONG = 4000  # tokens
MEGABYTE = 1 << 20
SLOWEST, MOST = 200.0, 953.0  # milliseconds and MiB that a long text may take; the latter is 1 GB


class Fault(Exception):
    """Something that should be seen was not."""


# What a reader has before them


@dataclass
class Visitor:
    """Pages of one server in one browser, and everything they complain about."""

    browser: Any
    address: str
    console: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    pages: list[Any] = field(default_factory=list)

    def open(self, state: dict[str, Any], size: tuple[int, int] = DESKTOP) -> Any:
        return self.go(f"{self.address}#{urlencode(state)}", size)

    def go(self, address: str, size: tuple[int, int] = DESKTOP) -> Any:
        page = self.browser.new_page(viewport={"width": size[0], "height": size[1]})
        self.pages.append(page)
        page.set_default_timeout(1000 * PATIENCE)
        page.on("console", lambda message: self.console.append(message.text))
        page.on("pageerror", lambda error: self.console.append(str(error)))
        page.on("request", lambda asked: self.own(asked.url) or self.elsewhere.append(asked.url))
        page.goto(address)
        page.wait_for_selector("html[data-ready=true]")
        no_trouble(page)
        return page

    def leave(self) -> None:
        for page in self.pages:
            page.close()

    def own(self, url: str) -> bool:
        return url.startswith((self.address, "data:", "blob:"))

    def ask(self, page: Any, path: str, body: dict[str, Any] | None = None) -> Any:
        """The server itself, beside the page."""
        url = f"{self.address}v1/{path}"
        reply = page.request.get(url) if body is None else page.request.post(url, data=body)
        if not reply.ok:
            raise Fault(f"/v1/{path}: {reply.text()}")
        return reply.json()


def soon(condition: Callable[[], Any], what: str) -> None:
    """The page's policy forbids to evaluate texts inside it, so waiting is done out here."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise Fault(f"waited {PATIENCE:g} s for {what}")
        time.sleep(0.02)


def idle(page: Any) -> None:
    soon(lambda: page.evaluate("document.body.getAttribute('aria-busy') === 'false'"), "the answer")
    no_trouble(page)


def no_trouble(page: Any) -> None:
    told = page.inner_text("#trouble") if page.locator("#trouble").is_visible() else ""
    errors = page.evaluate("document.documentElement.dataset.errors ?? ''")
    if told or errors:
        raise Fault(told or errors)


def has(page: Any, selector: str) -> None:
    soon(lambda: page.locator(selector).count(), selector)


def says(page: Any, selector: str, part: str) -> None:
    soon(lambda: part in page.inner_text(selector), f"{part!r} in {selector}")


def keeps(page: Any, part: str) -> None:
    """The address does."""
    soon(lambda: part in page.evaluate("location.hash"), f"{part} in the address")


def panel(page: Any, name: str) -> None:
    page.click(f"#panels [data-panel={name}]")


def take(page: Any, button: str) -> bytes:
    """What comes of a button of the export menu."""
    page.click("#export-menu summary")
    with page.expect_download() as coming:
        page.click(f"#export-items {button}")
    no_trouble(page)
    return Path(coming.value.path()).read_bytes()


# The views, each with those it is for and what is done in it


@dataclass(frozen=True)
class Model:
    """A served run, with what the server told of it and of its own example."""

    card: dict[str, Any]
    told: dict[str, Any]
    text: str | None  # to be typed

    @property
    def name(self) -> str:
        return self.card["name"]

    @property
    def side(self) -> dict[str, Any] | None:
        """Of the attention that is shown first."""
        kinds = [each["kind"] for each in self.told["attentions"]]
        return self.told["sides"]["cross" if "cross" in kinds else kinds[0]] if kinds else None

    def can(self, view: str) -> bool:
        return view in self.told["views"]


@dataclass(frozen=True)
class View:
    about: str
    fits: Callable[[Model], bool]
    state: dict[str, Any]  # how it is opened
    drive: Callable[[Visitor, Any, Model], None]
    sign: str  # what whoever opens the link must find


def say(visitor: Visitor, page: Any, model: Model) -> None:
    """Type a text, if the model reads one, and see what the server says without the page."""
    if model.text is None:
        return
    page.fill("#text", model.text)
    page.press("#text", "Enter")
    idle(page)
    if model.card["kind"] == "Translator":
        reply = visitor.ask(page, "translate", {"model": model.name, "texts": model.text})
        if page.inner_text("#answer").strip() != reply["results"][0]["text"].strip():
            raise Fault(f"the page says {page.inner_text('#answer')!r}, the server {reply['results'][0]['text']!r}")


def alignment(visitor: Visitor, page: Any, model: Model) -> None:
    say(visitor, page, model)
    if has_heads(model):
        page.select_option("#head", index=1)
        says(page, "#map-name", "head 2")
    pin(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    keeps(page, "key=")


def pin(page: Any) -> None:
    """Point at the first cell, read it, and keep it."""
    page.locator(".cells").scroll_into_view_if_needed()
    box = page.locator(".cells").bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    soon(lambda: "→" in page.inner_text("#readout"), "the weight of a cell")
    page.mouse.click(box["x"] + 4, box["y"] + 4)
    page.mouse.move(0, 0)
    has(page, "#readout.locked")


def heads(visitor: Visitor, page: Any, model: Model) -> None:
    page.locator(".line-labels.right [data-index]").first.click()
    has(page, "#readout.locked")
    page.keyboard.press("]")
    keeps(page, "head=")


def grid(visitor: Visitor, page: Any, model: Model) -> None:
    page.locator("#overview button[data-head='0']").first.click()
    says(page, "#map-name", "head 1")
    page.select_option("#grid", "entropy")
    has(page, "#overview .number-cell")


def steps(visitor: Visitor, page: Any, model: Model) -> None:
    """Every stage of one query, to the word that it matches the model."""
    has(page, ".stage-list button")
    count = page.locator(".stage-list button").count()
    for step in range(1, count + 1):
        says(page, "#panel", f"Step {step} of {count}")
        if "✓ matches the model" not in page.inner_text("#panel .verdict >> nth=0"):
            raise Fault(page.inner_text("#panel .verdict >> nth=0"))
        if step < count:
            page.keyboard.press("n")


def following(visitor: Visitor, page: Any, model: Model) -> None:
    """What could come next, at other temperatures, and another token forced."""
    has(page, ".next li")
    before = page.inner_text(".next")
    page.locator("#temperature").fill("0.3")
    if page.inner_text(".next") == before:
        raise Fault("another temperature changed nothing")
    page.locator(".next button.token").nth(1).click()
    idle(page)
    keeps(page, "forced=")
    has(page, ".next li")


def beam(visitor: Visitor, page: Any, model: Model) -> None:
    has(page, ".tree .node")
    page.locator(".tree .node.best").first.click()
    has(page, ".looked-at .shaded span" if has_maps(model) else ".looked-at p")


def document(visitor: Visitor, page: Any, model: Model) -> None:
    say(visitor, page, model)
    has(page, ".sentence span")
    page.locator(".sentence-bar").last.click()
    keeps(page, "sentence=")
    steps(visitor, page, model)


def reading(visitor: Visitor, page: Any, model: Model) -> None:
    has(page, "img.served")


def picture(visitor: Visitor, page: Any, model: Model) -> None:
    """Another picture, and what its first word or patch looks at."""
    with page.expect_response("**/v1/look"):
        page.set_input_files("#image", files=[shown("drawn.png", 3)])
    idle(page)
    has(page, ".image-drawing canvas")
    page.locator("#drawing .chip").first.click()
    keeps(page, "query=")


def shown(name: str, seed: int) -> dict[str, Any]:
    """A file for the page: blots of colour."""
    from PIL import Image, ImageDraw

    draw, image, file = np.random.default_rng(seed), Image.new("RGB", (96, 96), "white"), io.BytesIO()
    for x, y, *colour in draw.integers(0, (80, 80, 256, 256, 256), (12, 5)).tolist():
        ImageDraw.Draw(image).ellipse((x, y, x + 24, y + 24), fill=tuple(colour))
    image.save(file, "PNG")
    return {"name": name, "mimeType": "image/png", "buffer": file.getvalue()}


def memory(visitor: Visitor, page: Any, model: Model) -> None:
    say(visitor, page, model)
    page.select_option("#story-query", index=5)
    page.select_option("#story-head", index=1)
    has(page, "#addressed")
    says(page, "#addressed", "✓ matches the model")
    page.locator("#gate").fill("0")
    says(page, "#addressed", "Most at cell")
    for part in ("time=5", "reader=1", "gate=0"):
        keeps(page, part)


def match(visitor: Visitor, page: Any, model: Model) -> None:
    """Examples of one's own, and back to the letters."""
    page.click("#examples-field summary")
    for label in (0, 1):
        page.fill(f"#label-{label}", f"blot {label + 1}")
        page.set_input_files(f"#examples-{label}", files=[shown(f"{label}.png", label)])
        says(page, f".example-line:has(#label-{label})", "1 given")
    page.click("#run")
    idle(page)
    soon(lambda: page.inner_text("#answer").startswith("blot "), "one of the labels that were given")
    page.click("#letters")
    idle(page)
    soon(lambda: page.inner_text("#answer").startswith("letter "), "the letters again")


def positions(visitor: Visitor, page: Any, model: Model) -> None:
    soon(lambda: page.locator("canvas.signed").count() == 2, "two pictures")


def mix(visitor: Visitor, page: Any, model: Model) -> None:
    says(page, "#panel", "How much each layer is worth")


def what_if(visitor: Visitor, page: Any, model: Model) -> None:
    """Heads off, one read by zeros and one by its mean; and the outcome before and after."""
    has(page, ".switch")
    page.locator(".switch").first.click()
    says(page, "#panel", "Without 1 head")
    has(page, "#panel .result .compared, #panel .result .next, #change")
    page.select_option("#instead", "mean")
    page.locator(".switch").nth(1).click()
    says(page, "#panel", "Without 2 heads")
    has(page, "#panel .result .compared, #panel .result .next, #change")


def worth(visitor: Visitor, page: Any, model: Model) -> None:
    page.get_by_text("To this example").click()
    soon(lambda: page.locator("#worth").count() and not page.locator("progress").count(), "what heads are worth")


def through(visitor: Visitor, page: Any, model: Model) -> None:
    has(page, ".thumbnail.large[data-how=rollout]")
    page.locator(".thumbnail.large[data-how=rollout]").click()
    says(page, "#map-name", "rollout")


def lens(visitor: Visitor, page: Any, model: Model) -> None:
    has(page, ".lens td")


def exports(visitor: Visitor, page: Any, model: Model) -> None:
    """Every file of the menu is what its name says."""
    begins = {"svg": b"<?xml", "png": b"\x89PNG", "html": b"<!doctype html", "json": b"{", "npz": b"PK"}
    for format, start in begins.items():
        taken = take(page, f"[data-format={format}]")
        if not taken.lower().startswith(start.lower()):
            raise Fault(f"what was taken away as {format} begins with {taken[:20]!r}")
    if not page.locator("#below").is_visible():
        return
    if not take(page, "[data-panel=svg]").startswith(b"<svg") or take(page, "[data-panel=png]")[:4] != b"\x89PNG":
        raise Fault("the panel could not be taken away")


def has_maps(model: Model) -> bool:
    return bool(model.told["attentions"])


def has_heads(model: Model) -> bool:
    return any(each["heads"] > 1 for each in model.told["attentions"])


def is_drawn(model: Model) -> bool:
    """Whether something can be taken away."""
    return has_maps(model) or model.told["stage"] is not None


VIEWS: dict[str, View] = {
    "alignment": View(
        "source × target",
        lambda model: model.card["kind"] == "Translator" and has_maps(model),
        {"kind": "cross"},
        alignment,
        ".cells canvas",
    ),
    "heads": View(
        "lines", lambda m: has_maps(m) and not (m.side or {}).get("grid"), {"view": "lines"}, heads, ".lines canvas"
    ),
    "model": View("every layer and head", has_heads, {}, grid, "#overview .number-cell"),
    "steps": View("step by step", lambda m: m.can("steps") and has_maps(m), {"panel": "steps"}, steps, ".stage-list"),
    "next": View("what could come next", lambda m: m.can("next"), {"panel": "next"}, following, ".next li"),
    "beam": View("the tree of a search", lambda m: m.can("beam"), {"panel": "beam"}, beam, ".tree .node"),
    "document": View("sentences and words", lambda m: m.told["stage"] == "document", {}, document, ".sentence span"),
    "reading": View(
        "word by word", lambda m: bool((m.side or {}).get("visible")), {"view": "reading"}, reading, "img.served"
    ),
    "picture": View("regions", lambda m: bool((m.side or {}).get("grid")), {}, picture, ".image-drawing canvas"),
    "memory": View("a memory", lambda m: m.told["stage"] == "memory" and m.can("steps"), {}, memory, "#addressed"),
    "match": View("a few examples", lambda m: m.told["stage"] == "match", {}, match, "img.served"),
    "positions": View("positions", lambda m: m.can("positions"), {"panel": "positions"}, positions, "canvas.signed"),
    "mix": View("ELMo's mix", lambda m: m.can("mix"), {"panel": "mix"}, mix, "#panel .bars li"),
    "whatif": View("heads off", lambda m: m.can("whatif"), {"panel": "whatif"}, what_if, "#panel .result"),
    "importance": View("heads' worth", lambda m: m.can("importance"), {"panel": "whatif"}, worth, ".switch"),
    "through": View("all layers", lambda m: m.can("rollout"), {"panel": "through"}, through, ".thumbnail.large"),
    "lens": View("layer by layer", lambda m: m.can("lens"), {"panel": "lens"}, lens, ".lens td"),
    "export": View("to take away", is_drawn, {}, exports, "#export-menu"),
}


@dataclass
class Stop:
    """What came of one view of one model."""

    view: str
    model: str
    family: str | None
    fault: str | None = None
    console: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        return not (self.fault or self.console or self.elsewhere)


def stop_at(name: str, model: Model, browser: Any, address: str, out: Path) -> Stop:
    """Drive a view in the light theme; then see it again, by its address, in the dark one and on a phone."""
    view, visitor, begun = VIEWS[name], Visitor(browser, address), time.monotonic()
    stop = Stop(name, model.name, model.card["family"], console=visitor.console, elsewhere=visitor.elsewhere)

    def photograph(page: Any, how: str) -> None:
        file = f"{model.name.replace('/', '-')}-{name}-{how}.png"
        page.screenshot(path=out / file, full_page=True)
        stop.pictures.append(file)

    try:
        page = visitor.open({"model": model.name, "theme": "light", **view.state})
        view.drive(visitor, page, model)
        no_trouble(page)
        photograph(page, "light")
        page.wait_for_timeout(ADDRESS_AFTER)
        left = page.evaluate("location.href").replace("theme=light", "theme=dark")
        for how, size in (("dark", DESKTOP), ("phone", PHONE)):
            page = visitor.go(left, size)
            has(page, view.sign)
            if page.evaluate("document.documentElement.dataset.theme") != "dark":
                raise Fault("the address did not bring back the theme")
            if page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
                raise Fault(f"the page is wider than {size[0]} pixels")
            photograph(page, how)
    except Exception as fault:  # also those of the browser: the tour goes on, and tells at its end
        stop.fault = " ".join(str(fault).split())[:500] or type(fault).__name__
    visitor.leave()
    stop.seconds = round(time.monotonic() - begun, 1)
    return stop


# The server


def found_runs(folders: list[Path]) -> list[Path]:
    """Of every family the first run."""
    runs: dict[str, Path] = {}
    for folder in folders:
        for config in sorted([*folder.glob(CONFIG), *folder.glob(f"*/{CONFIG}"), *folder.glob(f"*/*/{CONFIG}")]):
            run = Run.open(config.parent)
            if run.pointed("best") is not None:
                runs.setdefault(str(run.config()["model"].get("preset", "")).partition(":")[0], config.parent)
    return list(runs.values())


@contextmanager
def served(runs: list[Path]) -> Iterator[tuple[str, int]]:
    """The address of a server, and its process."""
    command = [sys.executable, "-m", "regard", "serve", *map(str, runs), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            told = server.stdout.readline()
            if not told:
                raise SystemExit("the server did not start; it has said why")
            yield told.rpartition(" on ")[2].partition(";")[0] + "/", server.pid
        finally:
            server.terminate()


@contextmanager
def browsing() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


def models_of(browser: Any, address: str, texts: dict[str, str] | None = None) -> list[Model]:
    """Those that can be looked at; `texts`, by their names, are typed in the place of the usual ones."""
    visitor, page, models = Visitor(browser, address), browser.new_page(), []
    for card in visitor.ask(page, "models")["models"]:
        try:
            told = visitor.ask(page, "look", {"model": card["name"]})
        except Fault as fault:
            print(f"{card['name']} has no page: {fault}", file=sys.stderr)
            continue
        usual = SENTENCES.get(card["kind"])
        if told["stage"] == "document":
            usual = DOCUMENT
        elif told["stage"] == "memory":
            usual = f"{told['text'].partition(':')[0]}:{EPISODE}"
        models.append(Model(card, told, (texts or {}).get(card["name"], usual)))
    page.close()
    return models


# A long text


def long_run(folder: Path) -> str:
    """A GPT-2 of the small size with random weights, and a text of 4,000 tokens for it."""
    import torch

    from regard import families
    from regard.data.tokenizer import Tokenizer
    from regard.decoding.settings import Decoding
    from regard.models import gpt2
    from regard.tasks.language_verbs import LanguageModel

    torch.manual_seed(0)
    words = [f"word{number}" for number in range(50_000)]
    tokenizer = Tokenizer.train("word", [" ".join(words)], 50_257)
    config = gpt2.Config(vocabulary=len(tokenizer), pad=tokenizer.pad, **gpt2.PRESETS["small"] | {"context": LONG + 96})
    told = families.config_json("gpt2", config, "language-model")
    LanguageModel(gpt2.GPT2(config), tokenizer, Decoding(num_beams=1), told).save_pretrained(folder)
    return " ".join(np.random.default_rng(0).choice(words, LONG - 1).tolist())


class Memory:
    """The largest resident memory of a process while it is watched."""

    def __init__(self, process: int):
        self.process, self.most, self._over = str(process), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, resident_bytes(self.process) or 0)

    def end(self) -> int:
        self._over.set()
        self._thread.join()
        return self.most


def milliseconds(page: Any, act: str, seen: str) -> float:
    """From an act until what is seen has changed and was painted; a page that never answers gets all our patience."""
    script = f"""() => new Promise((done) => {{
        const before = {seen};
        const start = performance.now();
        const passed = () => performance.now() - start;
        const is_over = () => {seen} !== before || passed() > {1000 * PATIENCE};
        const look = () => (is_over() ? done(passed()) : requestAnimationFrame(look));
        {act};
        requestAnimationFrame(look);
    }})"""
    return float(page.evaluate(script))


def long_text(browser: Any, out: Path) -> dict[str, Any]:
    """Times of the page, and the server's memory, with 4,000 tokens in 12 layers of 12 heads."""
    with tempfile.TemporaryDirectory() as folder:
        text = long_run(Path(folder) / "long")
        with served([Path(folder) / "long"]) as (address, process):
            visitor = Visitor(browser, address)
            page = visitor.open({"model": "long", "text": "word1 word2", "theme": "light"})
            before = resident_bytes(str(process)) or 0
            watched = Memory(process)
            page.fill("#text", text)
            page.press("#text", "Enter")
            idle(page)
            page.locator(".far").scroll_into_view_if_needed()
            times = long_times(page)
            far = page.locator(".far").bounding_box()
            page.mouse.click(far["x"] + 9, far["y"] + 200)  # its steps: the text is read once more
            soon(lambda: "matches the model" in page.inner_text("#panel"), "the steps")
            page.screenshot(path=out / "long-light.png", full_page=True)
            for name, sign in (("next", ".next li"), ("whatif", ".switch")):
                panel(page, name)
                has(page, sign)
            page.locator(".switch").first.click()
            has(page, "#change")
            nodes = page.evaluate("document.querySelectorAll('*').length")
            visitor.leave()
            above = watched.end() - before
    return {
        "tokens": LONG,
        "milliseconds": times,
        "most_nodes": nodes,
        "memory_above_model_mb": round(above / MEGABYTE, 1),
        "console": visitor.console,
        "elsewhere": visitor.elsewhere,
    }


def long_times(page: Any) -> dict[str, list[float]]:
    """Another head by its key, other rows by the pointer, and by the arrows: each several times."""
    pressed = "document.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{}', bubbles: true }}))"
    name, readout = (f"document.getElementById('{each}').textContent" for each in ("map-name", "readout"))
    box = page.locator(".far").bounding_box()
    heads_ = [milliseconds(page, pressed.format("]"), name) for _ in range(5)]
    pointed = []
    for row in range(5):
        move = f"{{ clientX: {box['x'] + 9}, clientY: {box['y'] + 100 + 50 * row}, bubbles: true }}"
        act = f"document.querySelector('.far').dispatchEvent(new PointerEvent('pointermove', {move}))"
        pointed.append(milliseconds(page, act, readout))
    walked = [milliseconds(page, pressed.format("ArrowDown"), readout) for _ in range(5)]
    page.evaluate(pressed.format("Escape"))
    return {
        known: [round(each, 1) for each in times]
        for known, times in (("another_head", heads_), ("point_at_a_row", pointed), ("walk_a_row", walked))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--public", type=Path, help="A checkpoint folder in Hugging Face layout.")
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=list(VIEWS))
    parser.add_argument("--long", action="store_true", help="A text of 4,000 tokens in a GPT-2 as well.")
    arguments = parser.parse_args()
    runs = found_runs(arguments.runs) + ([arguments.public] if arguments.public else [])
    if not runs:
        sys.exit(f"no trained run in {', '.join(map(str, arguments.runs))}: a run has a {CONFIG} and a best checkpoint")
    arguments.out.mkdir(parents=True, exist_ok=True)
    stops: list[Stop] = []
    summary: dict[str, Any] = {}
    with browsing() as browser:
        with served(runs) as (address, _):
            for model in models_of(browser, address):
                for name in arguments.views:
                    if VIEWS[name].fits(model):
                        stops.append(stop_at(name, model, browser, address, arguments.out))
                        print(f"{model.name}, {name}: {stops[-1].fault or 'seen'}", flush=True)
        if arguments.long:
            summary["long"] = long_text(browser, arguments.out)
            print(json.dumps(summary["long"]))
    summary |= {
        "stops": [asdict(stop) for stop in stops],
        "faults": sum(stop.fault is not None for stop in stops),
        "console_messages": sum(len(stop.console) for stop in stops),
        "requests_elsewhere": sum(len(stop.elsewhere) for stop in stops),
        "views_not_seen": sorted(set(arguments.views) - {stop.view for stop in stops}),
    }
    (arguments.out / "tour.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(stops)} stops; wrote {arguments.out / 'tour.json'}")
    if "long" in summary:
        places = {
            "stops": len(stops),
            "views": sorted({stop.view for stop in stops}),
            "families": sorted({stop.family or "" for stop in stops}),
        }
        command = "python benchmarks/explorer_tour.py --runs runs --out tour --long"
        print(f"wrote {write_result('explorer-tour', command, summary | places)}")
    if not all(stop.is_good for stop in stops) or not is_sound(summary.get("long")) or not stops:
        sys.exit("something was not as it should be: tour.json says what")


def is_sound(long: dict[str, Any] | None) -> bool:
    """Nothing said, nobody else asked, an answer within 200 ms, and less than 1 GB above the model."""
    if long is None:
        return True
    slowest = max(time for times in long["milliseconds"].values() for time in times)
    return not long["console"] and not long["elsewhere"] and slowest < SLOWEST and long["memory_above_model_mb"] < MOST


if __name__ == "__main__":
    main()
