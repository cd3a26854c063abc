"""The explorer in a real browser: typed into, clicked through, and taken away; no error, and no request elsewhere."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import uvicorn

from explorer.tiny_models import captioner, documents, encoder, file, language_model, matcher, pictures, translator
from regard import families
from regard.explorer.app import make_app
from regard.explorer.serving import listen
from regard.models import ntm
from regard.tasks.algorithm import AlgorithmData
from regard.tasks.algorithm_runner import AlgorithmRunner

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
PATIENCE = 60  # seconds, for machines that are busy with other things
LONG = 4000  # tokens
ANSWERED = 200  # milliseconds
READOUT = "document.getElementById('readout').textContent"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("explored")
    speaker = translator(folder / "translator")
    speaker.decoding = replace(speaker.decoding, max_new_tokens=6)
    return {
        "translator": speaker,
        "language": language_model(folder / "language", context=LONG + 40, layers=2, size=16, heads=4),
        "filler": encoder("bert", folder / "filler"),
        "documents": documents(),
        "vision": pictures(folder / "vision"),
        "captioner": captioner(),
        "matcher": matcher(),
        "memory": memory(),
    }


def memory() -> AlgorithmRunner:
    torch.manual_seed(0)
    config = ntm.Config(4, 3, controller_size=6, cells=40, cell_size=4)
    return AlgorithmRunner(
        ntm.NeuralTuringMachine(config),
        AlgorithmData(bits=3, longest=4, test_lengths=(2, 5)),
        families.config_json("ntm", config, "algorithm"),
    )


@pytest.fixture(scope="module")
def address(models: dict[str, Any]) -> Iterator[str]:
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(make_app(models), log_level="warning", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


Visit = Callable[..., Any]


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Visit]:
    """Open the page; at the end nothing may have gone wrong, and nobody else may have been asked."""
    complaints: list[str] = []
    pages: list[Any] = []

    def open_page(state: str = "", width: int = 1280, height: int = 900) -> Any:
        page = browser.new_page(viewport={"width": width, "height": height})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: None if own(asked.url) else complaints.append(f"asked for {asked.url}"))
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(f"{address}#{state}")
        ready(page)
        pages.append(page)
        return page

    def own(url: str) -> bool:
        return url.startswith((address, "data:", "blob:"))

    yield open_page
    for page in pages:
        assert page.evaluate("document.documentElement.dataset.errors ?? ''") == ""
        page.close()
    assert complaints == []


def ready(page: Any) -> None:
    page.wait_for_selector("html[data-ready=true]")


def idle(page: Any) -> None:
    """Whatever was asked for is there."""
    soon(lambda: page.evaluate("document.body.getAttribute('aria-busy') === 'false'"))


def soon(condition: Callable[[], Any], seen: Callable[[], str] = str) -> None:
    """The page's policy forbids to evaluate texts inside it, so waiting is done out here."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, seen()
        time.sleep(0.02)


def test_a_sentence_is_translated_looked_into_and_taken_away(
    visit: Visit, models: dict[str, Any], tmp_path: Path
) -> None:
    page = visit("model=translator&text=a+man&theme=light")
    page.fill("#text", "two dogs in a hat")
    page.press("#text", "Enter")
    idle(page)
    assert page.inner_text("#answer") == models["translator"].translate("two dogs in a hat")[0].text

    page.select_option("#head", index=1)
    soon(lambda: "head 2" in page.inner_text("#map-name"))
    box = page.locator(".cells").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    soon(lambda: "rank" in page.inner_text("#readout"))
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    page.mouse.move(0, 0)
    assert "rank" in page.inner_text("#readout.locked")
    soon(lambda: "query=0" in page.evaluate("location.hash"))

    soon(lambda: "head 2" in page.inner_text("#panel"))
    assert "matches the model" in page.inner_text("#panel")
    page.keyboard.press("n")
    soon(lambda: "Step 2 of" in page.inner_text("#panel"))

    page.click("[data-panel=whatif]")
    page.click(".switch[data-attention='decoder.layers.1.cross_attention'][data-head='0']")
    soon(lambda: "Without 1 head" in page.inner_text("#panel") and page.locator("#change").count())
    soon(lambda: "off=decoder.layers.1.cross_attention" in page.evaluate("location.hash"))

    for button, kind in (("[data-format=svg]", "svg"), ("[data-format=html]", "html"), ("[data-panel=png]", "png")):
        file = tmp_path / f"taken.{kind}"
        taken(page, button).save_as(file)
        assert file.stat().st_size > 1000


def taken(page: Any, button: str) -> Any:
    """What comes of a button of the export menu."""
    coming: list[Any] = []
    page.once("download", lambda download: coming.append(download))
    page.click("#export-menu summary")
    page.click(f"#export-items {button}")
    soon(lambda: coming or page.wait_for_timeout(20), lambda: page.inner_text("#trouble"))
    return coming[0]


def test_a_link_brings_back_what_was_seen(visit: Visit) -> None:
    page = visit(
        "model=translator&text=a+man&kind=encoder&layer=1&head=2&unit=subwords&view=lines&panel=positions&theme=dark"
    )
    assert page.inner_text("#map-name") == "Encoder self-attention, layer 1, head 2"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator(".lines canvas").count() == 1
    soon(lambda: page.locator("canvas.signed").count() == 2)


def test_the_next_token_is_chosen_by_temperature_and_by_hand(visit: Visit) -> None:
    page = visit("model=language&text=a+cat&panel=next")
    soon(lambda: page.locator(".next li").count())
    before = page.locator(".next li").nth(1).inner_text()
    page.locator("#temperature").fill("0.3")
    assert page.locator(".next li").nth(1).inner_text() != before
    soon(lambda: "temperature=0.3" in page.evaluate("location.hash"))
    page.locator(".next button.token").nth(4).click()
    idle(page)
    assert page.get_by_text("1 forced token").count() == 1
    soon(lambda: "forced=" in page.evaluate("location.hash"))


@pytest.mark.parametrize(
    ("state", "sign"),
    [
        ("model=translator&text=a+man&panel=beam", ".tree .node"),
        ("model=translator&text=a+man&panel=lens", ".lens td"),
        ("model=language&text=a+cat&view=reading", "img.served"),
        ("model=filler&text=a+[MASK]&head=rollout", ".cells canvas"),
        ("model=documents&text=two+dogs.+a+man.", ".sentence span"),
        ("model=vision", ".image-drawing canvas"),
        ("model=captioner", ".image-drawing canvas"),
        ("model=matcher", "img.served"),
        ("model=filler&text=a+man&panel=through&theme=dark", ".thumbnail.large[data-how=rollout]"),
        ("model=translator&text=a+man&grid=entropy", ".number-cell[aria-pressed]"),
    ],
)
def test_every_view_is_drawn(visit: Visit, state: str, sign: str) -> None:
    page = visit(state)
    soon(lambda: page.locator(sign).count())
    assert not page.locator("#trouble").is_visible()


def test_a_hypothesis_is_chosen_and_a_node_of_the_beam_shows_where_it_looked(
    visit: Visit, models: dict[str, Any]
) -> None:
    page = visit("model=translator&text=a+man&panel=beam")
    nbest = models["translator"].translate("a man", num_return_sequences=3)[0].nbest
    page.locator("#nbest button").nth(1).click()
    idle(page)
    assert page.inner_text("#answer") == nbest[1].text
    soon(lambda: "hypothesis=1" in page.evaluate("location.hash"))
    page.locator(".tree .node.best").first.click()
    soon(lambda: page.locator(".looked-at .shaded span").count())
    assert "cross-attention, layer 2" in page.inner_text(".looked-at")


def test_heads_are_measured_by_a_file_and_shown_on_the_grid(visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "lines.tsv"
    file.write_text("a man\tEin Mann\n\ntwo dogs\n", encoding="utf-8")
    page = visit("model=translator&text=a+man&panel=whatif&grid=importance&instead=mean")
    assert "Measure" in page.inner_text("#overview")
    page.set_input_files("#lines", file)
    soon(lambda: page.locator("#worth").count() and not page.locator("progress").count())
    assert "of 2 lines" in page.inner_text("#worth")
    soon(lambda: page.locator("#overview .number-cell").count() == 4)  # cross-attention: two layers of two heads
    assert "importance" in page.locator("#overview .number-cell").first.get_attribute("aria-label")


def test_the_page_addresses_a_memory_as_the_model_does(visit: Visit) -> None:
    page = visit("model=memory&text=copy:3")
    soon(lambda: page.locator("#addressed").count())
    assert page.inner_text("#addressed").startswith("✓ matches the model")
    page.select_option("#story-query", "4")
    page.select_option("#story-head", "1")
    soon(lambda: page.locator("#addressed").count())
    assert page.inner_text("#addressed").startswith("✓ matches the model")
    page.locator("#gate").fill("0")
    assert page.inner_text("#addressed").startswith("Most at cell")
    page.get_by_text("As the model wished").click()
    assert page.inner_text("#addressed").startswith("✓ matches the model")


def test_a_link_brings_back_the_time_and_the_head_of_a_memory(visit: Visit) -> None:
    page = visit("model=memory&text=copy:3&time=4&reader=1&gate=0")
    soon(lambda: page.locator("#addressed").count())
    assert (page.input_value("#story-query"), page.input_value("#story-head")) == ("4", "1")
    assert page.inner_text("#addressed").startswith("Most at cell")
    page.select_option("#story-query", index=2)
    soon(lambda: "time=2" in page.evaluate("location.hash"))
    left = page.evaluate("location.hash")
    assert "reader=1" in left
    assert "gate=" not in left  # another time has wishes of its own
    again = visit(left.removeprefix("#"))
    soon(lambda: again.locator("#addressed").count())
    assert (again.input_value("#story-query"), again.input_value("#story-head")) == ("2", "1")


def test_examples_of_ones_own_are_compared_with(visit: Visit, tmp_path: Path) -> None:
    page = visit("model=matcher")
    assert page.inner_text("#answer").startswith("letter ")
    page.click("#examples-field summary")
    for label, name in enumerate(("oak", "fir")):
        (tmp_path / f"{name}.png").write_bytes(file(label))
        page.fill(f"#label-{label}", name)
        page.set_input_files(f"#examples-{label}", tmp_path / f"{name}.png")
        soon(lambda label=label: page.locator(".example-line").nth(label).inner_text().endswith("1 given"))
    page.click("#run")
    idle(page)
    assert page.inner_text("#answer") in ("oak", "fir")
    page.click("#more-labels")
    assert page.locator("#more-labels").is_disabled()  # the model tells three apart
    page.click("#letters")
    idle(page)
    assert page.inner_text("#answer").startswith("letter ")


@pytest.fixture(scope="module")
def far(browser: Any, address: str) -> Iterator[Any]:
    """A page with a text of 4,000 tokens."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(f"{address}#model=language&text=a&kind=decoder&head=1")
    ready(page)
    page.fill("#text", "x" * LONG)
    page.press("#text", "Enter")
    idle(page)
    assert page.inner_text("#trouble") == ""
    page.locator(".far").scroll_into_view_if_needed()
    yield page
    assert page.evaluate("document.documentElement.dataset.errors ?? ''") == ""
    page.close()


def test_a_row_of_a_long_text_comes_with_its_neighbours(far: Any) -> None:
    asked: list[dict[str, Any]] = []
    far.on("request", lambda sent: asked.append(sent.post_data_json) if sent.url.endswith("/look/row") else None)
    box = far.locator(".far").bounding_box()
    far.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2)
    soon(lambda: "→" in far.inner_text("#readout"))
    far.focus("#drawing")
    for _ in range(12):
        before = far.inner_text("#readout")
        far.keyboard.press("ArrowDown")
        soon(lambda before=before: far.inner_text("#readout") != before)
    far.keyboard.press("Escape")
    assert 1 <= len(asked) <= 4  # blocks of sixteen rows, where twelve rows and their neighbours lie
    assert {each["count"] for each in asked} == {16}


def test_a_long_text_is_looked_at_through_tiles(far: Any) -> None:
    box = far.locator(".far").bounding_box()
    far.mouse.move(box["x"] + 20, box["y"] + box["height"] - 10)
    soon(lambda: "rank" in far.inner_text("#readout"))
    assert int(far.inner_text("#readout").split(" of ")[-1]) > LONG * 0.9  # one of the last rows
    far.get_by_label("The first token in a gutter of its own").click()
    soon(lambda: "sink=" in far.evaluate("location.hash"))
    while "every weight is a cell" not in far.inner_text("#level"):
        far.get_by_label("Nearer").click()
        far.wait_for_timeout(50)
    assert far.evaluate("document.querySelectorAll('*').length") < 3000
    far.keyboard.press("0")


@pytest.mark.skipif("REGARD_TIMES" not in os.environ, reason="times mean something on a quiet machine: REGARD_TIMES=1")
def test_a_long_text_answers_at_once(far: Any) -> None:
    act = "document.dispatchEvent(new KeyboardEvent('keydown', { key: ']', bubbles: true }))"
    named = "document.getElementById('map-name').textContent"
    assert min(milliseconds(far, act, named) for _ in range(4)) < ANSWERED
    box = far.locator(".far").bounding_box()
    times = []
    for row in range(4):
        move = f"{{ clientX: {box['x'] + 9}, clientY: {box['y'] + 100 + 50 * row}, bubbles: true }}"
        act = f"document.querySelector('.far').dispatchEvent(new PointerEvent('pointermove', {move}))"
        times.append(milliseconds(far, act, READOUT))
    assert min(times) < ANSWERED
    act = "document.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }))"
    assert max(milliseconds(far, act, READOUT) for _ in range(4)) < ANSWERED  # the next rows are there already


def milliseconds(page: Any, act: str, seen: str) -> float:
    """From an act until what is seen has changed and was painted."""
    script = f"""() => new Promise((done) => {{
        const before = {seen};
        const start = performance.now();
        const look = () => ({seen} !== before ? done(performance.now() - start) : requestAnimationFrame(look));
        {act};
        requestAnimationFrame(look);
    }})"""
    return float(page.evaluate(script))


def test_the_keyboard_is_enough(visit: Visit) -> None:
    page = visit("model=translator&text=a+man")
    page.focus("#drawing")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    soon(lambda: "query=1" in page.evaluate("location.hash"))
    soon(lambda: "key=1" in page.evaluate("location.hash"))
    page.keyboard.press("t")
    soon(lambda: page.locator("table caption").count())
    page.keyboard.press("t")
    page.keyboard.press("Escape")
    soon(lambda: "query" not in page.evaluate("location.hash"))
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_it_fits_a_phone(visit: Visit) -> None:
    page = visit("model=translator&text=a+man", width=390, height=800)
    for panel in ("steps", "next", "beam", "whatif", "through", "positions"):
        page.click(f"#panels [data-panel={panel}]")
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_trouble_is_told_in_the_page(browser: Any, address: str) -> None:
    page = browser.new_page()
    page.goto(f"{address}#model=translator&text=a&hypothesis=9")
    ready(page)
    assert "there is no hypothesis 9" in page.inner_text("#trouble")
    page.close()
