"""What clients send and what they get: one model per verb, from which the OpenAPI description is made.

The options of decoding have the names that Hugging Face users know; what is not given comes from the checkpoint.
"""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from regard.explorer.limits import BEAMS, PICTURES, TEXTS

SEEDS = 1 << 53  # what every JSON reader takes for a whole number
LONGEST_NAME, LONGEST_STOP = 200, 1000  # characters of names and labels, and of what ends a text


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int) else value


def _one_or(count: int, kind: str = "string") -> tuple[Any, ...]:
    """What makes a list of a single value, and of a list one that is neither empty nor long."""
    several = {"type": "array", "items": {"type": kind}, "minItems": 1, "maxItems": count}
    bounds = Field(min_length=1, max_length=count)
    return bounds, BeforeValidator(_as_list), WithJsonSchema({"anyOf": [{"type": kind}, several]})


Label = Annotated[str, Field(max_length=LONGEST_NAME)]  # it may be repeated for every result
Index = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
Texts = Annotated[list[str], *_one_or(TEXTS)]
Pictures = Annotated[list[str], *_one_or(PICTURES)]
Stops = Annotated[list[Annotated[str, Field(max_length=LONGEST_STOP)]], *_one_or(16)]
Numbers = Annotated[list[Index], *_one_or(4096, "integer")]
Names = Annotated[list[Index | Label], Field(min_length=1, max_length=256), BeforeValidator(_as_list)]
IMAGES = "Pictures in base64; in a multipart form, files."


class Asked(BaseModel):
    """What every request may say."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    model: str | None = Field(
        default=None, max_length=500, description="Its name in /v1/models; needed when several are served."
    )

    def options(self, *without: str) -> dict[str, Any]:
        """What is given beside the model and these fields."""
        return self.model_dump(exclude={"model", *without}, exclude_none=True)


class Decoded(Asked):
    """The options of a search."""

    num_beams: int | None = Field(default=None, ge=1, le=BEAMS, description="1 is greedy.")
    length_penalty: float | None = Field(default=None, ge=-10, le=10)
    max_new_tokens: int | None = Field(default=None, ge=1)
    do_sample: bool | None = Field(default=None, description="Draw instead of searching the best.")
    temperature: float | None = Field(default=None, ge=0.01, le=100)
    top_k: int | None = Field(default=None, ge=1, le=SEEDS)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=0, le=SEEDS)
    num_return_sequences: int = Field(default=1, ge=1, le=BEAMS, description="How many hypotheses of each.")


class Translate(Decoded):
    texts: Texts
    alignments: bool = Field(default=False, description="Add word links (source-target, from 0).")


class Generate(Decoded):
    prompts: Texts = Field(description="What to go on from; an empty one is the beginning of a text.")
    stop: Stops | None = Field(default=None, description="A text ends before the first of these.")
    stream: bool = Field(default=False, description="Send a single text while it is made, as server-sent events.")


class Fill(Asked):
    texts: Texts = Field(description="With a [MASK] for every word to find.")
    top: int = Field(default=5, ge=1, le=100, description="How many words to offer for each gap.")


class Classify(Asked):
    texts: Texts | None = None
    second_texts: Texts | None = Field(default=None, description="The other text of each pair.")
    images: Pictures | None = Field(default=None, description=IMAGES)


class Tag(Asked):
    texts: Texts = Field(description="Sentences, with blanks between their words.")


class Embed(Asked):
    texts: Texts | None = None
    images: Pictures | None = Field(default=None, description=IMAGES)
    pooling: Label | None = Field(default=None, description="mean or cls (default: as it was built).")
    normalize: bool | None = Field(default=None, description="Whether vectors get length one.")


class Caption(Decoded):
    images: Pictures = Field(description=IMAGES)


class Match(Asked):
    images: Pictures = Field(description="Pictures to label, in base64.")
    examples: dict[Label, Pictures] = Field(min_length=2, max_length=64, description="A few pictures by their label.")


class Attention(Asked):
    text: str | None = None
    second_text: str | None = Field(default=None, description="The other text of a pair.")
    image: str | None = Field(default=None, description="A picture in base64; in a multipart form, a file.")
    target: str | None = Field(default=None, description="Look at this translation or caption, not at the model's own.")
    weights: bool = Field(default=False, description="Send the weights too, of what is chosen by the following.")
    layers: Names | None = Field(default=None, description="Names of attentions, or numbers from 0 (-1 is the last).")
    heads: Numbers | None = Field(default=None, description="From 0; -1 is the last.")
    queries: Numbers | None = Field(default=None, description="Rows, from 0; -1 is the last.")


# Replies


class Hypothesis(BaseModel):
    text: str
    score: float | None = Field(description="log p / length ** length_penalty")


class Linked(Hypothesis):
    alignment: str | None = Field(default=None, description="Word links, such as 0-0 1-2.")


class Translated(Linked):
    source: str
    nbest: list[Linked]


class Generated(Hypothesis):
    prompt: str
    nbest: list[Hypothesis]


class Guess(BaseModel):
    word: str
    probability: float


class Filled(Hypothesis):
    source: str
    guesses: list[list[Guess]] = Field(description="For each gap, best first.")


class Classified(BaseModel):
    label: str | None = Field(description="None for a text without a word.")
    probabilities: dict[str, float]


class Tagged(BaseModel):
    words: list[str]
    tags: list[str]
    probabilities: list[float]


class Embedded(BaseModel):
    embedding: list[float]


class Captioned(Hypothesis):
    nbest: list[Hypothesis]


class Side(BaseModel):
    """What looks and what is looked at, in all attentions of one kind."""

    queries: list[str]
    keys: list[str] = Field(description="Empty over a picture, whose regions have no names.")
    query_words: list[int] | None = Field(default=None, description="For each token the number of its word.")
    key_words: list[int] | None = None
    visible: list[int] | None = Field(default=None, description="How many keys each query may look at.")
    grid: list[int] | None = Field(default=None, description="Over a picture: rows and columns of regions.")


class Attending(BaseModel):
    """One attention of the model."""

    name: str
    kind: str
    layer: int | None = Field(description="Counted from 1.")
    shape: list[int] = Field(description="Heads, queries, keys.")
    heads: list[int] | None = Field(default=None, description="Of the weights, from 0.")
    rows: list[int] | None = Field(default=None, description="Of the weights, from 0.")
    weights: list[list[list[float]]] | None = Field(default=None, description="[heads][rows][keys]")


class Word(BaseModel):
    text: str
    weight: float


class Sentence(Word):
    words: list[Word]


class Attended(BaseModel):
    said: str | None = Field(description="The translation, caption or label that was looked at.")
    sides: dict[str, Side] = Field(description="By the kind of attention.")
    attentions: list[Attending]
    document: list[Sentence] | None = Field(default=None, description="Of a model that weighs sentences and words.")


class ModelCard(BaseModel):
    name: str
    kind: str = Field(description="Such as translator.")
    family: str | None
    parameters: int
    verbs: list[str]
    reads: str = Field(description="texts or images")
    labels: list[str] | None = None


class Models(BaseModel):
    models: list[ModelCard]
