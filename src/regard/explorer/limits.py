"""What a request may ask for. Whatever is larger is refused before it costs anything."""

from dataclasses import dataclass

from regard.errors import UsageError

MEGABYTE = 1 << 20

TEXTS = 256  # of one request
PICTURES = 16  # of one request
PIXELS = 48_000_000  # of all pictures of one request
CHARACTERS_PER_TOKEN = 32  # a text with more characters than so many tokens could have is not even tokenized
BEAMS = 32
CELLS = 1 << 20  # attention weights in one reply
CELLS_COMPUTED = 1 << 26  # attention weights computed for one reply: 256 MB
MADE = 32  # tokens made for one request, all its texts and beams together, in multiples of `Limits.tokens`
BODY_SECONDS = 20.0  # until a body is there


@dataclass(frozen=True)
class Limits:
    """Those that whoever serves may change."""

    body: float = 10 * MEGABYTE  # bytes of a request
    tokens: int = 4096  # of all texts of a request together, and of what is generated from each of them
    concurrent: int = 64  # requests that are worked on or wait
    seconds: float = 60.0  # until an answer

    def __post_init__(self) -> None:
        for name in ("body", "tokens", "concurrent", "seconds"):
            if not getattr(self, name) > 0:
                raise UsageError(f"the limit {name} is {getattr(self, name)} but must be positive")
