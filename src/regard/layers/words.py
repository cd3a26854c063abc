"""Words in and words out: one embedding for source and target, and the matrix that predicts the next word."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.unpadded import on_real_tokens
from regard.errors import UsageError
from regard.layers.dropout import Dropout


class Words(nn.Module):
    """Embeds tokens; compares states of `output_size` with every word. `tied` uses one matrix for both."""

    def __init__(self, vocabulary: int, embedding_size: int, output_size: int, *, tied: bool, dropout: float):
        super().__init__()
        if tied and output_size != embedding_size:
            raise UsageError(
                f"words are read as {embedding_size} numbers but said from {output_size}: "
                "model.tied needs both sizes equal"
            )
        self.embedding = nn.Embedding(vocabulary, embedding_size)
        nn.init.normal_(self.embedding.weight, std=embedding_size**-0.5)
        self.output = None if tied else nn.Linear(output_size, vocabulary, bias=False)
        self.dropout = Dropout(dropout)

    def forward(
        self, tokens: Int[Tensor, "*batch"], mask: Bool[Tensor, "*batch"] | None = None
    ) -> Float[Tensor, "*batch size"]:
        """Nothing is wanted of what `mask` hides."""
        if mask is None:
            return self._embedded(tokens)
        return on_real_tokens(lambda real: self._embedded(real.squeeze(-1)), mask, tokens.unsqueeze(-1))

    def _embedded(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch size"]:
        return self.dropout(self.embedding(tokens))

    @property
    def output_weight(self) -> Float[Tensor, "vocabulary size"]:
        return self.embedding.weight if self.output is None else self.output.weight

    def logits(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch vocabulary"]:
        return F.linear(states, self.output_weight)


class SaysWords(nn.Module):
    """A model with `words` of its own, with which its states are compared."""

    words: Words

    @property
    def output_weight(self) -> Float[Tensor, "vocabulary size"]:
        return self.words.output_weight

    def logits(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch vocabulary"]:
        return self.words.logits(states)
