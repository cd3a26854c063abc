"""What each verb makes of texts, as columns of a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow

from regard.data.frames import Text
from regard.data.labelled import LONGEST_TEXT
from regard.data.parallel import MAX_LINE_CHARACTERS
from regard.tasks.classifier import Classifier
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.mask_filler import TextEmbedder
from regard.tasks.translator import Translator

Options = dict[str, Any]  # of the verb's own function
Columns = dict[str, Any]  # pyarrow arrays, one entry per text


def strings(values: Sequence[str | None]) -> Any:
    return pyarrow.array(values, pyarrow.string())


def numbers(values: Sequence[float | None]) -> Any:
    return pyarrow.array(values, pyarrow.float64())


def translate(model: Translator, texts: Sequence[str], number: int, options: Options) -> Columns:
    options = dict(options)
    alignments = options.pop("alignments", False)
    said = model.translate(texts, **options, first_number=number)
    columns = {"translation": strings([one.text for one in said]), "score": numbers([one.score for one in said])}
    return columns | ({"alignment": strings([links[0] for links in model.links(said)])} if alignments else {})


def generate(model: LanguageModel, texts: Sequence[str], number: int, options: Options) -> Columns:
    said = model.generate(texts, **options, first_number=number)
    return {"generated": strings([one.text for one in said]), "score": numbers([one.score for one in said])}


def classify(model: Classifier, texts: Sequence[Text], number: int, options: Options) -> Columns:
    judged = model.classify(texts, **options)
    return {
        "label": strings([one.label or None for one in judged]),
        "probability": numbers([one.probability if one.label else None for one in judged]),
    }


def embed(model: TextEmbedder, texts: Sequence[str], number: int, options: Options) -> Columns:
    vectors = model.embed(texts, **options)
    values = pyarrow.array(vectors.ravel(), pyarrow.float32())
    return {"embedding": pyarrow.FixedSizeListArray.from_arrays(values, vectors.shape[1])}


@dataclass(frozen=True)
class Verb:
    """Who can do it, to how long a text, and what comes out."""

    kind: type
    longest: int  # characters
    columns: tuple[str, ...]
    answer: Callable[[Any, Sequence[Any], int, Options], Columns]

    def new_columns(self, options: Options) -> tuple[str, ...]:
        return (*self.columns, *(["alignment"] if options.get("alignments") else []))


VERBS = {
    "translate": Verb(Translator, MAX_LINE_CHARACTERS, ("translation", "score"), translate),
    "generate": Verb(LanguageModel, MAX_LINE_CHARACTERS, ("generated", "score"), generate),
    "classify": Verb(Classifier, LONGEST_TEXT, ("label", "probability"), classify),
    "embed": Verb(TextEmbedder, LONGEST_TEXT, ("embedding",), embed),
}
