"""How sentences are produced: the `decoding` section of a recipe and `generation_config.json` of a checkpoint.

The names are those Hugging Face users know.
"""

from dataclasses import dataclass, replace
from typing import Any

from regard.errors import UsageError


@dataclass(frozen=True)
class Decoding:
    num_beams: int = 5  # 1 is greedy (or sampling)
    length_penalty: float = 1.0  # a hypothesis scores log p / length ** length_penalty
    max_new_tokens: int | None = None  # null: twice the source's tokens and ten more, sentence by sentence
    do_sample: bool = False  # draw the next token instead of taking the best
    temperature: float = 1.0
    top_k: int | None = None  # sample among the k best tokens only
    top_p: float | None = None  # sample among the fewest tokens that hold this much probability
    renormalize_logits: bool = False  # the tokens a sentence may contain share the probability of those it may not
    seed: int = 0  # of the sampling; sentence i draws from (seed, i), whatever batch it is in
    batch_tokens: int = 4096  # source tokens times beams decoded together; changes speed, never results

    def __post_init__(self) -> None:
        if self.num_beams < 1:
            raise UsageError(f"decoding.num_beams is {self.num_beams} but must be at least 1")
        if self.do_sample and self.num_beams > 1:
            raise UsageError(
                f"decoding.do_sample needs num_beams=1, but num_beams is {self.num_beams}: beam sampling is not "
                "implemented; choose sampling or beams"
            )
        if self.temperature <= 0:
            raise UsageError(f"decoding.temperature is {self.temperature} but must be positive")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"decoding.top_p is {self.top_p} but must lie in (0, 1]")
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"decoding.top_k is {self.top_k} but must be at least 1")
        if self.seed < 0:
            raise UsageError(f"decoding.seed is {self.seed} but must not be negative")
        if self.batch_tokens < 1:
            raise UsageError(f"decoding.batch_tokens is {self.batch_tokens} but must be at least 1")
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise UsageError(f"decoding.max_new_tokens is {self.max_new_tokens} but must be at least 1")

    def asked(self, **given: Any) -> "Decoding":
        """These settings but for what is given; None is as it was.

        Whoever asks for sampling alone gets one beam, and whoever asks for beams alone, or for the one of greedy
        decoding, gets no sampling.
        """
        given = {name: value for name, value in given.items() if value is not None}
        if given.get("do_sample"):
            given = {"num_beams": 1} | given
        elif "num_beams" in given:
            given = given | {"do_sample": False}
        return replace(self, **given)

    def limit(self, source_tokens: int) -> int:
        """The most tokens a translation of so many source tokens may have, the end included."""
        return self.max_new_tokens if self.max_new_tokens is not None else 2 * source_tokens + 10
