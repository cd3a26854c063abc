"""What the explorer page may ask for."""

from typing import Annotated, Literal

from pydantic import Field

from regard.explorer.limits import BEAMS
from regard.explorer.schemas import Asked, Pictures

Number = Annotated[int, Field(ge=0, le=1 << 31)]
Name = Annotated[str, Field(max_length=200)]
Line = Annotated[str, Field(min_length=1, max_length=4000)]
How = Literal["all", "rollout", "flow", "gradient"]
ROWS = 16  # of one reply
Instead = Literal["zero", "mean"]  # what a head that is off reads


class Run(Asked):
    """An example; without a text or a picture, one that suits the model."""

    text: str | None = None
    second_text: str | None = None
    image: str | None = None  # base64
    examples: Annotated[dict[Name, Pictures], Field(max_length=64)] = {}  # by label: what a picture is compared with
    target: str | None = None
    hypothesis: Annotated[int, Field(ge=0, lt=BEAMS)] = 0
    forced: Annotated[list[Number], Field(max_length=512)] = []
    more: Annotated[int, Field(ge=0, le=256)] = 16


class OfSession(Asked):
    session: Name


class Through(OfSession):
    """All layers of one kind at once."""

    kind: Name
    how: How


class OfAttention(OfSession):
    attention: Name


class Weights(OfAttention):
    head: Number | None = None


class Row(OfAttention):
    head: Number
    query: Number
    count: Annotated[int, Field(ge=1, le=ROWS)] = 1  # of rows, from this one on


class Margins(OfAttention):
    head: Number


class Tile(OfAttention):
    head: Number
    apart: bool = False  # whether the first key is left out
    level: Annotated[int, Field(ge=0, le=24)]
    row: Number
    column: Number


class Steps(OfAttention):
    query: Number
    head: Number
    row: Number = 0


class Addressing(OfAttention):
    query: Number
    head: Number


class Next(OfSession):
    place: Number


class Beam(OfSession):
    num_beams: Annotated[int, Field(ge=1, le=BEAMS)] = 4
    length_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1, le=64)] | None = None


class Path(OfAttention):
    """Tokens of a search, from its beginning to the node that is looked at."""

    tokens: Annotated[list[Number], Field(min_length=1, max_length=512)]
    head: Number | None = None


class WhatIf(OfSession):
    off: Annotated[dict[Name, Annotated[list[Number], Field(max_length=256)]], Field(max_length=256)]
    instead: Instead = "zero"


class Importance(OfSession):
    """Of one attention or of all, to lines of text or to the example of the session."""

    attention: Name | None = None
    lines: Annotated[list[Line], Field(max_length=100)] = []
    instead: Instead = "zero"


class Export(OfSession):
    """A picture of one map, a page, or the numbers."""

    format: Literal["html", "svg", "png", "json", "npz"]
    attention: Name | None = None  # the last, if none is named
    head: Number | None = None  # or else their mean
    kind: Name | None = None  # with `how`: all layers of it
    how: How | None = None
    unit: Literal["words", "subwords"] = "words"
    scale: Literal["sqrt", "linear"] = "sqrt"
    triangle: bool = False
