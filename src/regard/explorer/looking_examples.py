"""An example for each kind of model, so that there is something to see before anybody has typed."""

from dataclasses import replace
from random import Random
from typing import Any

from PIL import Image, ImageDraw

from regard.tasks.algorithm_runner import AlgorithmRunner
from regard.tasks.classifier import Classifier
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.mask_filler import MaskFiller
from regard.tasks.matcher import Matcher
from regard.tasks.translator import Translator

TEXTS: dict[type, str] = {
    Translator: "the small dog sees a white house .",
    LanguageModel: "The animal did not cross the street because it was",
    MaskFiller: "The man went to the [MASK] to buy a bottle of milk.",
    Classifier: "The story is slow and the music is terrible. But the actors are wonderful. I would see it again.",
}
ANY_TEXT = "The animal did not cross the street because it was too tired ."
EPISODE = 10


def example_for(loaded: Any, given: Any) -> Any:
    """The same input with a text or a picture in it."""
    if isinstance(loaded, Matcher):
        return replace(given, picture=glyph(kind=1, hand=0))
    if hasattr(loaded, "preprocessing"):
        return replace(given, picture=house())
    if isinstance(loaded, AlgorithmRunner):
        return replace(given, text=f"{loaded.data.name}:{EPISODE}")
    return replace(given, text=next((text for kind, text in TEXTS.items() if isinstance(loaded, kind)), ANY_TEXT))


def house() -> Image.Image:
    """A house under the sun."""
    picture = Image.new("RGB", (224, 224), "#a9d3f0")
    pen = ImageDraw.Draw(picture)
    pen.ellipse((150, 18, 200, 68), fill="#ffd84d")
    pen.rectangle((0, 160, 224, 224), fill="#6aa84f")
    pen.rectangle((50, 100, 130, 176), fill="#f4efe6", outline="#7a5c3e", width=3)
    pen.polygon([(40, 102), (90, 56), (140, 102)], fill="#b5462f")
    pen.rectangle((80, 132, 102, 176), fill="#7a5c3e")
    return picture


def few_glyphs(kinds: int, hands: int) -> dict[str, list[Image.Image]]:
    """Some letters of an alphabet that does not exist, each in several hands."""
    return {f"letter {kind + 1}": [glyph(kind, hand) for hand in range(1, hands + 1)] for kind in range(kinds)}


def glyph(kind: int, hand: int) -> Image.Image:
    """One letter: a stroke through five places, and hands that tremble."""
    strokes, tremble = Random(kind), Random(1000 * kind + hand)
    places = [strokes.uniform(18, 87) for _ in range(10)]
    line = [place + tremble.uniform(-6, 6) for place in places]
    picture = Image.new("L", (105, 105), 255)
    ImageDraw.Draw(picture).line(line, fill=0, width=5, joint="curve")
    return picture
