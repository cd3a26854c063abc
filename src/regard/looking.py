"""`regard look`: from a sentence to the picture of its attention."""

import sys
from pathlib import Path

from regard.data.frames import as_pair
from regard.errors import UsageError
from regard.tasks.algorithm_runner import AlgorithmRunner
from regard.tasks.captioner import Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.image_classifier import ImageEmbedder
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.mask_filler import TextEmbedder
from regard.tasks.translator import Translator
from regard.views import Example, attention_page, heads_figure, heatmap, merge_words, terminal


def draw(
    loaded: Translator | AlgorithmRunner | Captioner | Classifier | ImageEmbedder | LanguageModel | TextEmbedder,
    text: str,
    target: str | None,
    layers: list[int] | None,
    heads: list[int] | None,
    output: str | None,
) -> str:
    """Write the page or picture; what is returned is for the terminal."""
    if not text.strip():
        raise UsageError("there is nothing to look at in an empty text")
    if isinstance(loaded, Translator):
        return draw_translation(loaded, text, target, layers, heads, output)
    if isinstance(loaded, Captioner):
        return loaded.draw(text, target, output, layers=layers, heads=heads)
    if target is not None:
        raise UsageError("--target is for translations and captions; this run makes neither")
    if isinstance(loaded, LanguageModel):
        return loaded.draw(text, output, layers=layers, heads=heads)
    if isinstance(loaded, ImageEmbedder):
        return loaded.draw(text, output, layers=layers, heads=heads, colour=sys.stdout.isatty())
    if isinstance(loaded, TextEmbedder):
        return loaded.draw(as_pair(text), output, layers=layers, heads=heads)
    if isinstance(loaded, Classifier):
        read = text if loaded.frame is None else as_pair(text)
        return loaded.draw(read, output, colour=sys.stdout.isatty())
    return loaded.draw(text, output)


def draw_translation(
    translator: Translator,
    text: str,
    target: str | None,
    layers: list[int] | None,
    heads: list[int] | None,
    output: str | None,
) -> str:
    """The attention paid while saying `target`, or else our own translation."""
    if target is None:
        result = translator.translate([text])[0]
        said, tokens, score = result.text, result.tokens, result.score
    else:
        said, tokens, score = target, translator.encode_target(target), None
    maps = translator.look(text, tokens=tokens, layers=layers, heads=heads)
    if output is not None and output.endswith(".html"):
        attention_page(f"{text} → {said}", [Example(text, said, maps=maps, score=score)], output)
        return f"{said}\nwrote {output}"
    cross = [attention for attention in maps if attention.kind == "cross"]
    if not cross:
        raise UsageError(f"the layers {layers} hold no cross-attention to draw; choose others, or write a page.html")
    last = merge_words(cross[-1])
    if output is None:
        return f"{said}\n\n{terminal(last, colour=sys.stdout.isatty())}"
    if heads is not None and len(heads) > 1:
        heads_figure(last, output)
    else:
        heatmap(last, path=output)
    return f"{said}\nwrote {Path(output)}"
