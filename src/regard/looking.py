"""`regard look` and `regard.look`: from a text to the picture of its attention."""

import sys
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.frames import Text, as_pair
from regard.errors import UsageError
from regard.loading import load
from regard.public.elsewhere import look_elsewhere
from regard.tasks.algorithm_runner import AlgorithmRunner
from regard.tasks.captioner import Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.image_classifier import ImageEmbedder
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.mask_filler import TextEmbedder
from regard.tasks.translator import Translator
from regard.views.look import Look


def look(
    model: Any,
    tokenizer: Any = None,
    text: Any = None,
    *,
    target: str | None = None,
    layers: Any = None,
    heads: Any = None,
) -> Look:
    """Look at the attention of a text: `.weights`, `.tokens`, `.save("page.html")`, and a notebook shows it.

    `model` is a RUN, as `regard.load` takes it, or what `regard.load` returned: `regard.look(run, "a text")`. Or it is
    a model of transformers, with its tokenizer: `regard.look(model, tokenizer, "a text")`. The text is what the model
    reads: a text, a pair of texts, the file of a picture, or an episode such as `copy:20`. Translators and captioners
    show how they say `target`, or else what they say themselves.
    """
    if text is None and not callable(tokenizer):
        tokenizer, text = None, tokenizer
    if text is None or (isinstance(text, str) and not text.strip()):
        raise UsageError("there is nothing to look at: give a text")
    if isinstance(model, nn.Module):
        return look_elsewhere(model, tokenizer, text, target, layers=layers, heads=heads)
    loaded = load(model) if isinstance(model, str | Path) else model
    return look_inside(loaded, text, target, layers=layers, heads=heads)


def look_inside(loaded: Any, text: Any, target: str | None = None, *, layers: Any = None, heads: Any = None) -> Look:
    """The look at a text, or a picture, of what `regard.load` returned."""
    chosen: dict[str, Any] = {"layers": layers, "heads": heads}
    if isinstance(loaded, Captioner):
        caption = loaded.look(text, target, **chosen)
        return Look(caption.text, caption, score=caption.score)
    if isinstance(loaded, Translator):
        best = loaded.translate([text])[0] if target is None else None
        said, score = (target or "", None) if best is None else (best.text, best.score)
        maps = loaded.look(text, target, tokens=None if best is None else best.tokens, **chosen)
        return Look(f"{text} → {said}", maps, text, said, score, by_head=_several(maps, heads))
    if target is not None:
        raise UsageError(f"a target is for translations and captions; a {type(loaded).__name__.lower()} makes neither")
    if isinstance(loaded, ImageEmbedder):
        image = loaded.look(text, layers, heads)
        return Look(image.verdict, image)
    if isinstance(loaded, LanguageModel | TextEmbedder):
        maps = loaded.look(text, **chosen)
        return Look(_as_text(text), maps, _as_text(text), by_head=_several(maps, heads))
    if layers is not None or heads is not None:
        raise UsageError(f"a {type(loaded).__name__.lower()} shows all its layers and heads: do not choose any")
    if isinstance(loaded, Classifier):
        seen = loaded.classify([text])[0].look()
        if seen is None:
            raise UsageError(f"there is nothing to look at in {text!r}: it has no word")
        return seen
    if isinstance(loaded, AlgorithmRunner):
        return Look(str(text), loaded.look(text))
    raise UsageError(f"a {type(loaded).__name__.lower()} has nothing to look at; give a run, or a transformers model")


def _several(maps: tuple[Any, ...], heads: Any) -> bool:
    """Several heads that were asked for are drawn one beside the other."""
    return heads is not None and len(maps[0].weights) > 1


def _as_text(text: Text) -> str:
    return text if isinstance(text, str) else " / ".join(text)


def draw(
    loaded: Any, text: str, target: str | None, layers: list[int] | None, heads: list[int] | None, output: str | None
) -> str:
    """The look at what was typed, written to a file or, without one, as characters; it comes back for the terminal."""
    if not text.strip():
        raise UsageError("there is nothing to look at in an empty text")
    reads_pairs = getattr(loaded, "frame", None) is not None or isinstance(loaded, TextEmbedder)
    found = look_inside(loaded, as_pair(text) if reads_pairs else text, target, layers=layers, heads=heads)
    is_page = output is not None and output.endswith(".html")
    if isinstance(loaded, Translator) and not is_page and all(known.kind != "cross" for known in found.maps):
        raise UsageError(f"the layers {layers} hold no cross-attention to draw; choose others, or write a page.html")
    told = [found.said] if found.said else []
    if output is None:
        return "\n\n".join([*told, found.terminal(colour=sys.stdout.isatty())])
    return "\n".join([*told, f"wrote {found.save(output)}"])
