"""What a request of each verb means: the work for a model's thread, made in the request's own.

A verb is a row in `VERBS`: what is asked, what comes back for each text or picture, who can do it, and how.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from regard.attention import attentions
from regard.explorer import schemas
from regard.explorer.attention import LOOKERS, attention
from regard.explorer.inputs import check_made, pictures, reads_pictures, same_number, texts
from regard.explorer.limits import MADE, Limits
from regard.explorer.reading import decoded
from regard.explorer.refusals import Refusal
from regard.explorer.schemas import Asked, Decoded
from regard.explorer.worker import Work
from regard.tasks.captioner import LONGEST, Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.image_classifier import ImageClassifier, ImageEmbedder
from regard.tasks.language_verbs import NEW_TOKENS, LanguageModel
from regard.tasks.mask_filler import MaskFiller, TextEmbedder
from regard.tasks.matcher import Matcher
from regard.tasks.tagger import Tagger
from regard.tasks.token_tagger import TokenTagger
from regard.tasks.translator import Translator

__all__ = ["VERBS", "Verb", "reads_pictures"]


@dataclass(frozen=True)
class Verb:
    about: str
    asked: type[Asked]
    result: type[BaseModel]
    kinds: tuple[type, ...]
    work: Callable[[Any, Any, Limits], Work]

    def fits(self, loaded: Any) -> bool:
        if self.asked is schemas.Attention and not attentions(loaded.model):
            return False
        return isinstance(loaded, self.kinds)


def translate(translator: Translator, asked: schemas.Translate, limits: Limits) -> Work:
    sources, cost = texts(translator, asked.texts, limits)
    options = search_options(translator, asked, limits, "texts", "alignments", read=cost)
    if asked.alignments:
        translator.check_attention()

    def call(items: list[str]) -> list[schemas.Translated]:
        results = translator.translate(items, **options)
        links: list[Any] = [[None] * len(known.nbest) for known in results]
        if asked.alignments:
            links = translator.links(results)
        told = []
        for known, linked in zip(results, links, strict=True):
            nbest = [
                schemas.Linked(text=each.text, score=each.score, alignment=link)
                for each, link in zip(known.nbest, linked, strict=True)
            ]
            told.append(schemas.Translated(**dict(nbest[0]), source=known.source, nbest=nbest))
        return told

    return Work(call, sources, cost, together(translator, asked, "texts"))


def generate(model: LanguageModel, asked: schemas.Generate, limits: Limits) -> Work:
    """All at once; text that is sent while it is made is in `streaming.py`."""
    options = search_options(model, asked, limits, "prompts", "stream")

    def call(items: list[str]) -> list[schemas.Generated]:
        return [generated(known) for known in model.generate(items, **options)]

    prompts, cost = texts(model, asked.prompts, limits, place="prompts", empty=True)
    return Work(call, prompts, cost, together(model, asked, "prompts", "stream"))


def generated(known: Any) -> schemas.Generated:
    nbest = [schemas.Hypothesis(text=each.text, score=each.score) for each in known.nbest]
    return schemas.Generated(**dict(nbest[0]), prompt=known.prompt, nbest=nbest)


def fill(filler: MaskFiller, asked: schemas.Fill, limits: Limits) -> Work:
    def call(items: list[str]) -> list[schemas.Filled]:
        return [
            schemas.Filled(
                text=known.text,
                score=known.score,
                source=known.source,
                guesses=[[schemas.Guess(**vars(guess)) for guess in gap] for gap in known.guesses],
            )
            for known in filler.fill(items, top=asked.top)
        ]

    return Work(call, *texts(filler, asked.texts, limits), together(filler, asked, "texts"))


def classify(classifier: Classifier | ImageClassifier, asked: schemas.Classify, limits: Limits) -> Work:
    def call(items: list[Any]) -> list[schemas.Classified]:
        given = seen(classifier, items) if isinstance(classifier, ImageClassifier) else items
        return [
            schemas.Classified(label=known.label or None, probabilities=known.probabilities)
            for known in classifier.classify(given)
        ]

    key = together(classifier, asked, "texts", "second_texts", "images")
    items, cost = read_either(classifier, asked, limits)
    if asked.second_texts is not None:
        if isinstance(classifier, ImageClassifier) or classifier.frame is None:
            raise Refusal(422, "this model does not classify pairs; leave second_texts out")
        seconds, more = texts(classifier, asked.second_texts, limits, place="second_texts", beside=cost)
        items, cost = list(zip(items, same_number(items, seconds), strict=True)), cost + more
    return Work(call, items, cost, key)


def tag(tagger: Tagger | TokenTagger, asked: schemas.Tag, limits: Limits) -> Work:
    def call(items: list[str]) -> list[schemas.Tagged]:
        return [
            schemas.Tagged(words=list(known.words), tags=list(known.tags), probabilities=list(known.probabilities))
            for known in tagger.tag(items)
        ]

    return Work(call, *texts(tagger, asked.texts, limits), together(tagger, asked, "texts"))


def embed(embedder: TextEmbedder | ImageEmbedder, asked: schemas.Embed, limits: Limits) -> Work:
    options = asked.options("texts", "images")

    def call(items: list[Any]) -> list[schemas.Embedded]:
        if isinstance(embedder, ImageEmbedder):
            vectors = embedder.embed(seen(embedder, items), **options)
        else:
            vectors = embedder.embed(items, **options)
        return [schemas.Embedded(embedding=vector) for vector in vectors.tolist()]

    return Work(call, *read_either(embedder, asked, limits), together(embedder, asked, "texts", "images"))


def caption(captioner: Captioner, asked: schemas.Caption, limits: Limits) -> Work:
    options = search_options(captioner, asked, limits, "images")

    def call(items: list[bytes]) -> list[schemas.Captioned]:
        told = []
        for known in captioner.caption(seen(captioner, items), **options):
            nbest = [schemas.Hypothesis(text=each.text, score=each.score) for each in known.nbest]
            told.append(schemas.Captioned(**dict(nbest[0]), nbest=nbest))
        return told

    return Work(call, *pictures(asked.images), together(captioner, asked, "images"))


def match(matcher: Matcher, asked: schemas.Match, limits: Limits) -> Work:
    labels = [label for label, own in asked.examples.items() for _ in own]
    files, cost = pictures([*(image for own in asked.examples.values() for image in own), *asked.images], "pictures")

    def call(items: list[bytes]) -> list[schemas.Classified]:
        shown: dict[str, list[Any]] = {label: [] for label in labels}
        for label, example in zip(labels, seen(matcher, files[: len(labels)]), strict=True):
            shown[label].append(example)
        return [
            schemas.Classified(label=known.label, probabilities=known.probabilities)
            for known in matcher.match(shown, seen(matcher, items))
        ]

    return Work(call, files[len(labels) :], cost)


def read_either(loaded: Any, asked: schemas.Classify | schemas.Embed, limits: Limits) -> tuple[list[Any], int]:
    """The texts or the pictures, whichever the model reads."""
    wanted, other = ("images", "texts") if reads_pictures(loaded) else ("texts", "images")
    if getattr(asked, other) is not None or getattr(asked, wanted) is None:
        raise Refusal(422, f"this model reads {wanted}: give {wanted}, and no {other}")
    return pictures(asked.images or []) if wanted == "images" else texts(loaded, asked.texts or [], limits)


def seen(loaded: Any, contents: list[bytes]) -> list[Any]:
    return [decoded(content, loaded.preprocessing.channels) for content in contents]


def search_options(
    loaded: Any, asked: Decoded, limits: Limits, given: str, *without: str, read: int = 0
) -> dict[str, Any]:
    """What the verb is called with beside what is `given` (of `read` tokens); several hypotheses need as many beams."""
    options = asked.options(given, *without)
    check_made(asked.max_new_tokens, limits, "max_new_tokens")
    if asked.num_return_sequences > 1 and not samples(loaded, asked):
        options["num_beams"] = max(asked.num_return_sequences, asked.num_beams or loaded.decoding.num_beams)
    beams = options.get("num_beams", loaded.decoding.num_beams)
    check_search(loaded, asked, limits, len(getattr(asked, given)), beams, read)
    return options


def check_search(loaded: Any, asked: Decoded, limits: Limits, count: int, beams: int, read: int) -> None:
    """Refuse what would fill the memory on the way, however short the texts are."""
    tokens = asked.max_new_tokens or loaded.decoding.max_new_tokens or longest(loaded, -(-read // count))
    each = asked.num_return_sequences if samples(loaded, asked) else beams
    made, most = count * each * tokens, MADE * limits.tokens
    if made > most:
        told = f"{count} texts with {each} beams of {tokens} tokens each are {made:,} tokens"
        raise Refusal(413, f"{told}, but at most {most:,} are made at once; ask for less")


def longest(loaded: Any, read: int) -> int:
    """The most tokens that are made of a text with so many tokens if nothing else is asked for."""
    if isinstance(loaded, Translator):
        return loaded.decoding.limit(read)
    return NEW_TOKENS if isinstance(loaded, LanguageModel) else LONGEST


def samples(loaded: Any, asked: Decoded) -> bool:
    """Whether the request draws; one that asks for samples and beams together is refused."""
    settings = loaded.decoding.asked(do_sample=asked.do_sample, num_beams=asked.num_beams)
    return bool(settings.do_sample)


def together(loaded: Any, asked: Asked, *inputs: str) -> Any:
    """What work must share to be done together: the options. Draws follow from a text's place in its request, so a
    request that draws is done by itself."""
    if isinstance(asked, Decoded) and samples(loaded, asked):
        return None
    return type(asked).__name__, asked.model_dump_json(exclude={"model", *inputs})


VERBS: dict[str, Verb] = {
    "translate": Verb("Translate texts.", schemas.Translate, schemas.Translated, (Translator,), translate),
    "generate": Verb("Go on from prompts.", schemas.Generate, schemas.Generated, (LanguageModel,), generate),
    "fill": Verb("Find the words behind every [MASK].", schemas.Fill, schemas.Filled, (MaskFiller,), fill),
    "classify": Verb(
        "Label texts or pictures.", schemas.Classify, schemas.Classified, (Classifier, ImageClassifier), classify
    ),
    "tag": Verb("Tag the words of sentences.", schemas.Tag, schemas.Tagged, (Tagger, TokenTagger), tag),
    "embed": Verb(
        "One vector per text or picture.", schemas.Embed, schemas.Embedded, (TextEmbedder, ImageEmbedder), embed
    ),
    "caption": Verb("Say what pictures show.", schemas.Caption, schemas.Captioned, (Captioner,), caption),
    "match": Verb("Label pictures by a few examples.", schemas.Match, schemas.Classified, (Matcher,), match),
    "attention": Verb(
        "What attends to what: first the tokens and shapes, then the weights of chosen layers, heads and rows.",
        schemas.Attention,
        schemas.Attended,
        LOOKERS,
        attention,
    ),
}
