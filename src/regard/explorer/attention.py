"""`/v1/attention`: what attends to what while a model reads, translates or captions.

First the shapes: tokens, attentions, heads. Then, with `weights`, the numbers of the layers, heads and rows that are
chosen. A reply is bounded: attention grows with the square of a text, and nobody looks at millions of numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.attention import attentions
from regard.attention.recording import choose_attentions
from regard.data.frames import Text
from regard.explorer import schemas
from regard.explorer.inputs import pictures, reads_pictures, texts
from regard.explorer.limits import CELLS, CELLS_COMPUTED, Limits
from regard.explorer.reading import decoded
from regard.explorer.refusals import Refusal
from regard.explorer.worker import Work
from regard.tasks.captioner import Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.image_classifier import ImageEmbedder
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.mask_filler import TextEmbedder
from regard.tasks.translator import Translator
from regard.views.document import DocumentMap
from regard.views.maps import AttentionMap

LOOKERS: tuple[type, ...] = (Translator, LanguageModel, TextEmbedder, Classifier, ImageEmbedder, Captioner)
DECIMALS = 7  # of a weight
Weights = NDArray[np.float32]  # [heads, queries, keys]


@dataclass(frozen=True)
class Shape:
    """One attention of the model."""

    kind: str
    layer: int | None
    heads: int
    queries: int
    keys: int


@dataclass(frozen=True)
class Looked:
    """A text or picture that was looked at: who looks at what, and how to have the weights of some heads."""

    said: str | None
    sides: dict[str, schemas.Side]
    shapes: dict[str, Shape]
    weights_of: Callable[[str, list[int]], Weights]


def attention(loaded: Any, asked: schemas.Attention, limits: Limits) -> Work:
    wanted, other = ("image", "text") if reads_pictures(loaded) else ("text", "image")
    if getattr(asked, wanted) is None or getattr(asked, other) is not None:
        raise Refusal(422, f"this model reads {wanted}s: give one as {wanted}, and no {other}")
    if asked.target is not None and not isinstance(loaded, Translator | Captioner):
        raise Refusal(422, "target is for translations and captions; this model makes neither")
    if asked.second_text is not None and not reads_pairs(loaded):
        raise Refusal(422, "this model does not read pairs; leave second_text out")
    names = [name for name, _ in choose_attentions(loaded.model, asked.layers)]
    given = [text for text in (asked.text, asked.second_text, asked.target) if text is not None]
    read, cost = texts(loaded, given, limits, "text") if given else ([], 0)
    if wanted == "text":
        return Work(lambda _: [look_at_text(loaded, asked, names)], read[:1], cost)
    files, size = pictures([asked.image or ""], "image")
    return Work(lambda contents: [look_at_picture(loaded, asked, names, contents[0])], files, cost + size)


def reads_pairs(loaded: Any) -> bool:
    return isinstance(loaded, TextEmbedder) or (isinstance(loaded, Classifier) and loaded.frame is not None)


def look_at_text(loaded: Any, asked: schemas.Attention, names: list[str]) -> schemas.Attended:
    first = asked.text or ""
    text: Text = first if asked.second_text is None else (first, asked.second_text)
    if isinstance(loaded, Translator):
        return told(translation(loaded, first, asked.target), asked, names)
    if not isinstance(loaded, Classifier):
        return told(reading(loaded, text), asked, names)
    if loaded.reads == "documents":
        return document(loaded.look(first))
    return told(classification(loaded, text), asked, names)


def look_at_picture(loaded: Any, asked: schemas.Attention, names: list[str], content: bytes) -> schemas.Attended:
    image = decoded(content, loaded.preprocessing.channels)
    if isinstance(loaded, Captioner):
        return told(captioning(loaded, image, asked), asked, ["picture"])
    return told(seeing(loaded, image), asked, names)


# How each kind of model is looked at


def translation(translator: Translator, text: str, target: str | None) -> Looked:
    if target is None:
        best = translator.translate([text])[0]
        said, tokens = best.text, best.tokens
    else:
        said, tokens = target, translator.encode_target(target)

    def look(layers: list[str], heads: list[int]) -> Sequence[AttentionMap]:
        return translator.look(text, tokens=tokens, layers=layers, heads=heads)

    return layer_by_layer(translator.model, look, said)


def reading(loaded: LanguageModel | TextEmbedder, text: Text) -> Looked:
    def look(layers: list[str], heads: list[int]) -> Sequence[AttentionMap]:
        return loaded.look(text, layers=layers, heads=heads)  # type: ignore[arg-type]

    return layer_by_layer(loaded.model, look, None)


def layer_by_layer(
    model: Any, look: Callable[[list[str], list[int]], Sequence[AttentionMap]], said: str | None
) -> Looked:
    """One head of one attention of each kind tells the tokens of all; of the others, weights come when asked for."""
    every = [name for name, _ in attentions(model)]
    kind_of: Callable[[str], str] = getattr(model, "attention_kind", lambda name: "encoder")
    first_of_kind = {kind_of(name): name for name in reversed(every)}
    maps = {known.kind: known for name in first_of_kind.values() for known in look([name], [0])}
    shapes = {}
    for name in every:
        _, queries, keys = maps[kind_of(name)].weights.shape
        heads = getattr(model.get_submodule(name), "heads", 1)
        shapes[name] = Shape(kind_of(name), model.attention_layer(name), heads, queries, keys)
    return Looked(
        said,
        {kind: side(known) for kind, known in maps.items()},
        shapes,
        lambda name, heads: look([name], heads)[0].weights,
    )


def classification(classifier: Classifier, text: Text) -> Looked:
    count = len(classifier.row(text).tokens)
    check_computed(sum(getattr(module, "heads", 1) for _, module in attentions(classifier.model)) * count**2)
    maps = {known.name: known for known in classifier.look_tokens(text)}
    return Looked(
        classifier.classify([text])[0].label or None,
        {known.kind: side(known) for known in maps.values()},
        {name: Shape(known.kind, known.layer, *known.weights.shape) for name, known in maps.items()},
        lambda name, heads: maps[name].weights[heads],
    )


def seeing(loaded: ImageEmbedder, image: Any) -> Looked:
    """What the class token pays to the patches."""
    names = [name for name, _ in attentions(loaded.model)]
    known = loaded.look(image, layers=range(len(names)))
    _, heads, rows, columns = known.weights.shape
    flat = dict(zip(names, known.weights.reshape(len(names), heads, 1, -1), strict=True))
    return Looked(
        known.label or None,
        {"image": schemas.Side(queries=["[CLS]"], keys=[], grid=[rows, columns])},
        {name: Shape("image", layer, heads, 1, rows * columns) for layer, name in enumerate(names, 1)},
        lambda name, chosen: flat[name][chosen],
    )


def captioning(captioner: Captioner, image: Any, asked: schemas.Attention) -> Looked:
    """What every word pays to the regions: the mean of all layers and heads that look at the picture."""
    known = captioner.look(image, asked.target, layers=asked.layers)
    words, rows, columns = known.weights.shape
    flat = known.weights.reshape(1, words, -1)
    return Looked(
        known.text,
        {"image": schemas.Side(queries=list(known.words), keys=[], grid=[rows, columns])},
        {"picture": Shape("image", None, 1, words, rows * columns)},
        lambda name, heads: flat[heads],
    )


def document(known: DocumentMap) -> schemas.Attended:
    """Sentences with their words, each with its weight."""
    sentences = [
        schemas.Sentence(
            text=known.text[spans[0][0] : spans[-1][1]],
            weight=float(weight),
            words=[
                schemas.Word(text=known.text[start:end], weight=float(paid))
                for (start, end), paid in zip(spans, words, strict=True)
            ],
        )
        for spans, weight, words in zip(known.sentences, known.sentence_weights, known.word_weights, strict=True)
    ]
    return schemas.Attended(said=known.label, sides={}, attentions=[], document=sentences)


# What is sent


def told(looked: Looked, asked: schemas.Attention, names: list[str]) -> schemas.Attended:
    chosen = {name: looked.shapes[name] for name in names}
    heads = {name: numbers(asked.heads, shape.heads, "head") for name, shape in chosen.items()}
    rows = {name: numbers(asked.queries, shape.queries, "query") for name, shape in chosen.items()}
    if asked.weights:
        sent = sum(len(heads[name]) * len(rows[name]) * shape.keys for name, shape in chosen.items())
        if sent > CELLS:
            raise Refusal(413, f"these are {sent:,} weights, but at most {CELLS:,} are sent: choose layers and heads")
        check_computed(max(len(heads[name]) * shape.queries * shape.keys for name, shape in chosen.items()))
    found = []
    for name, shape in chosen.items():
        weights = looked.weights_of(name, heads[name])[:, rows[name]] if asked.weights else None
        found.append(
            schemas.Attending(
                name=name,
                kind=shape.kind,
                layer=shape.layer,
                shape=[shape.heads, shape.queries, shape.keys],
                heads=heads[name],
                rows=None if weights is None else rows[name],
                weights=None if weights is None else weights.astype(np.float64).round(DECIMALS).tolist(),
            )
        )
    return schemas.Attended(said=looked.said, sides=looked.sides, attentions=found)


def side(known: AttentionMap) -> schemas.Side:
    return schemas.Side(
        queries=list(known.queries),
        keys=list(known.keys),
        query_words=list(known.query_words),
        key_words=list(known.key_words),
        visible=None if known.visible is None else list(known.visible),
    )


def numbers(wanted: Sequence[int] | None, count: int, what: str) -> list[int]:
    """Those that are wanted, all if nothing is said; -1 is the last."""
    for number in wanted or ():
        if not -count <= number < count:
            raise Refusal(422, f"there is no {what} {number}: there are {count}, counted from 0")
    return list(range(count)) if wanted is None else [number % count for number in wanted]


def check_computed(count: int) -> None:
    if count > CELLS_COMPUTED:
        most = f"at most {CELLS_COMPUTED:,} are computed at once"
        raise Refusal(413, f"these heads have {count:,} weights, but {most}: choose fewer heads, or a shorter text")
